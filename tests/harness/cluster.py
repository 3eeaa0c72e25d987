"""A cluster of real processes on loopback, for the tests and benchmarks that drive the binary from outside.

The binary is a parameter, so that everything here also runs against Debian's etcd 3.4 (a harness that only ever saw
its own server proves little):

    with Cluster(3, binary=find_binary()) as cluster:
        cluster.leader().kill()

Processes are ended by the handles kept here, never by name. Waiting is always waiting *for* something with a
deadline; what timed out says so by name.
"""
import base64
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
ETCD = "/usr/bin/etcd"
START_SECONDS_MAX = 20.0


def find_binary():
    """RALLYPOINT_BINARY, or the newest of the usual builds."""
    named = os.environ.get("RALLYPOINT_BINARY")
    if named:
        if not os.access(named, os.X_OK):
            raise SystemExit(f"RALLYPOINT_BINARY={named} is not an executable file")
        return os.path.abspath(named)
    built = [REPOSITORY / "build" / preset / "rallypoint" for preset in ("release", "dev")]
    built = [path for path in built if path.exists()]
    if not built:
        raise SystemExit("no binary: run `cmake --preset release && cmake --build build/release`, or set RALLYPOINT_BINARY")
    return str(max(built, key=lambda path: path.stat().st_mtime))


def is_etcd(binary):
    return os.path.basename(binary) == "etcd"


def free_ports(count):
    """Ports below the ephemeral range, so that no outgoing connection takes one before its server binds it."""
    held = []
    while len(held) < count:
        holder = socket.socket()
        try:
            holder.bind(("127.0.0.1", random.randrange(20000, 32000)))
            held.append(holder)
        except OSError:
            holder.close()
    ports = [holder.getsockname()[1] for holder in held]
    for holder in held:
        holder.close()
    return ports


def wait_for(what, condition, seconds):
    """The first true value of condition(), or AssertionError that names what did not come."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(0.01)


class Answer:
    """One HTTP answer. `json` is None when the body is not JSON."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        try:
            self.json = json.loads(body)
        except ValueError:
            self.json = None

    @property
    def index(self):
        return int(self.headers["X-Etcd-Index"])

    @property
    def value(self):
        return self.json["node"]["value"]

    def __repr__(self):
        return f"{self.status} {self.body[:200]!r}"


def request(port, method, path, form=None, query=None, timeout=10.0, host="127.0.0.1"):
    """One request on a connection of its own. OSError or HTTPException = the outcome is unknown."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        headers, body = {}, None
        if query:
            path += "?" + urllib.parse.urlencode(query)
        if form is not None:
            body = urllib.parse.urlencode(form)
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


UNKNOWN_OUTCOME = (OSError, http.client.HTTPException)


class Node:
    """One member: its ports, its directory, its process. kill, stop and start may be called in any order."""

    def __init__(self, cluster, number, client_port, peer_port):
        self.cluster = cluster
        self.number = number
        self.name = f"n{number}"
        self.client_port, self.peer_port = client_port, peer_port
        self.client_url = f"http://127.0.0.1:{client_port}"
        self.peer_url = f"http://127.0.0.1:{peer_port}"
        self.data_dir = cluster.base / self.name
        self.log_path = cluster.base / f"{self.name}.log"
        self.process = None
        self.cluster_state = "new"
        self.removed = False  # from the cluster: no longer in a new member's initial-cluster

    def arguments(self):
        return [self.cluster.binary, "--name", self.name, "--data-dir", str(self.data_dir), "--enable-v2",
                "--listen-client-urls", self.client_url, "--advertise-client-urls", self.client_url,
                "--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url,
                "--initial-cluster", self.cluster.initial_cluster(), "--initial-cluster-state", self.cluster_state,
                "--initial-cluster-token", self.cluster.token, *self.cluster.arguments]

    def start(self, arguments=None, **popen):
        assert not self.alive(), f"{self.name} is running"
        environment = dict(os.environ, **self.cluster.environment)
        if not is_etcd(self.cluster.binary):
            environment.setdefault("RALLYPOINT_EXIT_WITH_PARENT", "1")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(arguments or self.arguments(), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env=environment, **popen)
        return self

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """kill -9; also of a stopped process."""
        if self.alive():
            self.process.kill()
        if self.process is not None:
            self.process.wait()

    def terminate(self, seconds=10.0):
        """SIGTERM; returns the seconds until the process was gone."""
        started = time.monotonic()
        self.process.terminate()
        self.process.wait(seconds)
        return time.monotonic() - started

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def get(self, path, timeout=5.0, **query):
        return request(self.client_port, "GET", path, query=query, timeout=timeout)

    def put(self, key, value, timeout=10.0, **form):
        return request(self.client_port, "PUT", "/v2/keys" + key, form={"value": value, **form}, timeout=timeout)

    def read(self, key, timeout=10.0, **query):
        return request(self.client_port, "GET", "/v2/keys" + key, query=query, timeout=timeout)

    def healthy(self):
        try:
            answer = self.get("/health", timeout=1.0)
            return answer.status == 200 and str(answer.json.get("health")).lower() == "true"
        except (*UNKNOWN_OUTCOME, AttributeError):
            return False

    def wait_healthy(self, seconds=START_SECONDS_MAX):
        def condition():
            if self.process is not None and self.process.poll() is not None:
                raise AssertionError(f"{self.name} exited with {self.process.returncode}:\n{self.log_tail()}")
            return self.healthy()
        wait_for(f"{self.name} healthy", condition, seconds)
        return self

    def is_leader(self):
        try:
            answer = self.get("/v2/stats/self", timeout=0.5)
            return answer.status == 200 and answer.json.get("state") == "StateLeader"
        except (*UNKNOWN_OUTCOME, AttributeError):
            return False

    def cpu_seconds(self):
        """User and system time of the process so far, ended threads included, in nanosecond steps."""
        return time.clock_gettime((~self.process.pid << 3) | 2)  # Linux: CPUCLOCK_SCHED of a process

    def log_tail(self, lines=15):
        try:
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return "(no log)"

    def __repr__(self):
        return self.name


class Cluster:
    def __init__(self, size=3, binary=None, arguments=(), environment=None, directory=None, keep=False):
        self.binary = binary or find_binary()
        self.arguments, self.environment = list(arguments), dict(environment or {})
        self.base = pathlib.Path(directory or tempfile.mkdtemp(prefix="rallypoint-test-"))
        self.keep = keep or bool(os.environ.get("RALLYPOINT_KEEP_DATA"))
        self.token = base64.b16encode(os.urandom(6)).decode()
        ports = free_ports(2 * size)
        self.nodes = [Node(self, number, ports[2 * number - 2], ports[2 * number - 1]) for number in range(1, size + 1)]

    def initial_cluster(self):
        return ",".join(f"{node.name}={node.peer_url}" for node in self.nodes if not node.removed)

    def prepare_node(self):
        """One node more, not started: for a member that is added later. Its start says `existing`."""
        client_port, peer_port = free_ports(2)
        node = Node(self, len(self.nodes) + 1, client_port, peer_port)
        node.cluster_state = "existing"
        self.nodes.append(node)
        return node

    def start(self):
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.wait_healthy()
        return self

    def stop(self):
        for node in self.nodes:
            if node.alive():
                node.resume()
                node.kill()
        if not self.keep:
            shutil.rmtree(self.base, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, kind, error, trace):
        if kind is not None:
            for node in self.nodes:
                print(f"--- {node.name}, last lines of its log:\n{node.log_tail()}")
        self.stop()

    def leader(self, seconds=15.0):
        return wait_for("a leader", lambda: next((n for n in self.nodes if n.alive() and n.is_leader()), None), seconds)

    def followers(self):
        leader = self.leader()
        return [node for node in self.nodes if node is not leader]

    def others(self, node):
        return [other for other in self.nodes if other is not node]

    def node_with_port(self, port):
        return next(node for node in self.nodes if node.client_port == port)

    def node_in_use(self, seconds=20.0):
        """The live member with most established client connections (of any process on this machine)."""
        def busiest():
            counts = established_connections()
            used = [node for node in self.nodes if node.alive() and counts.get(node.client_port)]
            return max(used, key=lambda node: counts[node.client_port], default=None)
        return wait_for("a member with client connections", busiest, seconds)


def established_connections():
    """Remote port -> number of established TCP connections to it."""
    counts = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as rows:
            next(rows)
            for row in rows:
                fields = row.split()
                if fields[3] == "01":
                    port = int(fields[2].rsplit(":", 1)[1], 16)
                    counts[port] = counts.get(port, 0) + 1
    return counts
