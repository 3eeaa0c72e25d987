#!/usr/bin/python3
"""python-etcd3's own test-suite, unmodified, against three members of the binary.

    tests/conformance/python_etcd3_suite.py [pytest arguments]      e.g. -k lock -x

The tests come with the source package of `etcd3` on PyPI (0.12.0). PYTHON_ETCD3_SOURCE=folder takes a checkout of the
python-etcd3 project instead, whose tests are somewhat newer. The suite stops members with SIGSTOP, which it finds by their
name `pifpaf1` and `pifpaf2`, and compares with what `etcdctl` (Debian's etcd-client) sees.
Other settings: see foreign.py. On etcd 3.4.23: 82 pass.
"""
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time

import foreign

PACKAGES = ["grpcio", "protobuf==3.20.3", "six", "tenacity==6.1.0", "hypothesis", "mock", "pytest", "pytest-timeout"]
KNOWN = {
    "test_user_pwd_auth": "users and roles (auth) are not built yet",
    "test_snapshot": "etcdctl reads the saved file as etcd's own store format; a snapshot of ours is restored by our own tool",
}
# The released tests are older than Hypothesis's dislike of fixtures that live through several examples.
PLUGIN = """
import hypothesis
register = hypothesis.settings.register_profile
def patient(name, *arguments, **settings):
    settings.setdefault("suppress_health_check", list(hypothesis.HealthCheck))
    settings.setdefault("max_examples", 20)
    register(name, *arguments, **settings)
type.__setattr__(hypothesis.settings, "register_profile", staticmethod(patient))
"""


def source():
    named = os.environ.get("PYTHON_ETCD3_SOURCE")
    if named:
        return pathlib.Path(named).resolve()
    folder = foreign.CACHE / "python-etcd3" / "etcd3-0.12.0"
    if not folder.exists() and not foreign.isolated():
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([foreign.PYTHON, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:",
                        "-d", str(folder.parent), "etcd3==0.12.0"], check=True)
        with tarfile.open(folder.parent / "etcd3-0.12.0.tar.gz") as archive:
            archive.extractall(folder.parent)
    return folder


def main():
    binary, tree = foreign.find_binary(), source()
    python = foreign.python_environment("python-etcd3", PACKAGES)
    foreign.isolate()
    began, results = time.monotonic(), foreign.Results(KNOWN)
    with tempfile.TemporaryDirectory() as work, foreign.Servers(binary, ("pifpaf0", "pifpaf1", "pifpaf2")) as servers:
        pathlib.Path(work, "patient.py").write_text(PLUGIN)
        report = os.path.join(work, "report.xml")
        version = "v3.4.23" if not foreign.is_baseline() else "v" + foreign.etcd_version(binary)
        environment = dict(os.environ, PYTHON_ETCD_HTTP_URL=servers.client_urls[0], TEST_ETCD_VERSION=version,
                           PYTHONPATH=os.pathsep.join((str(tree), str(tree / "etcd3"), work)), ETCDCTL_API="3",
                           PATH=os.pathsep.join(("/usr/bin", os.environ["PATH"])), PYTHONDONTWRITEBYTECODE="1")
        ran = subprocess.run([python, "-m", "pytest", "-q", "-p", "patient", "-p", "no:cacheprovider", "-W", "ignore",
                              "--timeout=120", "--tb=short", f"--junitxml={report}", *sys.argv[1:], str(tree / "tests")],
                             env=environment, cwd=tree, stdout=open(os.path.join(work, "out"), "w"), stderr=subprocess.STDOUT)
        output = pathlib.Path(work, "out").read_text()
        pathlib.Path(os.environ.get("RALLYPOINT_SUITE_LOG", "/dev/null")).write_text(output)
        if not os.path.exists(report):
            foreign.say(output[-3000:])
            raise SystemExit(f"pytest ended with {ran.returncode} and no report")
        results.add_junit(report)
        if not servers.alive():
            results.add("a member ended", "failed", "see its log")
            servers.show_logs()
    return results.finish(began)


if __name__ == "__main__":
    sys.exit(main())
