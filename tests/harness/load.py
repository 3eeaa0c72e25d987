"""Writers that remember what was acknowledged, so that a check afterwards can demand it back.

An answer 2xx = done. No answer (the connection broke or timed out) = unknown: it may be there, at most once. What a
server says with another status is kept by status: on Rallypoint a 5xx within its waiting time is a bug, on etcd it
means unknown.
"""
import http.client
import random
import threading
import time
import urllib.parse

from cluster import UNKNOWN_OUTCOME, Answer


class Session:
    """A kept-alive connection to one member after the other: moves on when its member does not answer."""

    def __init__(self, nodes, timeout=15.0):
        self.nodes, self.timeout = list(nodes), timeout
        self.position, self.connection = 0, None

    def node(self):
        return self.nodes[self.position % len(self.nodes)]

    def call(self, method, path, form=None):
        """An Answer; raises one of UNKNOWN_OUTCOME and turns to the next member when there is none."""
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.node().client_port, timeout=self.timeout)
            body = urllib.parse.urlencode(form) if form is not None else None
            headers = {"Content-Type": "application/x-www-form-urlencoded"} if form is not None else {}
            self.connection.request(method, path, body=body, headers=headers)
            answer = self.connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        except UNKNOWN_OUTCOME:
            self.close()
            self.position += 1
            raise

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Writer(threading.Thread):
    """Base of the writers: one session, one loop, a record of what is known. Subclasses do one operation in once()."""

    def __init__(self, name, nodes, timeout=15.0):
        super().__init__(name=name, daemon=True)
        self.session = Session(nodes, timeout)
        self.stopping = threading.Event()
        self.acknowledged, self.unknown = [], []
        self.refused = {}  # status -> count, of answers that were neither 2xx nor an expected conflict
        self.error = None
        self.random = random.Random(name)

    def run(self):
        try:
            while not self.stopping.is_set():
                self.once()
        except Exception as error:  # shown by finish(): a dead writer must not look like a quiet one
            self.error = error
        finally:
            self.session.close()

    def finish(self):
        self.stopping.set()
        self.join(60)
        assert not self.is_alive(), f"{self.name} hangs in a request"
        if self.error:
            raise self.error
        return self

    def settle(self, what, answer):
        """Files one answer: done, or refused and so unknown."""
        if answer.status in (200, 201):
            self.acknowledged.append(what)
        else:
            self.refused[answer.status] = self.refused.get(answer.status, 0) + 1
            self.unknown.append(what)
            self.stopping.wait(0.05)

    def lost_answer(self, what):
        self.unknown.append(what)
        self.stopping.wait(0.02)


class KeyWriter(Writer):
    """PUTs keys that nobody else writes: /load/<name>/<n> = <n>."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.number = 0

    def once(self):
        self.number += 1
        try:
            self.settle(self.number, self.session.call("PUT", f"/v2/keys/load/{self.name}/{self.number}", {"value": self.number}))
        except UNKNOWN_OUTCOME:
            self.lost_answer(self.number)

    def check(self, node):
        answer = node.read(f"/load/{self.name}", quorum="true", timeout=30)
        present = {item["key"].rsplit("/", 1)[1]: item["value"] for item in answer.json["node"].get("nodes", [])} \
            if answer.status == 200 else {}
        lost = [number for number in self.acknowledged if present.get(str(number)) != str(number)]
        assert not lost, f"{node}: {len(lost)} of {len(self.acknowledged)} acknowledged writes of {self.name} are lost, first {lost[:5]}"
        invented = set(map(int, present)) - set(self.acknowledged) - set(self.unknown)
        assert not invented, f"{node}: keys that nobody wrote: {sorted(invented)[:5]}"


class CounterWriter(Writer):
    """Adds one to a shared counter by compare-and-swap; several of these may share the key."""

    def __init__(self, *arguments, key="/counter", **options):
        super().__init__(*arguments, **options)
        self.key = key

    def once(self):
        try:
            answer = self.session.call("GET", f"/v2/keys{self.key}?quorum=true")
            if answer.status != 200:
                self.refused[answer.status] = self.refused.get(answer.status, 0) + 1
                self.stopping.wait(0.05)
                return
        except UNKNOWN_OUTCOME:
            self.stopping.wait(0.02)
            return
        value = answer.value
        try:
            answer = self.session.call("PUT", f"/v2/keys{self.key}", {"value": int(value) + 1, "prevValue": value})
            if answer.status != 412:
                self.settle(1, answer)
        except UNKNOWN_OUTCOME:
            self.lost_answer(1)


class AppendWriter(Writer):
    """POSTs values that occur once each: what is listed twice was applied twice."""

    def __init__(self, *arguments, directory="/queue", **options):
        super().__init__(*arguments, **options)
        self.directory, self.number = directory, 0

    def once(self):
        self.number += 1
        value = f"{self.name}-{self.number}"
        try:
            self.settle(value, self.session.call("POST", f"/v2/keys{self.directory}", {"value": value}))
        except UNKNOWN_OUTCOME:
            self.lost_answer(value)


def check_counter(node, writers, key="/counter"):
    value = int(node.read(key, quorum="true").value)
    acknowledged, unknown = sum(len(w.acknowledged) for w in writers), sum(len(w.unknown) for w in writers)
    assert acknowledged <= value <= acknowledged + unknown, \
        f"{node}: counter {value}, but {acknowledged} increments were acknowledged and {unknown} are unknown"
    return value, acknowledged, unknown


def check_queue(node, writers, directory="/queue"):
    answer = node.read(directory, quorum="true", timeout=30)
    values = [item["value"] for item in answer.json["node"].get("nodes", [])]
    twice = {value for value in values if values.count(value) > 1} if len(set(values)) != len(values) else set()
    assert not twice, f"{node}: applied twice: {sorted(twice)[:5]}"
    acknowledged = {value for w in writers for value in w.acknowledged}
    unknown = {value for w in writers for value in w.unknown}
    assert acknowledged <= set(values), f"{node}: acknowledged but absent: {sorted(acknowledged - set(values))[:5]}"
    assert set(values) <= acknowledged | unknown, f"{node}: nobody wrote {sorted(set(values) - acknowledged - unknown)[:5]}"
    return len(values)


def write_until_done(node, key, seconds=20.0, value="x"):
    """Writes through this member until one is acknowledged; returns (seconds, statuses of the refused tries)."""
    began, refused = time.monotonic(), []
    while time.monotonic() - began < seconds:
        try:
            answer = node.put(key, value)
            if answer.status in (200, 201):
                return time.monotonic() - began, refused
            refused.append(answer.status)
        except UNKNOWN_OUTCOME as error:
            refused.append(type(error).__name__)
    raise AssertionError(f"no write through {node} within {seconds} s: {refused[-5:]}")
