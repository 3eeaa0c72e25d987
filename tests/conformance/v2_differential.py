#!/usr/bin/python3
"""The same random v2 requests to Rallypoint and to etcd 3.4, every answer compared: status, headers, body.

    tests/conformance/v2_differential.py                      # 20 seeds of 400 requests
    tests/conformance/v2_differential.py --seed 7 --seeds 1   # one again
    tests/conformance/v2_differential.py --requests 5000 --members 3

Both start empty. Their indexes begin at different numbers (etcd's membership is in its v2 store), so indexes are
compared by their distance from the start. Of a TTL its presence and whole seconds within one; of children their set,
unless sorted=true asked for an order. Prints the first difference of a seed with the requests that led there.
"""
import argparse
import http.client
import json
import pathlib
import random
import socket
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from cluster import ETCD, Cluster, find_binary  # noqa: E402

NAMES = ["a", "b", "c", "_hidden", "long-name", "d.e", "f=g+h"]
VALUES = ["1", "2", "", "a longer value", "ümläut", "<&\"'\\\n\t>", "x" * 300, "\x7f \u2028"]
BAD = ["abc", "-5", "1.5", "99999999999999999999", " 1", "+1", "0x1", ""]
INDEX_FIELDS = ("modifiedIndex", "createdIndex")


class Side:
    """One server: the connection, and the index it began with."""

    def __init__(self, node):
        self.port = node.client_port
        self.connection = None
        self.start = int(self.send("GET", "/v2/keys/", None)[1]["X-Etcd-Index"])

    def send(self, method, path, form, timeout=10.0):
        """(status, headers, body), or None when nothing came in time (an open watch)."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
            self.connection.connect()
        self.connection.sock.settimeout(timeout)
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if form is not None else {}
        try:
            self.connection.request(method, path, body=urllib.parse.urlencode(form) if form is not None else None, headers=headers)
            answer = self.connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except (socket.timeout, TimeoutError):
            self.connection.close()
            self.connection = None
            return None


class Requests:
    """Draws one request after the other; remembers nothing but the seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def path(self):
        depth = self.random.choices([0, 1, 2, 3], [1, 12, 8, 3])[0]
        path = "".join("/" + urllib.parse.quote(self.random.choice(NAMES), safe="=+") for _ in range(depth))
        if self.random.random() < 0.03:
            path += "/"
        return path

    def often(self, probability):
        return self.random.random() < probability

    def boolean(self):
        return self.random.choice(["true", "false"] * 5 + ["1", "0", "t", "F", "yes", "", "TRUE"])

    def draw(self, index):
        """(method, path with query, form, may wait). `index` = this side-independent number of writes so far."""
        kind = self.random.choices(["put", "get", "delete", "post", "watch", "other"], [50, 20, 14, 6, 8, 2])[0]
        path = "/v2/keys" + self.path()
        if kind == "put":
            return "PUT", path, self.put_form(index), False
        if kind == "post":
            form = {"value": self.random.choice(VALUES)}
            if self.often(0.1):
                form = {"dir": "true"}
            if self.often(0.1):
                form["ttl"] = self.random.choice(["1000"] + BAD)
            return "POST", path, form, False
        if kind == "delete":
            query = {}
            for name, probability in (("recursive", 0.3), ("dir", 0.3)):
                if self.often(probability):
                    query[name] = self.boolean()
            if self.often(0.2):
                query["prevValue"] = self.random.choice(VALUES)
            if self.often(0.15):
                query["prevIndex"] = self.an_index(index)
            return "DELETE", path, query, None
        if kind == "get":
            query = {name: self.boolean() for name, probability in (("recursive", 0.4), ("sorted", 0.4), ("quorum", 0.1)) if self.often(probability)}
            return "GET", path, query, None
        if kind == "watch":
            query = {"wait": "true", "waitIndex": self.an_index(index)}
            if self.often(0.6):
                query["recursive"] = "true"
            return "GET", path, query, True
        return self.random.choice(["PATCH", "OPTIONS", "HEAD", "DELETE", "GET"]), self.random.choice(
            [path, "/v2/keys", "/v2", "/v2/nothing", "/nothing", "/version", "/v2/keysx"]), {}, None

    def put_form(self, index):
        form = {}
        if self.often(0.85):
            form["value"] = self.random.choice(VALUES)
        if self.often(0.12):
            form["dir"] = self.boolean()
        if self.often(0.15):
            form["ttl"] = self.random.choice(["1000", "5000"] * 3 + BAD)
        if self.often(0.25):
            form["prevExist"] = self.boolean()
        if self.often(0.2):
            form["prevValue"] = self.random.choice(VALUES)
        if self.often(0.12):
            form["prevIndex"] = self.an_index(index)
        if self.often(0.08):
            form["refresh"] = self.boolean()
            if self.often(0.7):
                form.pop("value", None)
                form["ttl"] = "1000"
        if self.often(0.05):
            form["noValueOnSuccess"] = self.boolean()
        return form

    def an_index(self, index):
        """A marker that each side replaces by its own number, or something that is no number."""
        return self.random.choice(BAD) if self.often(0.1) else Relative(self.random.randrange(0, max(index, 1) + 2))


class Relative(int):
    """A distance from a side's first index."""


def localised(parameters, side):
    return {name: str(value + side.start) if isinstance(value, Relative) else value for name, value in (parameters or {}).items()}


def normal(value, side, is_sorted):
    """The body with indexes relative, times reduced, children in an order that can be compared."""
    if isinstance(value, dict):
        result = {}
        for key, item in value.items():
            if key in INDEX_FIELDS or key == "index":
                result[key] = item - side.start if item else item
            elif key == "expiration":
                result[key] = "set"
            elif key == "ttl":
                result[key] = round(item, -2)
            elif key == "cause" and isinstance(item, str):
                result[key] = relative_cause(item, side)
            else:
                result[key] = normal(item, side, is_sorted)
        return result
    if isinstance(value, list):
        items = [normal(item, side, is_sorted) for item in value]
        return items if is_sorted else sorted(items, key=lambda item: str(item.get("key")) if isinstance(item, dict) else str(item))
    return value


def relative_cause(cause, side):
    """`[7 != 12]`: two indexes."""
    if cause.startswith("[") and " != " in cause:
        words = cause.replace("[", " [ ").replace("]", " ] ").split(" ")
        return " ".join(str(int(word) - side.start) if word.isdigit() and int(word) >= side.start else word for word in words)
    if cause.startswith("the requested history"):
        return "the requested history"
    if "/00000000" in cause:
        return "in-order key"
    return cause


def summary(answer, side, is_sorted):
    if answer is None:
        return "no answer (waits)"
    status, headers, body = answer
    facts = {"status": status}
    for name in ("Content-Type", "Allow"):
        facts[name] = headers.get(name)
    facts["X-Etcd-Index"] = int(headers["X-Etcd-Index"]) - side.start if headers.get("X-Etcd-Index") else None
    facts["headers"] = sorted(name for name in ("X-Etcd-Cluster-Id", "X-Raft-Index", "X-Raft-Term") if headers.get(name))
    try:
        facts["body"] = keys_relative(normal(json.loads(body), side, is_sorted), side)
    except ValueError:
        facts["body"] = body.decode(errors="replace") if status != 200 else "text"
    return facts


def keys_relative(value, side):
    """In-order keys are named for the index they were made at."""
    if isinstance(value, dict):
        return {key: keys_relative(item, side) for key, item in value.items()}
    if isinstance(value, list):
        return [keys_relative(item, side) for item in value]
    if isinstance(value, str):
        parts = value.split("/")
        if any(len(part) == 20 and part.isdigit() for part in parts):
            return "/".join(f"#{int(part) - side.start}" if len(part) == 20 and part.isdigit() else part for part in parts)
    return value


def play(seed, count, ours, etcd):
    """None, or the story of the first difference."""
    sides = [Side(ours), Side(etcd)]
    requests, story, index = Requests(seed), [], 0
    for number in range(count):
        method, path, parameters, waits = requests.draw(index)
        answers = []
        for side in sides:
            own = localised(parameters, side)
            target, form = (path, own) if method in ("PUT", "POST") else (path + ("?" + urllib.parse.urlencode(own) if own else ""), None)
            answers.append(side.send(method, target, form, timeout=0.4 if waits else 10.0))
        is_sorted = (parameters or {}).get("sorted") in ("true", "1", "t", "TRUE")
        left, right = (summary(answer, side, is_sorted) for answer, side in zip(answers, sides))
        story.append(f"{method} {path} {dict(parameters or {})}")
        if left != right:
            return f"seed {seed}, request {number}: {story[-1]}\n  ours: {json.dumps(left, ensure_ascii=False)}\n  etcd: {json.dumps(right, ensure_ascii=False)}\n  before: " + \
                "\n          ".join(story[-6:-1])
        if isinstance(right, dict) and isinstance(right["X-Etcd-Index"], int):
            index = right["X-Etcd-Index"]
    return None


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--binary", help="default: RALLYPOINT_BINARY or the newest build; /usr/bin/etcd compares etcd with itself")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--seeds", type=int, default=20)
    options.add_argument("--requests", type=int, default=400)
    options.add_argument("--members", type=int, default=1, help="of both clusters; requests go to the first member")
    options = options.parse_args()
    binary = options.binary or find_binary()
    passed = failed = 0
    for seed in range(options.seed, options.seed + options.seeds):
        with Cluster(options.members, binary=binary) as ours, Cluster(options.members, binary=ETCD) as etcd:
            difference = play(seed, options.requests, ours.leader(), etcd.leader())
        if difference:
            failed += 1
            print(difference, flush=True)
        else:
            passed += 1
    print(f"{options.requests} requests a seed: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
