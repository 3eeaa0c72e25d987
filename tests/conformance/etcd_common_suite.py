#!/usr/bin/python3
"""etcd's own common tests (tests/common of the etcd project), unmodified, in which the binary stands for `etcd`.

    tests/conformance/etcd_common_suite.py [pattern of test names]      e.g. 'TestKV|TestTxn'

They come as a module of the Go module proxy (go.etcd.io/etcd/tests/v3), as do the etcdctl and etcdutl that they drive; Go
1.24 or later is needed. A test starts clusters by itself and speaks to them through etcdctl. Most run once for each kind of
TLS between peers and to clients. Counted are the innermost sub-tests. Other settings: see foreign.py.
Of its 88 tests the plain ones pass; those that want TLS, users or roles are listed as known.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import foreign

KNOWN = {
    r"(Peer|Client)(Auto)?TLS": "TLS is not built yet",
    r"^Test(Auth|Role|RootRole|User|\w+With(No|Invalid|Root|User)Auth)": "users and roles (auth) are not built yet",
}
RESULT = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+)", re.M)
OUTCOMES = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


def reasons(output):
    """Test -> the first lines that it logged as an error."""
    found, current = {}, ""
    for line in output.splitlines():
        started = re.match(r"=== (?:RUN|CONT|NAME) +(\S+)", line)
        if started:
            current = started.group(1)
        error = re.search(r"(Error:|_test\.go:\d+:|unexpected|panic:|expected)", line)
        if error and len(found.setdefault(current, [])) < 4 and "Error Trace" not in line:
            found[current].append(line.strip())
    return found


def main():
    binary = foreign.find_binary()
    suite = foreign.go_program("go.etcd.io/etcd/tests/v3/common", "go.etcd.io/etcd/tests/v3", test=True)
    tools = {name: foreign.go_program(f"go.etcd.io/etcd/{name}/v3", f"go.etcd.io/etcd/{name}/v3") for name in ("etcdctl", "etcdutl")}
    foreign.isolate()
    began, results = time.monotonic(), foreign.Results(KNOWN)
    with tempfile.TemporaryDirectory() as work:
        shutil.copy(binary, os.path.join(work, "etcd"))
        for name, path in tools.items():
            os.symlink(path, os.path.join(work, name))
        pattern = sys.argv[1] if len(sys.argv) > 1 else "."
        log = os.environ.get("RALLYPOINT_SUITE_LOG", os.path.join(work, "log"))
        with open(log, "w") as out:
            subprocess.run([suite, "-test.v", "-test.timeout=90m", "-test.run", pattern, "-bin-dir", work],
                           cwd=foreign.go_test_folder(suite), stdout=out, stderr=subprocess.STDOUT,
                           env=dict(os.environ, TMPDIR=work))
        output = pathlib.Path(log).read_text(errors="replace")
    seen = {name: outcome for outcome, name in RESULT.findall(output)}
    why = reasons(output)
    parents = {name[:slash.start()] for name in seen for slash in re.finditer("/", name)}
    top = [outcome for name, outcome in seen.items() if "/" not in name]
    for name, outcome in seen.items():
        if name not in parents:
            results.add(name, OUTCOMES[outcome], " | ".join(why.get(name, [])))
    if "panic: test timed out" in output:
        results.add("time-out of the whole", "failed")
    foreign.say(f"   whole tests: {top.count('PASS')} of {len(top)} pass, {top.count('SKIP')} skipped")
    return results.finish(began)


if __name__ == "__main__":
    sys.exit(main())
