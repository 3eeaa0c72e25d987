"""What the v3 API promises beyond etcd, and what it must keep under faults. Each test says what etcd does instead."""
import concurrent.futures
import hashlib
import itertools
import os
import pathlib
import random
import resource
import socket
import statistics
import subprocess
import threading
import time

import pytest

from cluster import UNKNOWN_OUTCOME, wait_for
from grpc_client import GrpcConnection, field, fields, first
from v3 import INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE, V3, V3Error, decode

ELECTION_SECONDS = 1.0  # the default election timeout


def v3s(cluster):
    return [V3(node) for node in cluster.nodes]


def memory(node, what):
    """VmRSS or VmHWM of a member, in MiB."""
    with open(f"/proc/{node.process.pid}/status") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(what + ":"))


def forget_peak(node):
    pathlib.Path(f"/proc/{node.process.pid}/clear_refs").write_text("5")


def etcdctl(*arguments, node, seconds=20):
    environment = dict(os.environ, ETCDCTL_API="3")
    return subprocess.run(["etcdctl", f"--endpoints={node.client_url}", *arguments], env=environment, capture_output=True,
                          text=True, timeout=seconds)


def test_a_write_through_a_follower_while_the_leader_stands_still_happens_once(cluster, figure):
    """etcd: 7 s of waiting, then an error, and the write is gone."""
    times = []
    for number in range(3):
        leader = cluster.leader()
        follower = V3(cluster.followers()[number % 2])
        follower.put(f"warm{number}", "x")
        leader.pause()
        began = time.monotonic()
        follower.put(f"frozen{number}", "x")
        times.append(time.monotonic() - began)
        leader.resume()
        leader.wait_healthy()
        assert [V3(node).version(f"frozen{number}") for node in cluster.nodes] == [1, 1, 1]
    figure(f"seconds: {[round(t, 2) for t in times]}")
    assert max(times) < 2 * ELECTION_SECONDS + 0.2  # of a loaded machine


def test_without_a_quorum_a_write_ends_unavailable_before_the_callers_own_deadline(cluster, figure):
    """etcd: its own 7 s, whatever the caller said; the caller's context ends first and it learns nothing."""
    survivor, *others = cluster.nodes
    V3(survivor).put("here", "yes")
    for node in others:
        node.kill()
    wait_for("no leader", lambda: int(V3(survivor).status().get("leader", 0)) == 0, 10)
    late = []
    for deadline in (0.3, 1.0, 2.0):
        connection = GrpcConnection(survivor.client_port)
        for path, message in (("/etcdserverpb.KV/Put", field(1, "k") + field(2, "v")), ("/etcdserverpb.KV/Range", field(1, "k"))):
            began = time.monotonic()
            call = connection.finish(connection.start(path, message, deadline=deadline))
            took = time.monotonic() - began
            assert (call.status, call.text) == (UNAVAILABLE, "etcdserver: request timed out"), f"{path} with {deadline} s"
            assert deadline / 2 < took < deadline
            late.append(took / deadline)
        connection.close()
        with pytest.raises(V3Error) as error:
            V3(survivor).put("k", "v", deadline=deadline)
        assert error.value.code == UNAVAILABLE
    assert V3(survivor).get("here", serializable=True) == "yes", "a serializable read is this member's own"
    figure(f"share of the deadline that was used: {min(late):.2f} to {max(late):.2f}")
    shown = etcdctl("--command-timeout=2s", "put", "k", "v", node=survivor)
    assert shown.returncode != 0 and "request timed out" in shown.stderr, shown.stderr
    others[0].start().wait_healthy()
    V3(survivor).put("k", "again")


def retry_until_done(cluster, start, action, seconds=30):
    """Every member in turn, with the same key, until one says yes. Returns how often it was tried."""
    end = time.monotonic() + seconds
    for tries in itertools.count():
        node = cluster.nodes[(start + tries) % len(cluster.nodes)]
        try:
            action(V3(node))
            return tries + 1
        except (*UNKNOWN_OUTCOME, V3Error) as error:
            assert not isinstance(error, V3Error) or error.code == UNAVAILABLE, error
            assert time.monotonic() < end, f"not done within {seconds} s: {error}"
            time.sleep(0.02)


def test_an_idempotency_key_makes_a_retry_safe_over_the_death_of_leaders(cluster, figure):
    """etcd has none: a client that tries again writes twice, or gives up (etcd#18424)."""
    writes, tries = 6 * [0], []
    stop = threading.Event()

    def work(number):
        while not stop.is_set():
            key = f"worker{number}-{writes[number]}"
            tries.append(retry_until_done(cluster, number, lambda v3: v3.put(f"count{number}", key, idempotency_key=key, timeout=3)))
            writes[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(writes))]
    for thread in threads:
        thread.start()
    for _ in range(4):
        time.sleep(0.6)  # load, not synchronisation
        leader = cluster.leader()
        leader.kill()
        leader.start().wait_healthy()
    stop.set()
    for thread in threads:
        thread.join(60)
    for number, count in enumerate(writes):
        for v3 in v3s(cluster):
            assert v3.version(f"count{number}") == count, "a write happened twice, or not at all"
    figure(f"{sum(writes)} writes, {sum(n > 1 for n in tries)} of them tried more than once")
    assert max(tries) > 1, "nothing was ever tried again: the test tests nothing"


def test_a_key_that_was_used_for_another_request_is_refused(cluster):
    one, two, three = v3s(cluster)
    one.put("a", "1", idempotency_key="k")
    two.put("a", "1", idempotency_key="k")
    assert three.version("a") == 1
    with pytest.raises(V3Error) as error:
        three.put("a", "2", idempotency_key="k")
    assert error.value.code == INVALID_ARGUMENT and "belongs to another request" in error.value.message
    assert one.get("a") == "1"


def test_leases_neither_die_early_nor_live_for_ever_over_changes_of_the_leader(cluster, figure):
    """etcd: a new leader gives every lease its whole time again, or, with checkpoints lost, cuts it short."""
    kept, left_alone = V3(cluster.nodes[0]).grant(3), V3(cluster.nodes[1]).grant(7)
    granted = time.monotonic()
    V3(cluster.nodes[0]).put("kept", "x", lease=kept)
    V3(cluster.nodes[2]).put("alone", "x", lease=left_alone)
    renewals = 0
    gone_after = None
    for number in range(8):
        if number in (1, 5):
            leader = cluster.leader()
            leader.kill()
            leader.start()
        end = granted + number + 1
        while time.monotonic() < end:
            node = cluster.nodes[renewals % 3]
            try:
                # Every member passes a renewal on to whoever leads.
                assert V3(node).keep_alive(kept, timeout=2.5) == 3, "a lease that was renewed in time is gone"
                renewals += 1
            except UNKNOWN_OUTCOME:
                renewals += 1  # that member is being started
            if gone_after is None and V3(cluster.leader()).get("alone") is None:
                gone_after = time.monotonic() - granted
            time.sleep(0.25)
    assert V3(cluster.leader()).get("kept") == "x"
    assert gone_after is None or gone_after >= 7, f"died {7 - gone_after:.1f} s early"
    # The second leader logged what was left after half the time; the third must not start the clock again.
    wait_for("the end of a lease that nobody renews", lambda: V3(cluster.leader()).get("alone") is None, 7)
    gone_after = gone_after or time.monotonic() - granted
    assert gone_after < 12, "a new leader gave the whole time again"
    assert V3(cluster.nodes[0]).keep_alive(kept) in (0, 3)  # it may have run out meanwhile
    if V3(cluster.nodes[0]).time_to_live(kept) == -1:
        kept = V3(cluster.nodes[0]).grant(3)
        V3(cluster.nodes[0]).put("kept", "x", lease=kept)
    last = time.monotonic()
    wait_for("the end of the renewed lease, once nobody renews it", lambda: V3(cluster.leader()).get("kept") is None, 3 + 3 * ELECTION_SECONDS)
    assert time.monotonic() - last >= 2
    for v3 in v3s(cluster):
        assert v3.time_to_live(kept) == -1 and v3.time_to_live(left_alone) == -1
    figure(f"{renewals} renewals; 7 s unrenewed through two changes of the leader lasted {gone_after:.1f} s")


def test_a_watch_resumes_over_the_death_of_its_member_without_gap_or_duplicate(cluster, figure):
    stop = threading.Event()
    written = {}  # revision -> value

    def write():
        for number in itertools.count():
            if stop.is_set():
                return
            value = str(number)
            key = f"w{number}"
            answer = []
            retry_until_done(cluster, number, lambda v3: answer.append(v3.put("seen/" + str(number % 5), value, idempotency_key=key, timeout=3)))
            written[int(answer[-1]["header"]["revision"])] = value

    seen = []
    switches = 0
    followed = cluster.nodes[0]

    def follow():
        nonlocal switches, followed
        for number in itertools.count():
            start = seen[-1][0] + 1 if seen else 1
            followed = cluster.nodes[number % 3]
            try:
                for response in V3(followed).watch("seen/", "seen0", start_revision=start, timeout=3):
                    for event in response.get("events", []):
                        seen.append((int(event["kv"]["mod_revision"]), decode(event["kv"]["value"])))
                    if stop.is_set() and seen and seen[-1][0] >= max(written):
                        return
            except UNKNOWN_OUTCOME:
                pass
            if stop.is_set() and seen and seen[-1][0] >= max(written):
                return
            switches += 1

    writer, watcher = threading.Thread(target=write), threading.Thread(target=follow)
    writer.start()
    watcher.start()
    for number in range(4):
        time.sleep(0.6)
        victim = cluster.leader() if number == 3 else followed
        victim.kill()
        victim.start().wait_healthy()
    stop.set()
    writer.join(40)
    watcher.join(40)
    assert not watcher.is_alive(), "the watch never reached the last write"
    assert len({revision for revision, _ in seen}) == len(seen), "an event came twice"
    assert seen == sorted(seen, key=lambda event: event[0]), "events out of order"
    assert dict(seen) == written
    figure(f"{len(seen)} events through {switches + 1} streams")
    assert switches >= 3


def test_a_member_that_returns_inflates_no_term(cluster, figure):
    """etcd 3.4: the term goes from 3 to 24 and the leader is deposed (etcd#12959)."""
    leader = cluster.leader()
    follower = cluster.followers()[0]
    before = V3(leader).term()
    follower.pause()
    stop = time.monotonic() + 10
    while time.monotonic() < stop:
        V3(leader).put("meanwhile", "x")
        time.sleep(0.1)
    follower.resume()
    follower.wait_healthy()
    assert V3(follower).get("meanwhile") == "x"
    time.sleep(2 * ELECTION_SECONDS)
    assert [v3.term() for v3 in v3s(cluster)] == [before] * 3
    assert cluster.leader() is leader
    figure(f"term {before} before and after")


def test_a_big_range_streams_in_bounded_memory(make_cluster, figure):
    """etcd: the whole answer in memory, several times (etcd#12342). 1024 MB with RALLYPOINT_RANGE_MB=1024."""
    megabytes = int(os.environ.get("RALLYPOINT_RANGE_MB", "200"))
    bound = 64
    cluster = make_cluster(1)
    node = cluster.nodes[0]
    connection = GrpcConnection(node.client_port)
    value = random.Random(1).randbytes(1 << 20)
    for number in range(megabytes):
        connection.unary("/etcdserverpb.KV/Put", field(1, f"big/{number:05}") + field(2, value))
    connection.close()
    # What storing took does not count.
    node.terminate()
    node.start().wait_healthy()
    reader = GrpcConnection(node.client_port, stream_window=1 << 20)
    reader.unary("/etcdserverpb.KV/Range", field(1, "big/00000") + field(8, 1))
    before = memory(node, "VmRSS")
    forget_peak(node)
    call = reader.start("/etcdserverpb.KV/RangeStream", field(1, "big/") + field(2, "big0"))
    reader.pump()
    time.sleep(1.5)  # nobody reads: the server must stop, and not fill up
    seen, began = 0, time.monotonic()
    probe = GrpcConnection(node.client_port)
    delays = []
    while call.status is None:
        reader.pump()
        for message in call.messages:
            for number, pair in fields(first(message, 1)):
                if number == 2:
                    assert first(pair, 1) == f"big/{seen:05}".encode()
                    seen += 1
        call.messages.clear()
        if seen % 20 == 0:
            asked = time.monotonic()
            probe.unary("/etcdserverpb.KV/Range", field(1, "none"))
            delays.append(time.monotonic() - asked)
    took = time.monotonic() - began
    assert (call.status, seen) == (0, megabytes)
    grown = memory(node, "VmHWM") - before
    figure(f"{megabytes} MB in {took:.1f} s, at most {grown:.0f} MiB more than before (bound {bound}); "
           f"a read beside it took {statistics.median(delays) * 1000:.1f} ms, at most {max(delays) * 1000:.0f}")
    assert grown < bound
    assert max(delays) < 1.0


def latencies(node, count=150):
    connection = GrpcConnection(node.client_port)
    times = []
    for number in range(count):
        began = time.monotonic()
        connection.unary("/etcdserverpb.KV/Put", field(1, "probe") + field(2, str(number)))
        times.append(time.monotonic() - began)
    connection.close()
    times.sort()
    return times[len(times) // 2], times[int(len(times) * 0.99)]


def test_thousands_of_idle_and_half_open_connections_harm_nobody(make_cluster, figure):
    """5000 connections that greeted and rest, 5000 that never finish what they began."""
    count, bound = 5000, 256
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * count + 1000:
        pytest.skip(f"only {hard} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    cluster = make_cluster(1)
    node = cluster.nodes[0]
    quiet = latencies(node)
    before = memory(node, "VmRSS")
    # The kinds of half a beginning: nothing, a preface, half of one, half of headers in both protocols.
    greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    settings = b"\0\0\0\4\0\0\0\0\0"
    halves = (b"", greeting, greeting[:10], b"POST /v3/kv/put HTTP/1.1\r\nHost: x\r\n", greeting + settings + b"\0\0\x80\1\4\0\0\0\1\x83")
    held = []
    try:
        for number in range(count):
            for bytes_sent in (greeting + settings, halves[number % len(halves)]):
                each = socket.create_connection(("127.0.0.1", node.client_port), 10)
                each.sendall(bytes_sent)
                held.append(each)
        busy = latencies(node)
        grown = memory(node, "VmHWM") - before
        assert V3(node).put("probe", "by the gateway")
        figure(f"{2 * count} connections take {grown:.0f} MiB (bound {bound}); put p50 {quiet[0] * 1000:.1f} -> {busy[0] * 1000:.1f} ms, "
               f"p99 {quiet[1] * 1000:.1f} -> {busy[1] * 1000:.1f}")
        assert grown < bound
        assert busy[0] < 3 * quiet[0] + 0.002
        assert busy[1] < 3 * quiet[1] + 0.05
    finally:
        for each in held:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_kill_nine_of_all_members_keeps_keys_leases_and_history(cluster, figure):
    clients = v3s(cluster)
    lease = clients[0].grant(3600)
    clients[1].put("leased", "x", lease=lease)
    acknowledged, stop = [{} for _ in range(4)], threading.Event()

    def write(number):
        for count in itertools.count():
            if stop.is_set():
                return
            key, value = f"kept/{number}/{count % 20}", str(count)
            try:
                clients[(number + count) % 3].put(key, value, timeout=5, idempotency_key=f"{number}-{count}")
                acknowledged[number][key] = (value, None)
            except (*UNKNOWN_OUTCOME, V3Error):
                # It may have happened; the older value stands if it did not.
                acknowledged[number][key] = (acknowledged[number].get(key, (None, None))[0], value)
                time.sleep(0.02)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        time.sleep(0.7)
        for node in cluster.nodes:
            node.process.kill()
        for node in cluster.nodes:
            node.kill()
        for node in cluster.nodes:
            node.start()
        for node in cluster.nodes:
            node.wait_healthy()
    stop.set()
    for thread in threads:
        thread.join(30)
    checked = 0
    for keys in acknowledged:
        for key, possible in keys.items():
            for v3 in clients:
                assert v3.get(key) in possible, key
                checked += 1
    assert clients[2].get("leased") == "x" and clients[2].time_to_live(lease) > 3000
    revision = clients[0].revision()
    wait_for("all members at the same revision", lambda: len({v3.revision(timeout=5) for v3 in clients}) == 1, 10)
    assert len({v3.hash_kv(revision) for v3 in clients}) == 1, "the members' histories differ"
    figure(f"{checked} values checked, at revision {revision}")


def test_a_full_quota_refuses_clearly_and_clears_itself(make_cluster, figure):
    """etcd: the whole cluster read-only until somebody compacts, defragments and disarms by hand (etcd#7944)."""
    cluster = make_cluster(3, "--quota-backend-bytes", str(2 << 20))
    one, two, three = v3s(cluster)
    stored = 0
    with pytest.raises(V3Error) as error:
        for stored in range(100):
            one.put(f"fill/{stored:03}", "x" * 100_000)
    assert (error.value.code, error.value.message) == (RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded")
    assert 15 <= stored <= 21
    wait_for("the alarm", lambda: two.alarms(), 5)
    assert {alarm["alarm"] for alarm in two.alarms()} == {"NOSPACE"}
    with pytest.raises(V3Error) as error:
        three.put("small", "x")
    assert error.value.code == RESOURCE_EXHAUSTED
    assert two.get("fill/000") == "x" * 100_000, "reads go on"
    assert two.delete("fill/", "fill/005") == 5, "deletes go on"
    one.compact(one.revision())
    began = time.monotonic()

    def put_again():
        try:
            return three.put("small", "x")
        except V3Error as still:
            assert still.code == RESOURCE_EXHAUSTED
            return None
    wait_for("room again", put_again, 15)
    figure(f"{stored} values of 100 kB fit 2 MiB; {time.monotonic() - began:.1f} s from the compaction to the next write")
    assert not one.alarms()


def test_etcdctl_saves_a_snapshot(cluster, tmp_path, figure):
    for number in range(50):
        V3(cluster.nodes[0]).put(f"saved/{number}", "x" * 1000)
    path = tmp_path / "snapshot"
    saved = etcdctl("snapshot", "save", str(path), node=cluster.nodes[1])
    assert saved.returncode == 0, saved.stderr
    content = path.read_bytes()
    assert hashlib.sha256(content[:-32]).digest() == content[-32:], "the trailer is the SHA-256 of what is before it"
    assert len(content) > 50 * 1000
    figure(f"{len(content)} bytes")


def test_etcdctl_agrees_with_the_gateway(cluster):
    one, two, three = cluster.nodes
    assert etcdctl("put", "a", "1", node=one).stdout == "OK\n"
    assert etcdctl("get", "a", node=two).stdout == "a\n1\n"
    assert V3(three).get("a") == "1"
    assert etcdctl("del", "a", node=three).stdout == "1\n"
    health = etcdctl("endpoint", "health", node=one)
    assert health.returncode == 0 and "is healthy" in health.stderr + health.stdout
