#!/usr/bin/env python3
"""Sends the same v2 requests to a real etcd and to Rallypoint and compares the answers.

    v2_differential.py --reference http://127.0.0.1:2379 --subject http://127.0.0.1:2479
    v2_differential.py --reference-binary etcd --subject-binary build/release/rallypoint

Compared are status, action, the shape of the nodes, error codes, messages and causes, and all indexes relative to
where each server stood when the run began. Not compared, because two servers cannot agree on it: the exact
expiration, and the order of a listing (etcd's is random). Everything happens below a directory of its own.

Where Rallypoint differs on purpose the requests keep out of the way; DELIBERATE below lists it.
Exit status 0 = no difference; the seed is printed and repeats a run.
"""
import argparse
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

DELIBERATE = """
- A watch on a key that does not exist is told when a directory above it goes; etcd tells only from its history.
- History hides what is below '_' from watchers above it, like live watches do; etcd's history shows it.
- The deletion of /w is not found in history by a watch of /w2 (etcd compares the bare prefix).
- A refresh takes no place in the history of 1000 events; in etcd it does.
- TTLs above about 220 years are cut; in etcd they overflow.
- Keys have at most 1000 components.
- A directory delete reaches a stream once; etcd repeats it.
- A stream from a past index goes on; etcd's gets one event from history and then nothing.
- A listing is always sorted.
"""

FORM = "application/x-www-form-urlencoded"


def parting(a, b, where=""):
    """Where two values part: pairs of the smallest differing parts."""
    if isinstance(a, dict) and isinstance(b, dict):
        for name in list(a) + [n for n in b if n not in a]:
            yield from parting(a.get(name, "absent"), b.get(name, "absent"), f"{where}.{name}".lstrip("."))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, pair in enumerate(zip(a, b)):
            yield from parting(*pair, f"{where}[{i}]")
    elif a != b:
        yield where, a, b


class Server:
    def __init__(self, url, prefix):
        parts = urllib.parse.urlsplit(url)
        self.url, self.host, self.port = url, parts.hostname, parts.port
        self.prefix = prefix
        self.connection = None
        self.call("DELETE", "/v2/keys" + prefix + "?recursive=true")  # what an earlier run with this seed has left
        self.base = int(self.call("GET", "/v2/keys/")[1]["x-etcd-index"])

    def call(self, method, target, body=None, content_type=FORM, timeout=10):
        """Status, headers (lower case), body; the target goes out as it is."""
        for attempt in range(2):
            if self.connection is None:
                self.connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
                self.connection._validate_path = lambda path: None  # unclean targets are what we test
            try:
                headers = {"Content-Type": content_type} if body is not None and content_type is not None else {}
                self.connection.request(method, target, body, headers)
                response = self.connection.getresponse()
                return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
            except (http.client.HTTPException, OSError):
                self.connection.close()
                self.connection = None
                if attempt:
                    raise

    def absolute(self, request):
        """Puts this server's indexes in: "@5" stands for the fifth after the run's start."""
        return {k: str(self.base + int(v[1:])) if k in ("prevIndex", "waitIndex") and v.startswith("@") else v
                for k, v in request.items()}

    def send(self, method, key, parameters):
        text = urllib.parse.urlencode(self.absolute(parameters))
        target = "/v2/keys" + urllib.parse.quote(self.prefix + key)
        if method in ("PUT", "POST"):
            return self.normal(*self.call(method, target, text))
        return self.normal(*self.call(method, target + ("?" + text if text else "")))

    def relative(self, index):
        return index - self.base if index else 0

    def normal(self, status, headers, body):
        """An answer without what may differ."""
        if "location" in headers:
            return {"status": status, "location": headers["location"]}
        shown = {"status": status}
        for name in ("content-type", "allow"):
            if name in headers:
                shown[name] = headers[name].split(";")[0]
        shown["cluster id"] = "x-etcd-cluster-id" in headers
        shown["raft headers"] = "x-raft-index" in headers and "x-raft-term" in headers
        if "x-etcd-index" in headers:
            index = int(headers["x-etcd-index"])
            shown["x-etcd-index"] = self.relative(index)
        try:
            shown["body"] = self.normal_body(json.loads(body))
            shown["newline"] = body.endswith(b"\n")
            shown["order"] = re.findall(rb'[{,]"([A-Za-z]+)":', self.without_strings(body))
        except ValueError:
            shown["text"] = body.strip()
        return shown

    @staticmethod
    def without_strings(body):
        """Only for the order of the fields: listings, whose order differs, are left out."""
        return b"" if b'"nodes"' in body else re.sub(rb':"(\\.|[^"\\])*"', rb':0', body)

    def normal_body(self, body):
        if "errorCode" in body:
            body["index"] = self.relative(body["index"])
            cause = body.get("cause", "")
            if body["errorCode"] == 101:  # "[5 != 7]", but values of the tests are never numbers
                cause = re.sub(r"\b\d+\b", lambda m: f"@{self.relative(int(m[0]))}", cause)
            cause = re.sub(r"\[(\d+)/(\d+)\]", lambda m: f"[@{self.relative(int(m[1]))}/@{self.relative(int(m[2]))}]", cause)
            if "cause" in body:
                body["cause"] = self.normal_key(cause)
            return body
        return {k: self.normal_node(v) if isinstance(v, dict) else v for k, v in body.items()}

    def normal_key(self, key):
        return re.sub(r"/(\d{20})(?=/|$)", lambda m: f"/@{self.relative(int(m[1]))}", key)

    def normal_node(self, node):
        node = dict(node)
        if "key" in node:
            node["key"] = self.normal_key(node["key"])
        if "nodes" in node:
            node["nodes"] = sorted((self.normal_node(n) for n in node["nodes"]), key=lambda n: n["key"])
        for name in ("modifiedIndex", "createdIndex"):
            if name in node:
                node[name] = self.relative(node[name])
        if "expiration" in node:
            well_formed = re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,8}[1-9])?Z", node["expiration"])
            node["expiration"] = "well-formed" if well_formed else node["expiration"]
        if "ttl" in node:  # the random TTLs are multiples of 1000
            node["ttl"] = -(-node["ttl"] // 1000) * 1000 if node["ttl"] > 100 else "a few"
        return node


class Watch:
    """A watch on one server; collects the lines of its body."""

    def __init__(self, server, key, parameters):
        self.server = server
        self.socket = socket.create_connection((server.host, server.port), timeout=10)
        text = urllib.parse.urlencode(server.absolute(dict(parameters, wait="true")))
        target = "/v2/keys" + urllib.parse.quote(server.prefix + key) + "?" + text
        self.socket.sendall(f"GET {target} HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode())
        self.response = http.client.HTTPResponse(self.socket, method="GET")
        self.response.begin()  # the headers must come at once
        self.headers = {k.lower(): v for k, v in self.response.getheaders()}
        self.lines = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.collect, daemon=True)
        self.thread.start()

    def collect(self):
        try:
            while line := self.response.readline():
                self.lines.append(line)
        except (OSError, ValueError, http.client.HTTPException):
            pass
        self.over.set()

    def result(self, wait_s):
        self.over.wait(wait_s)
        ended = self.over.is_set()
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.thread.join(5)
        self.socket.close()
        index = int(self.headers.get("x-etcd-index", 0))
        return {"status": self.response.status, "ended": ended, "x-etcd-index": self.server.relative(index),
                "chunked": self.headers.get("transfer-encoding"),
                "lines": [self.server.normal_body(json.loads(line)) for line in self.lines]}


class Differential:
    def __init__(self, reference, subject, seed):
        self.servers = [reference, subject]
        self.random = random.Random(seed)
        self.differences = 0
        self.requests = 0

    def compare(self, what, answers):
        self.requests += 1
        if answers[0] == answers[1]:
            return answers[0]
        self.differences += 1
        print(f"DIFFERENCE at request {self.requests}: {what}")
        for where, reference, subject in parting(*answers):
            print(f"  {where or 'answer'}: reference {reference!r:.300}, subject {subject!r:.300}")
        if self.differences >= 20:
            sys.exit("too many differences")
        return answers[0]

    def send(self, method, key, **parameters):
        return self.compare(f"{method} {key} {parameters}", [s.send(method, key, parameters) for s in self.servers])

    def raw(self, method, target, body=None, content_type=FORM):
        answers = []
        for server in self.servers:
            answers.append(server.normal(*server.call(method, target.replace("PREFIX", server.prefix), body, content_type)))
        return self.compare(f"{method} {target} {body!r} {content_type}", answers)

    # ---- the fixed part ----

    def requests_as_they_are(self):
        bad = ["ttl=-5", "ttl=abc", "ttl=", "ttl=99999999999999999999", "ttl=5000&ttl=x", "prevIndex=", "prevIndex=-1",
               "prevIndex=+1", "waitIndex=x", "waitIndex=", "recursive=x", "recursive=", "sorted=T&wait=1", "dir=yes",
               "prevValue=", "prevValue=&prevIndex=x", "prevExist=", "prevExist=x&ttl=z", "refresh=", "refresh=true",
               "refresh=true&ttl=5000&value=", "refresh=true&value=x", "a=%zz", "a=%", "a=%4", "a;b=1", "wait=true",
               "noValueOnSuccess=x", "noValueOnSuccess=true", "stream=x", "quorum=x", "value=a+b%20c&value=d",
               "prevIndex=0&prevExist=true", "=x", "&&&", "dir=u&wait=z", "stream=u&quorum=z", "quorum=a&dir=z",
               "sorted=x&recursive=y&wait=z&dir=u&quorum=i&stream=o", "recursive=TRUE", "recursive=tRUE", "ttl=0x10",
               "ttl=1_0", "prevValue=%ff&prevExist=true", "value=%ff%00%01%1f%7f%0a%0d%09%08%0c<>%26%22%5c",
               "value=%e2%80%a8%e2%80%a9%ed%a0%80%f4%90%80%80%c3%a9%f0%9f%98%80%e2%82", "prevValue=<>%ff&value=x"]
        for body in bad:
            for method in ("PUT", "POST"):
                self.raw(method, "/v2/keysPREFIX/raw", body)
            if "wait" not in body and "+1" not in body and "%" not in body:
                self.raw("GET", "/v2/keysPREFIX/raw?" + body)
                self.raw("DELETE", "/v2/keysPREFIX/none?" + body)
        self.raw("DELETE", "/v2/keysPREFIX/raw?recursive=true")
        for content_type in (None, "text/plain", FORM + "; charset=utf-8", FORM + "; charset", ";;;", FORM.upper(),
                             "multipart/form-data; boundary=x", "a b/c", "a/b/c", FORM + ";", FORM + ' ; a="b c"'):
            self.raw("PUT", "/v2/keysPREFIX/type", "value=b", content_type)
        for target in ("/v2/keysPREFIX//a", "/v2/keysPREFIX/a/./b?x=1&y=%zz", "/v2/keysPREFIX/a/../b", "/v2/keysPREFIX/..",
                       "/v2/keysPREFIX/a%2F%2fb", "/v2/keysPREFIX/a/%2e%2e/b", "/v2/keysPREFIX/a//", "//v2/keysPREFIX/a",
                       "/v2/keysPREFIX/a%2Fb", "/v2/keysPREFIX/a+b=c", "/v2/keysPREFIX/a%20b", "/v2/keysPREFIX/%ff%00x",
                       "/v2/keysPREFIX/a%3fb", "/v2/keysPREFIX/a?b?c=1", "/v2/keysPREFIX/a%23b", "/v2/keysPREFIX/...",
                       "/v2/keysPREFIX/%41!'()*$&+,;=:@//~-_.[]|^`{}\"<>\\", "/v2/keysPREFIX/a/", "/v2/keysPREFIX/%e2%82%ac//x",
                       "/v2/keysPREFIX/a?quorum=false", "/v2/keysPREFIX/a?quorum=true&sorted=true&recursive=true"):
            for method in ("GET", "PUT", "DELETE", "HEAD"):
                self.raw(method, target)
        for target in ("/v2/keysPREFIX/%zz", "/v2/keysPREFIX/%", "/v2/keysPREFIX/%4"):
            answers = [s.call("GET", target.replace("PREFIX", s.prefix))[0] for s in self.servers]
            self.compare(f"GET {target}", answers)
        for method in ("PATCH", "FOO"):
            self.raw(method, "/v2/keysPREFIX/a", "value=1")
        for request in (("PUT", "value=1"), ("PUT", "dir=true"), ("PUT", "prevExist=true"), ("PUT", "prevExist=false"),
                        ("PUT", "prevValue=1")):
            self.raw(request[0], "/v2/keys/", request[1])
        for query in ("", "?recursive=true", "?dir=true", "?prevValue=1"):
            self.raw("DELETE", "/v2/keys" + query)

    # ---- random requests ----

    def key(self):
        if self.random.random() < 0.03:
            return ""
        names = ["a", "b", "c", "_h", "d e", "<é>"]
        return "".join("/" + self.random.choice(names[:4] if self.random.random() < 0.9 else names)
                       for _ in range(self.random.randint(1, 3)))

    def random_request(self):
        pick, chance = self.random.choice, self.random.random
        method = pick(["PUT"] * 6 + ["DELETE"] * 2 + ["POST", "GET", "GET"])
        parameters = {}
        if method == "GET":
            if chance() < 0.4:
                parameters["recursive"] = pick(["true", "false"])
            if chance() < 0.3:
                parameters["sorted"] = "true"
            return method, self.key(), parameters
        if chance() < 0.75:
            parameters["value"] = pick(["v0", "v1", "v2", "", '{"status": "x"}'])
        if chance() < 0.15:
            parameters["dir"] = pick(["true", "true", "false"])
        if chance() < 0.15:
            parameters["recursive"] = "true"
        if chance() < 0.2:
            parameters["prevExist"] = pick(["true", "false"])
        if chance() < 0.2:
            parameters["prevValue"] = pick(["v0", "v1", "v2"])
        if chance() < 0.15:
            now = int(self.servers[0].call("GET", "/v2/keys/")[1]["x-etcd-index"]) - self.servers[0].base
            parameters["prevIndex"] = f"@{max(1, now - self.random.randint(0, 8))}"
        if chance() < 0.2:
            parameters["ttl"] = pick(["1000", "2000", "", "5000"])
        if chance() < 0.08:
            parameters["refresh"] = pick(["true", "true", "false"])
            if chance() < 0.8:
                parameters.pop("value", None)
                parameters["ttl"] = "3000"
        if chance() < 0.04:
            parameters["noValueOnSuccess"] = "true"
        return method, self.key(), parameters

    def random_requests(self, count):
        for step in range(count):
            method, key, parameters = self.random_request()
            self.send(method, key, **parameters)
            if step % 50 == 0:
                self.send("GET", "", recursive="true")

    # ---- watches ----

    def watches(self, rounds):
        for _ in range(rounds):
            # Existing keys, so that both servers tell watchers below about the end of a directory.
            self.send("DELETE", "/w", recursive="true")
            for key in ("/w/a/x", "/w/a/y", "/w/b/x", "/w/_h/x"):
                self.send("PUT", key, value="0")
            keys = ["/w", "/w/a", "/w/b", "/w/a/x", "/w/a/y", "/w/b/x", "/w/_h", "/w/_h/x"]
            watched = []
            for _ in range(12):
                parameters = {"recursive": "true"} if self.random.random() < 0.5 else {}
                key = self.random.choice(keys)
                watched.append((key, parameters, [Watch(s, key, parameters) for s in self.servers]))
            for _ in range(4):
                what = self.random.random()
                key = self.random.choice(keys)
                if what < 0.5:
                    self.send("PUT", key, value="1")
                elif what < 0.7:
                    self.send("PUT", key, prevExist="true", refresh="true", ttl="3000")
                elif what < 0.8:
                    self.send("POST", key, value="1")
                elif what < 0.9:
                    self.send("PUT", key, prevExist="true", value="", ttl="3000")
                else:
                    self.send("DELETE", key, recursive="true")
            deadline = time.monotonic() + 0.2
            for key, parameters, watches in watched:
                results = [w.result(max(0, deadline - time.monotonic())) for w in watches]
                self.compare(f"live watch of {key} {parameters}", results)

    def stream(self):
        self.send("PUT", "/s/a", value="0")
        watches = [Watch(s, "/s", {"recursive": "true", "stream": "true"}) for s in self.servers]
        for value in range(5):
            self.send("PUT", f"/s/{value % 2}", value=f"v{value}")
        self.compare("stream of /s", [w.result(0.3) for w in watches])

    def history(self):
        """Past indexes, up to the end of the window and beyond. No hidden keys, refreshes or deletes here: DELIBERATE."""
        first = self.send("PUT", "/h/a", value="0")["x-etcd-index"]
        for step in range(1, 1010):
            self.send("PUT", f"/h/{'ab'[step % 2]}", value=f"v{step}")
        last = first + 1009
        for index in (last, last - 1, last - 500, last - 998, last - 999, last - 1000, last - 1001, first):
            for key, parameters in (("/h/a", {}), ("/h", {"recursive": "true"}), ("/h", {})):
                parameters = dict(parameters, waitIndex=f"@{index}")
                watches = [Watch(s, key, parameters) for s in self.servers]
                self.compare(f"watch of {key} {parameters}", [w.result(0.1) for w in watches])
        watches = [Watch(s, "/h/a", {"waitIndex": f"@{last + 3}"}) for s in self.servers]
        for step in range(4):
            self.send("PUT", "/h/a", value=f"later v{step}")
        self.compare("watch of a future index", [w.result(0.3) for w in watches])

    # ---- expiry ----

    def expiry(self):
        """Each wait is for both servers, as their clocks strike at different moments."""
        for ttl, keys in (("0", ["/e/a"]), ("1", ["/e/b"]), ("1", ["/e/dir/x"])):
            directory = keys[0].startswith("/e/dir")
            if directory:
                self.send("PUT", "/e/dir/x", value="1")
                self.send("PUT", "/e/dir/y/z", value="1")
            watches = [Watch(s, "/e", {"recursive": "true", "stream": "true"}) for s in self.servers]
            below = [Watch(s, "/e/dir/y/z", {}) for s in self.servers] if directory else None
            if directory:
                self.send("PUT", "/e/dir", dir="true", prevExist="true", ttl=ttl)
            else:
                self.send("PUT", keys[0], value="1", ttl=ttl)
            for server in self.servers:
                deadline = time.monotonic() + 5
                while server.call("GET", "/v2/keys" + server.prefix + keys[0])[0] == 200 and time.monotonic() < deadline:
                    time.sleep(0.02)
            self.send("GET", keys[0])
            results = [w.result(0.2) for w in watches]
            for result in results:  # etcd repeats the end of a directory in a stream
                result["lines"] = [line for i, line in enumerate(result["lines"]) if line not in result["lines"][:i]]
            self.compare(f"events of {keys} with ttl {ttl}", results)
            if below:
                self.compare("watch below an expired directory", [w.result(0.2) for w in below])


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def start(binary, directory):
    """Starts a server the way torch's EtcdServer does; returns process and URL."""
    client, peer = free_ports(2)
    url = f"http://127.0.0.1:{client}"
    with open(os.path.join(directory, "log"), "wb") as log:
        process = subprocess.Popen([binary, "--enable-v2", "--data-dir", os.path.join(directory, "data"),
                                    "--listen-client-urls", url, "--advertise-client-urls", url,
                                    "--listen-peer-urls", f"http://127.0.0.1:{peer}"], stdout=log, stderr=log)
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline and process.poll() is None:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", client, timeout=1)
            connection.request("GET", "/v2/keys/")
            if connection.getresponse().status == 200:
                return process, url
        except OSError:
            pass
        time.sleep(0.05)
    process.kill()
    sys.exit(f"{binary} does not serve; its log is {directory}/log")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--reference", help="base URL of an etcd with --enable-v2")
    parser.add_argument("--subject", help="base URL of a Rallypoint")
    parser.add_argument("--reference-binary", help="start this one instead of using a running reference")
    parser.add_argument("--subject-binary", help="start this one instead of using a running subject")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--steps", type=int, default=3000, help="random requests")
    parser.add_argument("--watch-rounds", type=int, default=40)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)

    processes, directory = [], tempfile.mkdtemp(prefix="v2_differential")
    try:
        urls = []
        for name, url, binary in (("reference", options.reference, options.reference_binary),
                                  ("subject", options.subject, options.subject_binary)):
            if not url and not binary:
                parser.error(f"--{name} or --{name}-binary is needed")
            if not url:
                os.mkdir(os.path.join(directory, name))
                process, url = start(binary, os.path.join(directory, name))
                processes.append(process)
            urls.append(url)
        prefix = f"/differential-{options.seed}"
        run = Differential(Server(urls[0], prefix), Server(urls[1], prefix), options.seed)
        for what, act in (("requests as they are", run.requests_as_they_are),
                          ("random requests", lambda: run.random_requests(options.steps)),
                          ("watches", lambda: run.watches(options.watch_rounds)),
                          ("stream", run.stream), ("expiry", run.expiry), ("history", run.history),
                          ("random requests again", lambda: run.random_requests(options.steps // 4))):
            before = run.differences
            act()
            print(f"{what}: {run.requests} comparisons so far, {run.differences - before} differences", flush=True)
        print(f"{run.requests - run.differences} passed, {run.differences} failed")
        return 1 if run.differences else 0
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
            process.wait(10)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
