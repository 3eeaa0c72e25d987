"""A leader that dies, stops or leaves: how long writes wait, and that each of them happens once."""
import statistics
import threading
import time

from cluster import UNKNOWN_OUTCOME, wait_for
from load import AppendWriter, CounterWriter, check_counter, check_queue, write_until_done


def test_time_from_the_death_of_the_leader_to_the_next_write(cluster, own, figure):
    gaps = []
    for number in range(7):
        leader = cluster.leader()
        writer = cluster.followers()[number % 2]
        wait_for("all members in step", lambda: all(n.read("/gap", quorum="true").status in (200, 404) for n in cluster.nodes), 10)
        leader.kill()
        gap, refused = write_until_done(writer, "/gap")
        gaps.append(gap)
        if own:
            assert not refused, f"refused with {refused} while there was no leader"
        leader.start().wait_healthy()
    figure(f"ms: median {statistics.median(gaps) * 1000:.0f}, all {[round(gap * 1000) for gap in gaps]}")
    if own:
        assert statistics.median(gaps) < 0.5, f"fail-over took an election timeout: {gaps}"


def hold_long_polls(node, count):
    """Open watches that nobody will wake; returns the threads. They end when their server does."""
    def watch(number):
        try:
            node.read(f"/never/{number}", wait="true", timeout=60)
        except UNKNOWN_OUTCOME:
            pass
    threads = [threading.Thread(target=watch, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_sigterm_hands_leadership_over_and_ends_with_long_polls_open(cluster, own, figure):
    ends, gaps = [], []
    for number in range(5):
        leader = cluster.leader()
        follower = cluster.followers()[0]
        polls = hold_long_polls(leader, 20)
        assert leader.put("/before", str(number)).status in (200, 201)
        gap = []
        writer = threading.Thread(target=lambda: gap.append(write_until_done(follower, "/during")))
        leader.process.terminate()
        began = time.monotonic()
        writer.start()
        leader.process.wait(20)
        ends.append(time.monotonic() - began)
        writer.join(30)
        gaps.append(gap[0][0])
        if own:
            assert not gap[0][1], f"refused with {gap[0][1]} during a hand-over"
        for poll in polls:
            poll.join(10)
            assert not poll.is_alive(), "a long-poll outlived its server"
        assert cluster.leader() is not leader
        leader.start().wait_healthy()
    figure(f"ms until gone: {[round(end * 1000) for end in ends]}; until the next write: {[round(gap * 1000) for gap in gaps]}")
    if own:
        assert statistics.median(ends) < 0.1, f"SIGTERM took {ends} s"


def test_sigterm_of_a_single_node_ends_it_at_once(make_cluster, own, figure):
    cluster = make_cluster(1)
    node = cluster.nodes[0]
    ends = []
    for _ in range(5):
        hold_long_polls(node, 50)
        assert node.put("/x", "y").status in (200, 201)
        ends.append(node.terminate())
        node.start().wait_healthy()
    figure(f"ms: {[round(end * 1000) for end in ends]}")
    if own:
        assert statistics.median(ends) < 0.1


def test_a_stopped_leader_is_replaced_and_answers_no_stale_read_afterwards(cluster, own, figure):
    for _ in range(2):
        leader = cluster.leader()
        follower = cluster.others(leader)[0]
        assert leader.put("/stale", "old").status in (200, 201)
        leader.pause()
        gap, refused = write_until_done(follower, "/stale")
        if own:
            assert not refused, f"refused with {refused} while the leader stood still"
        write_until_done(follower, "/stale", value="new")
        answers = []
        # The kernel takes these while the process stands still: they begin after the write and must see it.
        readers = [threading.Thread(target=lambda: answers.append(leader.read("/stale", quorum="true", timeout=20))) for _ in range(8)]
        for reader in readers:
            reader.start()
        time.sleep(0.2)
        leader.resume()
        for reader in readers:
            reader.join(30)
        assert len(answers) == 8
        if own:
            assert {(answer.status, answer.value) for answer in answers} == {(200, "new")}
        else:
            assert {answer.value for answer in answers if answer.status == 200} <= {"new"}
        leader.wait_healthy()
        figure(f"next write {gap * 1000:.0f} ms after SIGSTOP of the leader")


def test_a_write_through_a_follower_happens_once_though_the_leader_dies(cluster, own, figure):
    """Clients stay with a live member, so every outcome is known to it: nothing unknown, nothing twice."""
    cluster.leader().put("/counter", "0")
    counts = []
    for _ in range(4):
        leader = cluster.leader()
        survivors = cluster.others(leader)
        counters = [CounterWriter(f"c{i}", [survivors[i % 2]]) for i in range(4)]
        appends = [AppendWriter(f"a{time.monotonic_ns()}-{i}", [survivors[i % 2]]) for i in range(4)]
        for writer in counters + appends:
            writer.start()
        wait_for("some writes", lambda: all(w.acknowledged or w.error for w in appends), 20)
        leader.kill()
        before = sum(len(w.acknowledged) for w in appends)
        wait_for("writes after the death", lambda: sum(len(w.acknowledged) for w in appends) > before + 50, 30)
        for writer in counters + appends:
            writer.finish()
        if own:
            for writer in counters + appends:
                assert not writer.unknown and not writer.refused, \
                    f"{writer.name}: unknown {writer.unknown[:3]}, refused {writer.refused}: its member lived throughout"
        leader.start().wait_healthy()
        counts.append((counters, appends))
        all_counters = [w for pair in counts for w in pair[0]]
        all_appends = [w for pair in counts for w in pair[1]]
        for node in cluster.nodes:
            value, acknowledged, unknown = check_counter(node, all_counters)
            listed = check_queue(node, all_appends)
    figure(f"counter {value}: {acknowledged} acknowledged, {unknown} unknown; {listed} appends, none twice")


def test_without_a_majority_nothing_is_acknowledged_and_all_goes_on_with_it(cluster, own):
    survivor, *others = cluster.nodes
    assert survivor.put("/majority", "yes").status == 201
    for node in others:
        node.kill()
    try:
        answer = survivor.put("/majority", "no", timeout=3)
        assert answer.status >= 500, f"acknowledged without a majority: {answer}"
    except UNKNOWN_OUTCOME:
        pass
    local = survivor.read("/majority", quorum="false", timeout=3)
    assert (local.status, local.value) == (200, "yes"), "a read with quorum=false is local"
    others[0].start().wait_healthy()
    write_until_done(survivor, "/majority")
    write_until_done(others[0], "/majority")


def test_a_watch_through_a_follower_goes_on_over_the_death_of_the_leader(cluster):
    leader = cluster.leader()
    follower = cluster.others(leader)[0]
    events = []
    thread = threading.Thread(target=lambda: events.append(follower.read("/watched", wait="true", timeout=30)))
    thread.start()
    time.sleep(0.3)
    leader.kill()
    write_until_done(cluster.others(leader)[1], "/watched")
    thread.join(30)
    assert events and events[0].json["node"]["key"] == "/watched"


def test_reads_through_every_member_see_the_write_before_them(cluster, own):
    for number in range(60):
        writer = cluster.nodes[number % 3]
        assert writer.put("/seen", str(number)).status in (200, 201)
        for reader in cluster.nodes:
            answer = reader.read("/seen") if own else reader.read("/seen", quorum="true")
            assert answer.value == str(number), f"{reader} read {answer.value} after {number} was written through {writer}"
