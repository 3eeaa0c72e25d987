#!/usr/bin/env bash
# PyTorch's own test files for the etcd backends, run unmodified against the binary.
#   tests/conformance/pytorch_suite.sh              # all files, the slow ones too (10 to 15 minutes)
#   tests/conformance/pytorch_suite.sh rendezvous   # the quick ones: server, both rendezvous backends
#   tests/conformance/pytorch_suite.sh agent launcher
# RALLYPOINT_BINARY=path: the binary (default: the newest build); /usr/bin/etcd gives the baseline.
# RALLYPOINT_CACHE=dir: where the fetched source is kept (default ~/.cache/rallypoint).
# The files come from Debian's source package of the installed python3-torch; they are fetched, never committed.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
python=/usr/bin/python3
cache=${RALLYPOINT_CACHE:-$HOME/.cache/rallypoint}
binary=${RALLYPOINT_BINARY:-$(PYTHONPATH="$here/tests/harness" $python -c 'from cluster import find_binary; print(find_binary())')}
"$here/deploy/install-packages" torch test conformance
parts=("$@"); [ ${#parts[@]} -gt 0 ] || parts=(rendezvous agent launcher)

version=$(dpkg-query -W -f='${source:Version}' python3-torch)
tree=$cache/pytorch-$version
if [ ! -d "$tree/test/distributed" ]; then
  echo "fetching the source package pytorch $version (kept in $cache)"
  work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
  mkdir -p "$work/lists/partial" "$cache" "$tree"
  # A source list of our own, made from the machine's Debian ones: deb-src is off on most machines.
  mkdir "$work/parts"
  cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed '/^#/d' |
    awk -v RS='' -v ORS='\n\n' '/debian-archive-keyring/' | sed -E 's/^Types:.*/Types: deb-src/' >"$work/parts/debian.sources" || true
  grep -hE '^deb .* (main|bookworm)' /etc/apt/sources.list 2>/dev/null | sed 's/^deb /deb-src /' >"$work/parts/debian.list" || true
  [ -s "$work/parts/debian.sources" ] || [ -s "$work/parts/debian.list" ] ||
    { echo "pytorch_suite.sh: no Debian package source is set up on this machine; add one to /etc/apt" >&2; exit 1; }
  apt=(apt-get -q -o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$work/parts" -o "Dir::State::Lists=$work/lists"
       -o "APT::Sandbox::User=root" -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=")
  "${apt[@]}" update
  (cd "$work" && "${apt[@]}" source --download-only --tar-only "pytorch=$version")
  tar -xf "$work"/pytorch_*.orig.tar.xz -C "$tree" --strip-components=1 --wildcards '*/test/distributed'
fi

# A few of the files want PyTorch's development-only helper `expecttest`; a stub is enough.
stub=$(mktemp -d)
cat >"$stub/expecttest.py" <<'TEXT'
import unittest
ACCEPT = False
class TestCase(unittest.TestCase):
    pass
TEXT

export TORCHELASTIC_ETCD_BINARY_PATH=$binary OMP_NUM_THREADS=1 PYTHONPATH=$stub
failed=0
# timeout --foreground: a plain one would take the server down with the first file that is slow.
run() {  # run FOLDER FILE SECONDS ARGS...
  local folder=$1 file=$2 seconds=$3 log status=0; shift 3
  log=$(mktemp)
  (cd "$tree/test/distributed/$folder" && timeout --foreground "$seconds" $python -m pytest -q -p no:cacheprovider "$@" "$file") >"$log" 2>&1 || status=$?
  if [ $status -eq 0 ]; then echo "ok      $file: $(tail -n 1 "$log")"
  else failed=$((failed + 1)); echo "FAILED  $file (status $status): $(tail -n 1 "$log")"; grep -E '^(FAILED|ERROR|E  )' "$log" | head -n 20 | sed 's/^/        /'; fi
  rm -f "$log"
}
echo "binary $binary, PyTorch's tests of $version"
for part in "${parts[@]}"; do
  case $part in
    rendezvous)
      run elastic/rendezvous etcd_server_test.py 120
      run elastic/rendezvous etcd_rendezvous_test.py 120
      run elastic/rendezvous etcd_rendezvous_backend_test.py 120 ;;
    agent) run elastic/agent/server/test local_elastic_agent_test.py 1500 -k etcd ;;
    launcher) run launcher api_test.py 600 ;;
    *) echo "pytorch_suite.sh: no part '$part' (rendezvous agent launcher)" >&2; exit 2 ;;
  esac
done
rm -rf "$stub"
[ $failed -eq 0 ]
