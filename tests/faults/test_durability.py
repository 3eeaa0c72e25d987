"""What was acknowledged is there: through kill -9 of one member after the other, of all at once, restarts, snapshots."""
import random
import threading
import time

from cluster import wait_for
from load import AppendWriter, CounterWriter, KeyWriter, check_counter, check_queue


def start_writers(cluster):
    cluster.leader().put("/counter", "0")
    nodes = cluster.nodes
    writers = [KeyWriter(f"keys{i}", nodes[i % len(nodes):] + nodes[:i % len(nodes)]) for i in range(3)]
    counters = [CounterWriter(f"counter{i}", nodes[i % len(nodes):] + nodes[:i % len(nodes)]) for i in range(2)]
    appends = [AppendWriter("append", nodes)]
    for writer in writers + counters + appends:
        writer.start()
    return writers, counters, appends


def finish_and_check(cluster, own, writers, counters, appends):
    everyone = writers + counters + appends
    for writer in everyone:
        writer.finish()
    for node in cluster.nodes:
        node.wait_healthy()
    for node in cluster.nodes:
        for writer in writers:
            writer.check(node)
        check_counter(node, counters)
        check_queue(node, appends)
    refused = {}
    for writer in everyone:
        for status, count in writer.refused.items():
            refused[status] = refused.get(status, 0) + count
    if own:
        assert not refused, f"requests were refused with {refused}; they must wait for a leader"
    done, unknown = sum(len(w.acknowledged) for w in everyone), sum(len(w.unknown) for w in everyone)
    return f"{done} writes acknowledged, {unknown} unknown, refused {refused or 'none'}"


def test_kill_nine_of_one_member_after_the_other_loses_nothing(cluster, own, figure):
    dice = random.Random(1)
    work = start_writers(cluster)
    for _ in range(8):
        time.sleep(0.5)  # load, not synchronisation
        victim = cluster.leader() if dice.random() < 0.5 else dice.choice(cluster.nodes)
        victim.kill()
        time.sleep(dice.random() * 0.5)
        victim.start().wait_healthy()
    figure(finish_and_check(cluster, own, *work))


def test_kill_nine_of_all_members_at_once_loses_nothing(cluster, own, figure):
    work = start_writers(cluster)
    for _ in range(4):
        time.sleep(0.7)
        for node in cluster.nodes:
            node.process.kill()
        for node in cluster.nodes:
            node.kill()
        for node in cluster.nodes:
            node.start()
        for node in cluster.nodes:
            node.wait_healthy()
    figure(finish_and_check(cluster, own, *work))


def test_kill_nine_of_a_single_node_loses_nothing(make_cluster, own, figure):
    cluster = make_cluster(1)
    work = start_writers(cluster)
    for _ in range(8):
        time.sleep(0.4)
        cluster.nodes[0].kill()
        cluster.nodes[0].start().wait_healthy()
    figure(finish_and_check(cluster, own, *work))


def test_kill_nine_loops_across_snapshots_lose_nothing(make_cluster, own, figure):
    cluster = make_cluster(3, "--snapshot-count", "100")
    dice = random.Random(2)
    work = start_writers(cluster)
    for _ in range(6):
        time.sleep(0.6)
        victim = dice.choice(cluster.nodes)
        victim.kill()
        time.sleep(0.6)  # the others take snapshots meanwhile
        victim.start().wait_healthy()
    figure(finish_and_check(cluster, own, *work))


def remembered(node):
    """All that must outlive a restart: the tree with its indexes, and history as a watch in the past shows it."""
    tree = node.read("/kept", recursive="true", sorted="true", quorum="true").json["node"]
    first = node.read("/kept/0", wait="true", waitIndex=str(tree["createdIndex"])).json
    return tree, first


def write_kept(node):
    for number in range(20):
        assert node.put(f"/kept/{number}", f"value {number}").status == 201
    assert node.put("/kept/3", "second").status == 200
    assert node.put("/kept/lasting", "x", ttl=1000).status == 201


def same_without_ttl(tree):
    return [{k: v for k, v in item.items() if k not in ("ttl", "expiration")} for item in tree["nodes"]]


def check_restart(cluster, stop):
    write_kept(cluster.nodes[0])
    tree, first = remembered(cluster.nodes[0])
    index = cluster.nodes[0].read("/kept").index
    stop()
    for node in cluster.nodes:
        node.start()
    for node in cluster.nodes:
        node.wait_healthy()
    for node in cluster.nodes:
        again, first_again = remembered(node)
        assert same_without_ttl(again) == same_without_ttl(tree)
        assert first_again == first
        lasting = node.read("/kept/lasting").json["node"]
        assert 900 < lasting["ttl"] <= 1000
    after = cluster.nodes[-1].read("/kept").index
    assert index <= after < index + 20, f"the index went from {index} to {after} over a restart"


def test_restart_of_all_members_keeps_data_index_and_history(cluster):
    check_restart(cluster, lambda: [node.terminate() for node in cluster.nodes])


def test_kill_nine_and_restart_of_all_keeps_data_index_and_history(cluster):
    check_restart(cluster, lambda: [node.kill() for node in cluster.nodes])


def test_restart_of_a_single_node_keeps_data_index_and_history(make_cluster):
    cluster = make_cluster(1)
    check_restart(cluster, lambda: cluster.nodes[0].terminate())


def test_a_member_that_missed_the_log_catches_up_by_a_snapshot_with_its_history(make_cluster):
    cluster = make_cluster(3, "--snapshot-count", "100")
    behind = cluster.followers()[0]
    behind.kill()
    writer = KeyWriter("missed", cluster.others(behind))
    writer.start()
    wait_for("6000 writes", lambda: len(writer.acknowledged) >= 6000 or writer.error, 120)
    writer.finish()
    behind.start().wait_healthy()

    def caught_up():
        answer = behind.read("/load/missed/6000")
        return answer.status == 200
    wait_for(f"{behind} caught up", caught_up, 30)
    writer.check(behind)
    event = cluster.leader().read("/load/missed/6000").json["node"]
    seen = behind.read("/load/missed", wait="true", recursive="true", waitIndex=str(event["modifiedIndex"])).json
    assert seen["node"]["key"] == "/load/missed/6000", "the history came with the snapshot"


def test_a_ttl_outlives_the_leader_and_ends_on_time(cluster, figure):
    leader = cluster.leader()
    watcher = cluster.others(leader)[0]
    assert leader.put("/lease", "x", ttl=4).status == 201
    began = time.monotonic()
    events = []
    thread = threading.Thread(target=lambda: events.append((watcher.read("/lease", wait="true", timeout=20), time.monotonic())))
    thread.start()
    time.sleep(0.5)
    leader.kill()
    thread.join(25)
    assert events, "no expiry came"
    answer, moment = events[0]
    assert answer.json["action"] == "expire"
    took = moment - began
    assert took > 3.9, f"expired early, after {took:.2f} s of 4"
    figure(f"a TTL of 4 s ended after {took:.2f} s, its leader killed at 0.5 s")
