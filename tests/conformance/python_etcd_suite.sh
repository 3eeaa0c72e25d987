#!/usr/bin/env bash
# python-etcd's own test-suite, as Debian's python3-etcd ships it, against the binary. On etcd 3.4: 138 pass, 7 fail (6 of
# test_auth expect an answer of an older etcd, 1 of test_ssl a certificate check that today's OpenSSL makes differently).
#   tests/conformance/python_etcd_suite.sh [pytest arguments]      e.g. -k 'not ssl'
# RALLYPOINT_BINARY=path: the binary (default: the newest build); /usr/bin/etcd gives the baseline.
# The suite starts `etcd` from PATH by itself, on ports 6001.. and 8001..; a wrapper stands there for the binary.
# test_ssl (TLS) and test_auth (v2 users and roles) test what a later release brings: their failures are shown and do not
# count. Exit 0 = everything of unit/ and test_simple passed.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
python=/usr/bin/python3
"$here/deploy/install-packages" torch test conformance
binary=${RALLYPOINT_BINARY:-$(PYTHONPATH="$here/tests/harness" $python -c 'from cluster import find_binary; print(find_binary())')}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#!/bin/sh\nexec "%s" "$@" --enable-v2=true\n' "$binary" >"$work/etcd"
chmod +x "$work/etcd"
tests=$($python -c 'import etcd.tests, os; print(os.path.dirname(etcd.tests.__file__))')
echo "binary $binary, tests $tests"
cd "$work"
log=$work/log
status=0
PATH="$work:$PATH" $python -m pytest -q -p no:cacheprovider -W ignore --tb=short "$@" "$tests" >"$log" 2>&1 || status=$?
cp "$log" "${RALLYPOINT_SUITE_LOG:-/dev/null}"
grep -E '^(FAILED|ERROR)|^E  ' "$log" | sort | uniq -c | sort -rn | head -n 40 || true
counted=0
for file in unit/ integration/test_simple integration/test_ssl test_auth; do
  failures=$(grep -cE "^(FAILED|ERROR) .*tests/$file" "$log" || true)
  echo "   $file: $failures not passed"
  case $file in unit/|integration/test_simple) counted=$((counted + failures)) ;; esac
done
tail -n 1 "$log"
[ $status -le 1 ] && [ $counted -eq 0 ]
