#!/usr/bin/python3
"""The same etcdctl commands to an etcd cluster and to a Rallypoint cluster, compared word by word.

    tests/conformance/etcdctl_differential.py            # etcdctl 3.4 (Debian) on etcd 3.4, then a current one on a current etcd
    tests/conformance/etcdctl_differential.py 3.4        # or: current
    tests/conformance/etcdctl_differential.py --show     # prints every command with what etcd said

Every sub-command that applies runs in its output formats, error cases too; compared are output, errors and exit codes. Both
clusters start empty and get the same commands in the same order, so revisions must be equal to the digit. What cannot be
equal is replaced by a name: ids of clusters, members and leases, ports, terms, log indexes, sizes, hashes, durations.
ALLOWED names each difference that stays, with its reason; all others are failures.
The current etcdctl and etcd are Go modules (Go 1.24 or later is needed). Other settings: see foreign.py.
"""
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

import foreign

ALLOWED = {  # regular expression of a step's title -> why the difference stays
    r"get p/ --prefix --sort-by=(MODIFY|VALUE|VERSION) --limit=3": "without an order etcd sorts only the first limit + 1 keys; we sort all that match",
    r"watch -i until done": "etcd answers a progress request before the events of the past that it vouches for (etcd#15220); we keep the order",
    r"\[3.4\] alarm list -w": "etcd 3.4 answers without a header, at which its own etcdctl panics; 3.6 sends one, as we do",
    r"member add new --peer-urls=http://127.0.0.1:19999( -w json)?$": "the URL that is there already is the reason; etcd 3.4 looks at health first, 3.6 at an id",
    r"\bsnapshot status\b": "reads etcd's own store format; a snapshot of ours is restored by our own tool",
}
WATCH_SECONDS_MAX = 8.0


class Side:
    """One cluster, with the words that stand for its ids."""

    def __init__(self, name, etcdctl, servers):
        self.name, self.etcdctl, self.servers = name, etcdctl, servers
        self.words, self.values = {}, {"base": str(servers.base)}  # literal -> placeholder; placeholder of a command -> value
        self.leases = 0
        listed = json.loads(self.run(["member", "list", "-w", "json"])[0])
        self.learn_number(listed["header"]["cluster_id"], "CLUSTER")
        for member in listed["members"]:
            self.learn_number(member["ID"], f"ID-{member['name']}")
            self.values[f"id_{member['name']}"] = f"{member['ID']:x}"
        for i, name in enumerate(servers.names):
            self.values[f"url_{name}"] = servers.client_urls[i]

    def learn_number(self, number, word):
        for text in {str(number), f"{number:x}", f"{number:016x}", str(number - (1 << 64))}:
            if len(text) > 6:
                self.words[text] = word

    def refresh_leader(self):
        """Which member leads, for commands that go to it or name another one."""
        out, err, _ = self.run(["endpoint", "status", "-w", "json"], self.servers.endpoints)
        status = json.loads(out)
        if not status:
            raise SystemExit(f"{self.name}: no member told its status: {err}")
        leader = status[0]["Status"]["leader"]
        for name in self.servers.names:
            if self.values[f"id_{name}"] == f"{leader:x}":
                self.values["leader"], self.values["url_leader"], self.values["id_leader"] = \
                    name, self.values[f"url_{name}"], self.values[f"id_{name}"]
        other = next(n for n in self.servers.names if n != self.values["leader"])
        self.values["url_follower"], self.values["id_follower"] = self.values[f"url_{other}"], self.values[f"id_{other}"]

    def fill(self, argument):
        return re.sub(r"\{(\w+)\}", lambda m: self.values.get(m.group(1), m.group(0)), argument)

    def popen(self, arguments, endpoints=None):
        endpoints = self.fill(endpoints or self.servers.client_urls[0])
        command = [self.etcdctl, "--endpoints", endpoints, *map(self.fill, arguments)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                errors="backslashreplace", env=dict(os.environ, ETCDCTL_API="3"))

    def run(self, arguments, endpoints=None, stdin="", timeout=60):
        process = self.popen(arguments, endpoints)
        try:
            out, err = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            return out, err, "time-out"
        return out, err, process.returncode

    def capture(self, name, out):
        """Remembers a lease or member id that a command printed."""
        found = re.search(r'"ID" ?: ?(-?\d+)|^lease (\w+) granted|^Member +(\w+) added', out, re.M)
        if name.startswith("member"):
            found = re.search(r'"member":\{"ID":(\d+)|^Member +(\w+) added', out, re.M)
        if not found:
            return
        text = next(group for group in found.groups() if group)
        number = int(text) if found.group(0).startswith('"') else int(text, 16)
        self.values[name] = f"{number:x}"
        self.learn_number(number, name.upper())

    def normal(self, text):
        for literal in sorted(self.words, key=len, reverse=True):
            text = re.sub(rf"(?<![0-9a-fA-F]){re.escape(literal)}(?![0-9a-fA-F])", self.words[literal], text)
        for name, url in zip(self.servers.names, self.servers.client_urls):
            text = text.replace(url.removeprefix("http://"), f"CLIENT-{name}")
        for name, url in zip(self.servers.names, self.servers.peer_urls):
            text = text.replace(url.removeprefix("http://"), f"PEER-{name}")
        text = text.replace(str(self.servers.base), "BASE")
        for pattern, word in NORMAL:
            text = pattern.sub(word, text)
        return text


NORMAL = [(re.compile(pattern, re.M), word) for pattern, word in (
    (r'"raft_term":\d+', '"raft_term":TERM'), (r'"RaftTerm" ?: ?\d+', '"RaftTerm" : TERM'), (r'"raftTerm":\d+', '"raftTerm":TERM'),
    (r'"raft(Applied)?Index":\d+', r'"raft\1Index":INDEX'), (r'"Raft(Applied)?Index" ?: ?\d+', r'"Raft\1Index" : INDEX'),
    (r'"(dbSize\w*|DBSize\w*)":\d+', r'"\1":SIZE'), (r'"(DBSize\w*)" ?: ?\d+', r'"\1" : SIZE'), (r"\d+(\.\d+)? [kM]?B\b", "SIZE"),
    (r'"[hH]ash":\d+', '"hash":HASH'), (r'"Hash" ?: ?\d+', '"Hash" : HASH'), (r"^(CLIENT-n\d|http://CLIENT-n\d), \d+(, \d+)?$", r"\1, HASH"),
    (r'"ts":"[^"]*"', '"ts":TIME'), (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"), (r"\{\"level\":\"(warn|info)\".*\}\n", ""),
    (r"took = [\d.]+[mµnu]?s", "took = TIME"), (r'"took":"[^"]*"', '"took":TIME'), (r"in [\d.]+[mµnu]?s", "in TIME"),
    (r"took:? [\d.]+[mµnu]?s", "took TIME"), (r"\((\d+)s\)", r"(\1s)"), (r'"ttl":\d+', '"ttl":TTL'), (r"remaining\(-?\d+s\)", "remaining(TTL)"),
    (r'"TTL" ?: ?(\d)', r'"TTL" : \1'), (r"\(took [^)]*\)", "(took TIME)"), (r"0x[0-9a-f]{6,}", "POINTER"),
)]


def status_table(text):
    """A status line or row without term, indexes and size; those and who leads differ from run to run."""
    rows = []
    for line in text.splitlines():
        if "CLIENT-" in line and ("true" in line or "false" in line):
            line = re.sub(r"\btrue, (true|false)|\bfalse, (true|false)", "ROLE", re.sub(r"\| *(true|false) *\|", "| ROLE |", line, 1))
            line = re.sub(r"(?<=[,|]) *\d+ *(?=[,|]|$)", " N ", line)
            line = re.sub(r"(true|false), (false), ", "ROLE, ", line)
            line = re.sub(r"  +", " ", line)
        line = re.sub(r"-{3,}", "---", line)
        rows.append(re.sub(r"  +", " ", line))
    text = "\n".join(rows)
    text = re.sub(r'"(leader|Leader)" ?: ?"?[\w-]+"?', r'"\1":LEADER', text)
    return re.sub(r"\b\d+%", "SHARE", re.sub(r"\b3\.\d+\.\d+\b", "VERSION", text))


class Differential:
    def __init__(self, label, reference, subject, results, show):
        self.label, self.sides, self.results, self.show = label, (reference, subject), results, show

    def compare(self, title, answers):
        title = f"[{self.label}] {title}"
        if self.show:
            foreign.say(f"--- {title}\n{answers[0]}")
        if answers[0] == answers[1]:
            self.results.add(title, "passed")
            return
        reason = next((why for pattern, why in ALLOWED.items() if re.search(pattern, title)), None)
        foreign.say(f"{'allowed ' if reason else 'DIFFERS '} {title}{': ' + reason if reason else ''}")
        if not reason:
            for side, answer in zip(self.sides, answers):
                foreign.say("\n".join(f"    {side.name:10} {line}" for line in answer.rstrip("\n").splitlines() or [""]))
        self.results.add(title, "failed", "see above")

    def run(self, *arguments, stdin="", endpoints=None, capture=None, view=None, formats=()):
        """One command; for each of `formats` again with -w. The title is the command itself."""
        for form in [None, *formats]:
            more = ["-w", form] if form else []
            answers = []
            for side in self.sides:
                out, err, code = side.run([*arguments, *more], endpoints or None, stdin)
                if capture:
                    side.capture(capture, out)
                text = f"{side.normal(out)}{side.normal(err)}exit {code}"
                answers.append(view(text) if view else text)
            self.compare(" ".join([*arguments, *more]) + (f"  <<< {stdin!r}" if stdin else ""), answers)

    def everywhere(self, *arguments, **more):
        self.run(*arguments, endpoints=",".join("{url_%s}" % n for n in self.sides[0].servers.names), **more)

    def both(self, act):
        return [act(side) for side in self.sides]

    def until(self, *arguments, done, then=None, stdin="", endpoints=None, view=None):
        """A command that does not end by itself: read until done(output) holds, interrupt, compare what it printed."""
        answers = []
        for side in self.sides:
            process = side.popen(arguments, endpoints)
            if stdin:
                process.stdin.write(side.fill(stdin))
                process.stdin.flush()
            out, deadline, acted = "", time.monotonic() + WATCH_SECONDS_MAX, then is None
            while time.monotonic() < deadline and process.poll() is None and not (acted and done(out)):
                out += read_now(process)
                if not acted and done(out):
                    then(side)
                    acted = True
                    deadline = time.monotonic() + WATCH_SECONDS_MAX
                    before = out
                    while time.monotonic() < deadline and out == before and process.poll() is None:
                        out += read_now(process)
                        time.sleep(0.02)
                time.sleep(0.02)
            late = time.monotonic() >= deadline
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=10)  # before its input ends, which is another reason to end
                rest, err = process.communicate()
            except subprocess.TimeoutExpired:
                process.kill()
                rest, err = process.communicate()
            text = side.normal(out + rest) + side.normal(err) + ("(not within the time)" if late else "")
            answers.append(view(text) if view else text)
        self.compare(" ".join(arguments) + " until done", answers)

    # ---- the commands ----

    def keys(self):
        every = ("json", "fields", "simple")
        self.run("get", "none", formats=every)
        self.run("put", "a", "1", formats=every)
        self.run("put", "a", "2", "--prev-kv", formats=every)
        self.run("put", "new", "2", "--prev-kv")
        self.run("put", "a", "--ignore-value")
        self.run("put", "a", "x", "--ignore-value")
        self.run("put", "missing", "--ignore-value", formats=("json",))
        self.run("put", "missing", "v", "--ignore-lease")
        self.run("put", "a", "v", "--ignore-lease")
        self.run("put", "", "v", formats=("json",))
        self.run("put", "onlykey", stdin="value from stdin")
        self.run("put", "a", "v", "--lease=1234")
        self.run("put", "a", "v", "--lease=zz")
        self.run("put")
        self.run("put", "é<>&", "ü\u2028", formats=("json",))
        self.run("put", "--", "-dash", "-v")
        for i in range(6):
            self.run("put", f"p/{i}", f"{5 - i}")
        self.run("put", "p/2", "again")
        self.run("put", "p/1", "again")
        for arguments in (("a",), ("p/", "--prefix"), ("p/1", "p/4"), ("p/4", "p/1"), ("p/3", "--from-key"), ("", "--from-key"), ("", "--prefix"),
                          ("p/", "--prefix", "--limit=2"), ("p/", "--prefix", "--keys-only"), ("p/", "--prefix", "--print-value-only"),
                          ("p/", "--prefix", "--count-only"), ("p/", "--prefix", "--rev=8"), ("a", "--rev=2"), ("a", "--rev=99999"),
                          ("p/", "--prefix", "--consistency=s"), ("a", "--consistency=x"), ("p/", "--prefix", "--hex"), ("-dash", ),
                          ("p/", "--prefix", "--order=DESCEND"), ("p/", "--prefix", "--order=X"), ("a", "b", "c"), (),
                          ("", ), ("a", "--prefix", "--from-key"), ("p/", "--prefix", "--limit=-1"), ("é<>&",)):
            self.run("get", *arguments, formats=every if arguments in (("p/", "--prefix"), ("a",)) else ("json",))
        for sort_by in ("CREATE", "KEY", "MODIFY", "VALUE", "VERSION", "X"):
            for order in ("ASCEND", "DESCEND"):
                self.run("get", "p/", "--prefix", f"--sort-by={sort_by}", f"--order={order}")
            self.run("get", "p/", "--prefix", f"--sort-by={sort_by}", "--limit=3", formats=("json",))
        self.run("del", "none", formats=every)
        self.run("del", "p/0", formats=every)
        self.run("del", "p/1", "--prev-kv", formats=every)
        self.run("del", "p/2", "p/4", "--prev-kv")
        self.run("del", "p/", "--prefix", "--prev-kv", formats=("json",))
        self.run("del", "onlykey", "--from-key", formats=("json",))
        self.run("del", "", formats=("json",))
        self.run("del")

    def transactions(self):
        every = ("json", "fields", "simple")
        for text in ('value("a") = "v"\n\nput t 1\nget t\n\nput t 2\n\n', 'value("a") = "other"\n\nput t 1\n\nget t\ndel t\n\n',
                     'mod("a") > "0"\nver("a") > "0"\ncreate("a") < "100000"\n\nget a\n\n\n', 'ver("none") = "0"\n\nput once 1\n\nget once\n\n',
                     'lease("a") = "0"\n\nget "" --from-key\n\n\n', '\nput d 1\nput d 2\n\n\n', '\nput d 1\ndel d\n\n\n',
                     '\n\n\n', '\nput "" v\n\n\n', 'value("a") >= "1"\n\n\n\n', 'nonsense\n\n\n\n', '\nfly away\n\n\n',
                     '\nput x y --lease=77\n\n\n', '\nget a --rev=99999\n\n\n', 'value("none") != "1"\n\nput bad 1\n\nput good 1\n\n',
                     "\n" + "".join(f"put many{i} v\n" for i in range(129)) + "\n\n"):
            self.run("txn", stdin=text, formats=every if text.startswith("value") else ("json",))
        self.run("txn", "-i", stdin='value("a") = "v"\n\nput t 1\n\n\n')

    def leases(self):
        every = ("json", "fields", "simple")
        self.run("lease", "list", formats=("json",))
        for form in (None, "json", "fields"):
            self.run("lease", "grant", "1000", *(("-w", form) if form else ()), capture=f"lease_{form}")
        self.run("lease", "grant", "0", capture="lease_zero")
        self.run("lease", "grant", "-5", capture="lease_negative")
        self.run("lease", "grant", "99999999999", formats=("json",))
        self.run("lease", "grant", "x")
        self.run("lease", "grant")
        self.run("put", "leased/1", "v", "--lease={lease_None}", formats=("json",))
        self.run("put", "leased/2", "v", "--lease={lease_None}")
        self.run("get", "leased/", "--prefix", formats=every)
        self.run("put", "leased/2", "w", "--ignore-lease")
        self.run("lease", "timetolive", "{lease_None}", view=ttl, formats=every)
        self.run("lease", "timetolive", "{lease_None}", "--keys", view=ttl, formats=("json", "simple"))
        self.run("lease", "timetolive", "77", formats=every)
        self.run("lease", "timetolive")
        self.run("lease", "keep-alive", "{lease_json}", "--once", formats=("json",))
        self.run("lease", "keep-alive", "77", "--once", formats=("json",))
        self.run("lease", "keep-alive", "77")
        self.until("lease", "keep-alive", "{lease_json}", done=lambda out: "keepalived" in out)
        self.run("lease", "revoke", "{lease_None}", formats=("json",))
        self.run("get", "leased/", "--prefix", formats=("json",))
        self.run("lease", "revoke", "77", formats=("json",))
        self.run("lease", "revoke", "{lease_json}", formats=("json",))
        self.run("lease", "list", view=lambda text: "\n".join(sorted(text.splitlines())))
        for name in ("lease_fields", "lease_zero", "lease_negative"):
            self.both(lambda side, name=name: side.run(["lease", "revoke", "{%s}" % name]))
        self.run("lease", "list", formats=every)

    def watches(self):
        revisions = self.both(lambda side: json.loads(side.run(["get", "a", "-w", "json"])[0])["header"]["revision"])
        self.compare("revision before the watches", [str(r) for r in revisions])
        after = str(revisions[0] + 1)
        for key, value in (("w/1", "a"), ("w/1", "b"), ("w/2", "c")):
            self.run("put", key, value)
        self.run("del", "w/1")
        for form in ("simple", "json", "fields"):
            for more in ((), ("--prev-kv",)):
                count = {"simple": 4, "json": 1, "fields": 4}[form]
                word = {"simple": "\n", "json": "events", "fields": '"Type"'}[form]
                self.until("watch", "w/", "--prefix", f"--rev={after}", "-w", form, *more,
                           done=lambda out: ("w/1" in out or "dy8x" in out) and out.count(word) >= count and "DELETE" in out.upper() or '"type":1' in out)
        self.until("watch", "w/1", "w/2", f"--rev={after}", done=lambda out: "DELETE" in out)
        self.until("watch", "w/1", "--rev=" + after, "--progress-notify", done=lambda out: "DELETE" in out)
        self.until("watch", "w/2", f"--rev={after}", "--", "sh", "-c", "echo $ETCD_WATCH_REVISION $ETCD_WATCH_EVENT_TYPE $ETCD_WATCH_KEY $ETCD_WATCH_VALUE",
                   done=lambda out: out.count("\n") >= 4)
        self.until("watch", "-i", stdin=f"watch w/1 --rev={after}\nwatch w/2 --rev={after}\n", view=sort_lines,
                   done=lambda out: "DELETE" in out and "w/2" in out)
        self.until("watch", "-i", stdin=f"watch w/2 --rev={after}\nprogress\n", done=lambda out: "progress" in out)
        self.run("watch", "-i", stdin="nonsense\n")
        self.run("watch")
        self.run("compaction", after, formats=("json",))
        self.run("watch", "w/1", "--rev=1")
        self.run("get", "a", "--rev=1", formats=("json",))
        self.run("compaction", "1")
        self.run("compaction", "9999999")
        self.run("compaction", "x")
        self.run("compaction")
        self.run("compaction", str(int(after) + 2), "--physical")
        self.until("watch", "w/", "--prefix", f"--rev={int(after) + 2}", done=lambda out: "w/2" in out and "DELETE" in out)

    def locks(self):
        self.until("lock", "l", done=lambda out: out.startswith("l/"), view=lambda text: re.sub(r"l/[0-9a-f]+", "l/LEASE", text))
        self.run("lock", "l2", "sh", "-c", "echo $ETCD_LOCK_KEY | sed 's,/.*,,'; echo $ETCD_LOCK_REV; exit 7")
        self.run("lock", "l2", "true")
        self.run("lock", "l2", "no-such-program-here")
        self.run("lock")
        self.run("get", "l", "--prefix", formats=("json",))
        lease = lambda text: re.sub(r"e/[0-9a-f]+", "e/LEASE", text)
        self.until("elect", "e", "me", done=lambda out: "me" in out, view=lease)
        self.until("elect", "e", "me", done=lambda out: "me" in out, view=lease,
                   then=None, endpoints="{url_n2}")
        self.run("elect")
        self.run("elect", "e")
        self.run("get", "e/", "--prefix", formats=("json",))

    def maintenance(self):
        self.everywhere("endpoint", "health", view=sort_lines)
        self.run("endpoint", "health", "--cluster", view=sort_lines)
        self.run("endpoint", "health", formats=("json",))
        self.both(Side.refresh_leader)
        for form in ("simple", "table", "json", "fields"):
            self.everywhere("endpoint", "status", "-w", form, view=status_table)
        self.run("endpoint", "status", "--cluster", view=lambda text: sort_lines(status_table(text)))
        self.everywhere("endpoint", "hashkv", formats=("json", "fields", "table"), view=hashes)
        hashkv = self.both(lambda side: side.run(["endpoint", "hashkv", "-w", "json"], side.servers.endpoints)[0])
        self.compare("hashkv is the same on all members",
                     [str(len({entry["HashKV"]["hash"] for entry in json.loads(text)})) for text in hashkv])
        self.run("endpoint", "hashkv", "--rev=99999", formats=("json",))
        self.run("alarm", "list", formats=("json", "fields"))
        self.run("alarm", "disarm", formats=("json", "fields"))
        self.run("defrag")
        self.everywhere("defrag")
        self.run("defrag", "--cluster", view=sort_lines)
        self.run("snapshot", "save", "{base}/saved", view=lambda text: re.sub(r'"?size"?.*', "", text))
        self.run("snapshot", "save")
        self.everywhere("snapshot", "save", "{base}/saved2")
        self.run("snapshot", "status", "{base}/saved")
        self.run("move-leader", "{id_follower}", endpoints="{url_leader}", view=roles)
        self.both(Side.refresh_leader)
        self.run("move-leader", "{id_leader}", endpoints="{url_follower}", view=roles)
        self.run("move-leader", "1234abcd", endpoints="{url_leader}")
        self.run("move-leader", "zzz", endpoints="{url_leader}")
        self.run("move-leader")
        self.run("version", formats=("json",))
        self.run("get", "a", endpoints="http://127.0.0.1:1", view=lambda text: text.splitlines()[-1])
        self.run("nonsense")
        self.run("get", "a", "--nonsense")

    def mirror(self):
        for key in ("m/1", "m/2"):
            self.run("put", key, "x")

        def copied(side):
            return side.run(["get", "copy/", "--prefix", "--keys-only"])[0].split()
        answers = []
        for side in self.sides:
            process = side.popen(["make-mirror", side.servers.client_urls[1], "--prefix", "m/", "--dest-prefix", "copy/"])
            try:
                foreign.wait_for("the mirror", lambda: len(copied(side)) >= 2, WATCH_SECONDS_MAX)
                side.run(["put", "m/3", "y"])
                side.run(["del", "m/1"])
                foreign.wait_for("the mirror's changes", lambda: copied(side) in (["copy/2", "copy/3"], ["copy/m/2", "copy/m/3"]), WATCH_SECONDS_MAX)
            except AssertionError as error:
                answers.append(f"{error}; ")
            else:
                answers.append("")
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=10)
            answers[-1] += side.run(["get", "copy/", "--prefix"])[0]
        self.compare("make-mirror", answers)

    def members(self):
        for form in ("simple", "table", "json", "fields"):
            self.run("member", "list", "-w", form, view=lambda text: members_in_order(re.sub(r"-{3,}|  +", " ", text)))
        self.run("member", "add", "new", "--peer-urls=http://127.0.0.1:19999", "-w", "json", capture="member_new", view=members_in_order)
        self.run("member", "list", "-w", "json", view=members_in_order)
        self.run("member", "add", "new", "--peer-urls=http://127.0.0.1:19999", formats=("json",))
        self.run("member", "add", "new", "--peer-urls=:bad:")
        self.run("member", "add", "new")
        self.run("member", "add")
        self.run("member", "promote", "{member_new}")
        self.run("member", "update", "{member_new}", "--peer-urls=http://127.0.0.1:19998", formats=("json",), view=members_in_order)
        self.run("member", "update", "{member_new}")
        self.run("member", "update", "{member_new}", "--peer-urls=:bad:")
        self.run("member", "update", "1234abcd", "--peer-urls=http://127.0.0.1:19997")
        self.run("member", "update", "zz", "--peer-urls=http://127.0.0.1:19997")
        self.run("member", "remove", "{member_new}")
        self.run("member", "remove", "{member_new}", formats=("json",))
        self.run("member", "remove", "1234abcd", formats=("json",))
        self.run("member", "remove", "zz")
        self.run("member", "remove")
        self.run("member", "add", "learner", "--learner", "--peer-urls=http://127.0.0.1:19996", "-w", "json", capture="member_learner", view=members_in_order)
        self.run("member", "add", "learner2", "--learner", "--peer-urls=http://127.0.0.1:19995", capture="member_learner2", formats=("json",))
        self.run("member", "promote", "{member_learner}", formats=("json",))
        self.run("member", "promote", "{id_n1}")
        self.run("member", "promote", "1234abcd")
        self.run("member", "remove", "{member_learner}", "-w", "json", view=members_in_order)
        self.run("member", "list", view=sort_lines)

    def auth(self):
        """In a run of etcd's order, as a user would set it up. The last commands switch it off again."""
        every = ("json",)
        self.run("user", "list", formats=every)
        self.run("role", "list", formats=every)
        self.run("auth", "enable", formats=every)
        self.run("auth", "status")
        self.run("user", "add", "root:pw", formats=every)
        self.run("user", "add", "alice:pw")
        self.run("user", "add", "nopass", "--no-password")
        self.run("user", "get", "alice", formats=every)
        self.run("user", "get", "nobody", formats=every)
        self.run("role", "add", "r", formats=every)
        self.run("role", "grant-permission", "r", "readwrite", "k/", "--prefix=true", formats=every)
        self.run("role", "grant-permission", "none", "read", "k", formats=every)
        self.run("role", "grant-permission", "r", "fly", "k")
        self.run("role", "get", "r", formats=every)
        self.run("role", "get", "none")
        self.run("user", "grant-role", "alice", "r", formats=every)
        self.run("user", "grant-role", "alice", "none")
        self.run("user", "grant-role", "root", "root")
        self.run("user", "get", "alice", "--detail")
        self.run("user", "passwd", "alice", "--interactive=false", stdin="pw2\n")
        self.run("auth", "enable", formats=every)
        for user in ("alice:pw2", "alice:pw", "root:pw", "nobody:pw", "root:bad"):
            self.run("put", "k/1", "v", "--user", user)
            self.run("get", "other", "--user", user)
            self.run("user", "list", "--user", user)
            self.run("member", "list", "--user", user, view=sort_lines)
        self.run("get", "k/1")
        self.run("role", "revoke-permission", "r", "k/", "--prefix=true", "--user", "root:pw")
        self.run("user", "revoke-role", "alice", "r", "--user", "root:pw")
        self.run("user", "revoke-role", "alice", "r", "--user", "root:pw")
        self.run("user", "delete", "root", "--user", "root:pw")
        self.run("role", "delete", "r", "--user", "root:pw")
        self.run("auth", "disable", "--user", "alice:pw2")
        self.run("auth", "disable", "--user", "root:pw")
        self.run("auth", "disable")
        for user in ("alice", "nopass", "root"):
            self.run("user", "delete", user)
        self.run("user", "delete", "alice", formats=every)
        self.run("role", "delete", "none", formats=every)
        self.run("user", "list")


def read_now(process):
    """What a process has printed since; "" if nothing yet. Past Python's buffer, which cannot be read in part."""
    if not select.select([process.stdout], [], [], 0.02)[0]:
        return ""
    return os.read(process.stdout.fileno(), 1 << 20).decode(errors="backslashreplace")


def sort_lines(text):
    return "\n".join(sorted(text.splitlines()))


def ttl(text):
    text = re.sub(r'"ttl":-?\d+', '"ttl":TTL', text)
    text = re.sub(r"remaining\(\d+s\)", "remaining(TTL)", re.sub(r'"TTL" : \d+', '"TTL" : TTL', text))
    text = re.sub(r'"keys":\[(.*?)\]', lambda m: '"keys":' + " ".join(sorted(m.group(1).split(","))), text)
    return re.sub(r"attached keys\(\[(.*)\]\)", lambda m: "keys " + " ".join(sorted(m.group(1).split())), text)


def hashes(text):
    text = re.sub(r"\| *\d+ *\|", "| HASH |", re.sub(r"-{3,}", "---", text))
    text = re.sub(r'"compact_revision":(\d+)', r'"compact_revision":\1', text)
    return re.sub(r"(CLIENT-n\d), \d+", r"\1, HASH", re.sub(r"  +", " ", text))


def roles(text):
    return re.sub(r"ID-n\d|CLIENT-n\d", "MEMBER", text)


def members_in_order(text):
    """JSON with its members sorted: etcd lists them by id, which has no meaning."""
    try:
        line, rest = text.split("\n", 1)
        answer = json.loads(re.sub(r":((?:ID-|MEMBER|CLUSTER|TERM)[\w-]*)", r':"\1"', line))
        answer.get("members", []).sort(key=lambda m: json.dumps(m, sort_keys=True))
        return json.dumps(answer, sort_keys=True) + "\n" + rest
    except ValueError:
        return sort_lines(text)


PARTS = ("keys", "transactions", "leases", "watches", "locks", "maintenance", "mirror", "members")  # auth() waits for users and roles; by name it runs: `... 3.4 auth`


def main():
    show = "--show" in sys.argv
    wanted = [word for word in sys.argv[1:] if not word.startswith("-")]
    subject = foreign.find_binary()
    pairs = {}
    if not wanted or "3.4" in wanted:
        pairs["3.4"] = ("/usr/bin/etcdctl", "/usr/bin/etcd", ("--logger=zap",))
    if not wanted or "current" in wanted:
        pairs["current"] = (foreign.go_program("go.etcd.io/etcd/etcdctl/v3", "go.etcd.io/etcd/etcdctl/v3"),
                            foreign.go_program("go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"), ())
    parts = [part for part in (*PARTS, "auth") if part in wanted] or PARTS
    foreign.isolate()
    began, results = time.monotonic(), foreign.Results(ALLOWED)
    for label, (etcdctl, etcd, arguments) in pairs.items():
        with tempfile.TemporaryDirectory() as work:
            for name in ("etcd", "subject"):
                os.mkdir(os.path.join(work, name))
            with foreign.Servers(etcd, first_port=12379, arguments=arguments, directory=os.path.join(work, "etcd")) as reference, \
                    foreign.Servers(subject, first_port=22379, directory=os.path.join(work, "subject")) as ours:
                run = Differential(label, Side("etcd", etcdctl, reference), Side("rallypoint", etcdctl, ours), results, show)
                for part in parts:
                    getattr(run, part)()
                for side in run.sides:
                    if not side.servers.alive():
                        results.add(f"[{label}] a member of {side.name} ended", "failed", "its log is above")
                        side.servers.show_logs()
    return results.finish(began)


if __name__ == "__main__":
    sys.exit(main())
