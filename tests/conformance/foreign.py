"""What the drivers of suites that nobody here wrote have in common.

Such a suite is never part of this repository. A driver gets it by package name from a registry into a cache outside the
tree, or takes a folder where its source lies; then it starts servers, runs the suite unmodified and sums up:

    N passed, N failed, N skipped

Servers stand where a suite expects them, often on 2379. So a driver runs everything in a network and a process table of
its own (`isolate`), where 2379 is free, nothing outside is reached, and whatever is left over ends with the driver. All
fetching is done before.

RALLYPOINT_BINARY=path   the server (default: the newest build). An etcd works too, as the baseline: a test that fails there
                         as well tells nothing about us.
RALLYPOINT_CACHE=dir     where fetched things are kept (default ~/.cache/rallypoint)
"""
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from cluster import find_binary, is_etcd, wait_for  # noqa: E402,F401

CACHE = pathlib.Path(os.environ.get("RALLYPOINT_CACHE", "~/.cache/rallypoint")).expanduser()
ETCD_MODULES_VERSION = "v3.6.16"  # of the current etcdctl, its tests, and the newer reference server
PYTHON = "/usr/bin/python3"       # Debian's; another python3 may come first in PATH
ISOLATED = "RALLYPOINT_ISOLATED"


def say(text):
    print(text, flush=True)


def is_baseline():
    """Whether the server is an etcd: ETCD_BASELINE=1 says so, or the name of the binary does."""
    return bool(os.environ.get("ETCD_BASELINE")) or is_etcd(find_binary())


def etcd_version(binary):
    """What the binary calls its etcd version, for suites that want to be told."""
    first = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return first.split()[-1]


def isolated():
    return bool(os.environ.get(ISOLATED))


def isolate():
    """Starts the program anew in a network and a process table of its own. Returns there only. Needs root."""
    if isolated():
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    if os.geteuid() != 0 or not shutil.which("unshare"):
        raise SystemExit("this driver gives the suite a network of its own: run it as root, with unshare (util-linux) at hand")
    os.environ[ISOLATED] = "1"
    os.execvp("unshare", ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
                          sys.executable, *sys.argv])


# ---- getting things by package name; nothing here runs after isolate() ----

def go_program(package, module, version=ETCD_MODULES_VERSION, test=False):
    """A program (or, with test, a package's compiled tests) of a Go module, built once and kept in the cache."""
    name = package.rsplit("/", 1)[-1]
    name = module.rsplit("/", 2)[-2] if name.startswith("v") and name[1:].isdigit() else name
    built = CACHE / "go" / version / (name + ".test" if test else name)
    if built.exists() or isolated():
        return str(built)
    if not shutil.which("go"):
        raise SystemExit(f"Go is needed to build {package} (Debian: golang-go is too old for it; 1.24 or later)")
    say(f"building {package} {version} (once; kept in {CACHE})")
    built.parent.mkdir(parents=True, exist_ok=True)
    # A module of our own around it: `go install` refuses modules that have replace directives.
    with tempfile.TemporaryDirectory() as scratch:
        environment = dict(os.environ, GOFLAGS="-p=1 -mod=mod")
        steps = [["go", "mod", "init", "scratch"], ["go", "get", *(["-t"] if test else []), f"{package}@{version}"]]
        steps.append(["go", "test", "-c", "-tags", "e2e", "-o", str(built), package] if test
                     else ["go", "build", "-o", str(built), package])
        for step in steps:
            subprocess.run(step, cwd=scratch, env=environment, check=True, stderr=subprocess.DEVNULL if step[1] != "build" else None)
        if test:
            found = subprocess.run(["go", "list", "-f", "{{.Dir}}", package], cwd=scratch, env=environment, check=True,
                                   capture_output=True, text=True)
            (built.parent / f"{name}.folder").write_text(found.stdout.strip())
    return str(built)


def go_test_folder(built):
    """The folder that compiled tests expect to run in (their fixtures lie beside it)."""
    return pathlib.Path(built.removesuffix(".test") + ".folder").read_text().strip()


def python_environment(name, packages):
    """The python of a virtual environment in the cache that has the packages."""
    folder = CACHE / "venv" / name
    python, stamp = folder / "bin" / "python", folder / "packages"
    if isolated() or (stamp.exists() and stamp.read_text() == "\n".join(packages)):
        return str(python)
    say(f"installing {' '.join(packages)} (once; kept in {CACHE})")
    subprocess.run([PYTHON, "-m", "venv", "--clear", str(folder)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
    stamp.write_text("\n".join(packages))
    return str(python)


# ---- servers ----

class Servers:
    """A cluster on given names and the ports 2379, 2381, ...: where suites look for one. `with` starts and ends it."""

    def __init__(self, binary, names=("n1", "n2", "n3"), first_port=2379, arguments=(), prefix="", directory=None):
        self.binary, self.names, self.arguments, self.prefix = binary, names, list(arguments), prefix
        self.client_urls = [f"http://127.0.0.1:{first_port + 2 * i}" for i in range(len(names))]
        self.peer_urls = [f"http://127.0.0.1:{first_port + 2 * i + 1}" for i in range(len(names))]
        self.base = pathlib.Path(directory or tempfile.mkdtemp(prefix="rallypoint-foreign-"))
        self.processes = []

    @property
    def endpoints(self):
        return ",".join(self.client_urls)

    def start_one(self, index, more=()):
        name = self.names[index]
        everyone = ",".join(f"{n}={u}" for n, u in zip(self.names, self.peer_urls))
        arguments = [self.binary, "--name", name, "--data-dir", str(self.base / name),
                     "--listen-client-urls", self.client_urls[index], "--advertise-client-urls", self.client_urls[index],
                     "--listen-peer-urls", self.peer_urls[index], "--initial-advertise-peer-urls", self.peer_urls[index],
                     "--initial-cluster", everyone, "--initial-cluster-token", str(self.base), *self.arguments, *more]
        with open(self.base / f"{name}.log", "ab") as log:
            return subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def healthy(self, url):
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=1)
        try:
            connection.request("GET", "/health")
            return str(json.loads(connection.getresponse().read())["health"]) == "true"
        except (OSError, ValueError, KeyError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def __enter__(self):
        self.processes = [self.start_one(i) for i in range(len(self.names))]
        try:
            for name, url in zip(self.names, self.client_urls):
                wait_for(f"{name} healthy", lambda: self.healthy(url), 30)
        except AssertionError:
            self.show_logs()
            self.__exit__()
            raise
        return self

    def show_logs(self):
        for name in self.names:
            say(f"--- end of {name}'s log")
            say("\n".join((self.base / f"{name}.log").read_text(errors="replace").splitlines()[-8:]))

    def alive(self):
        return all(process.poll() is None for process in self.processes)

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        if not os.environ.get("RALLYPOINT_KEEP_DATA"):
            shutil.rmtree(self.base, ignore_errors=True)


# ---- summing up ----

class Results:
    """Counts what a suite said. `known` maps a regular expression of names to the reason why it may fail with us (not on etcd)."""

    def __init__(self, known=None):
        self.known = {} if is_baseline() else dict(known or {})
        self.passed, self.skipped, self.failures, self.excused = 0, 0, [], []

    def add(self, name, outcome, detail=""):
        if outcome == "passed":
            self.passed += 1
        elif outcome == "skipped":
            self.skipped += 1
        else:
            reason = next((why for pattern, why in self.known.items() if re.search(pattern, name)), None)
            self.excused.append((name, reason)) if reason else self.failures.append((name, detail))

    def add_junit(self, path):
        for case in xml.etree.ElementTree.parse(path).iter("testcase"):
            bad = next((child for child in case if child.tag in ("failure", "error")), None)
            outcome = "failed" if bad is not None else "skipped" if case.find("skipped") is not None else "passed"
            self.add(f"{case.get('classname')}.{case.get('name')}", outcome,
                     (bad.get("message") or bad.text or "") if bad is not None else "")

    def finish(self, began):
        for name, detail in self.failures:
            say(f"   FAILED  {name}: {' '.join(detail.split())[:300]}")
        for name, reason in self.excused:
            say(f"   known   {name}: {reason}")
        say(f"   {time.monotonic() - began:.0f} s, server {find_binary()}; known differences count as skipped: {len(self.excused)}")
        say(f"{self.passed} passed, {len(self.failures)} failed, {self.skipped + len(self.excused)} skipped")
        return 1 if self.failures or not self.passed else 0
