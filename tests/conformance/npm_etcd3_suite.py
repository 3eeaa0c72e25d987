#!/usr/bin/python3
"""The own test-suite of npm's etcd3 (the Node client of etcd), unmodified, against the binary.

    ETCD3_SOURCE=folder tests/conformance/npm_etcd3_suite.py [mocha arguments]      e.g. -g watch

The npm package has no tests, so a checkout of the project microsoft/etcd3 is needed, with its dependencies installed and
its TypeScript compiled (lib/test/*.test.js there), as its readme says. Node 16 or later (Debian: nodejs).
The suite speaks TLS alone, with certificates of its own: an etcd gets those as options; in front of the binary, as long as
it speaks no TLS, stands tls_front.js. Other settings: see foreign.py. On etcd 3.4.23: 155 pass, 2 are skipped.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import foreign

AUTH = "users and roles (auth) are not built yet"
KNOWN = {r"(?i)\b(auth|role|user|password)|\(#114\)": AUTH}  # #114 sets a user up first


def main():
    binary, tree = foreign.find_binary(), os.environ.get("ETCD3_SOURCE", "")
    if not pathlib.Path(tree, "lib", "test", "_setup.js").exists():
        raise SystemExit("ETCD3_SOURCE must name a checkout of the project microsoft/etcd3, with dependencies and lib/test")
    foreign.isolate()
    tree = pathlib.Path(tree).resolve()
    certificates = tree / "src" / "test" / "certs"
    certificate, key = certificates / "certs" / "etcd0.localhost.crt", certificates / "private" / "etcd0.localhost.key"
    began, results, front = time.monotonic(), foreign.Results(KNOWN), None
    with tempfile.TemporaryDirectory() as work, foreign.Servers(binary, ("n1",), first_port=2479) as servers:
        front = subprocess.Popen(["node", str(pathlib.Path(__file__).parent / "tls_front.js"), "2379", "2479",
                                  str(certificate), str(key)], stdout=subprocess.PIPE)
        front.stdout.readline()
        version = foreign.etcd_version(binary) if foreign.is_baseline() else "3.4.23"
        environment = dict(os.environ, ETCD_ADDR="127.0.0.1:2379", ETCD_VERSION=version)
        out = os.path.join(work, "report.json")
        ran = subprocess.run(["node", "node_modules/mocha/bin/mocha.js", "--reporter", "json", "--reporter-option", f"output={out}",
                              *sys.argv[1:]], cwd=tree, env=environment, capture_output=True, text=True)
        pathlib.Path(os.environ.get("RALLYPOINT_SUITE_LOG", "/dev/null")).write_text(ran.stdout + ran.stderr)
        front.kill()
        front.wait()
        if not os.path.exists(out):
            foreign.say((ran.stdout + ran.stderr)[-3000:])
            raise SystemExit(f"mocha ended with {ran.returncode} and no report")
        report = json.loads(pathlib.Path(out).read_text())
        for kind, outcome in (("passes", "passed"), ("failures", "failed"), ("pending", "skipped")):
            for test in report[kind]:
                results.add(test["fullTitle"], outcome, (test["err"] or {}).get("message", ""))
        if not servers.alive():
            results.add("the server ended", "failed", "see its log")
            servers.show_logs()
    return results.finish(began)


if __name__ == "__main__":
    sys.exit(main())
