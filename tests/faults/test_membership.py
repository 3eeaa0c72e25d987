"""Members added and removed through /v2/members while clients write."""
import http.client
import json
import shutil
import threading

import pytest

from cluster import UNKNOWN_OUTCOME, Answer, wait_for
from load import KeyWriter, write_until_done


@pytest.fixture
def only_own(own):
    if not own:
        pytest.skip("promised beyond etcd")


def members_call(node, method, path="", body=None, timeout=15.0):
    connection = http.client.HTTPConnection("127.0.0.1", node.client_port, timeout=timeout)
    try:
        connection.request(method, "/v2/members" + path, body=json.dumps(body) if body is not None else None,
                           headers={"Content-Type": "application/json"} if body is not None else {})
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


def change(node, method, path="", body=None):
    """A membership change; etcd refuses them (500) until all connections are 5 s old, so it is asked again."""
    def answered():
        answer = members_call(node, method, path, body)
        return answer if answer.status < 500 else None
    return wait_for(f"{method} /v2/members{path} below 500", answered, 30)


def member_list(node):
    return members_call(node, "GET").json["members"]


def id_of(node, through):
    return next(member["id"] for member in member_list(through) if node.peer_url in member["peerURLs"])


def add(cluster):
    """Adds and starts one member, as an operator would: first the call, then the process."""
    through = cluster.leader()
    node = cluster.prepare_node()
    answer = change(through, "POST", body={"peerURLs": [node.peer_url]})
    assert answer.status == 201, f"adding a member: {answer}"
    node.start().wait_healthy(30)
    return node


def test_a_member_is_added_and_has_the_data_and_votes(cluster):
    writer = KeyWriter("before", cluster.nodes)
    writer.start()
    wait_for("writes", lambda: len(writer.acknowledged) > 300, 30)
    added = add(cluster)
    writer.finish()
    writer.check(added)
    names = {member["name"] for member in member_list(added)}
    assert names == {"n1", "n2", "n3", "n4"}
    cluster.nodes[0].kill()
    write_until_done(added, "/four")  # three of four go on


def test_a_member_is_removed_and_ends_or_stays_silent(cluster):
    leader = cluster.leader()
    gone = cluster.followers()[0]
    answer = change(leader, "DELETE", "/" + id_of(gone, leader))
    assert answer.status == 204, f"{answer}"
    wait_for("two members left", lambda: len(member_list(leader)) == 2, 10)
    assert leader.put("/two", "x").status == 201
    assert sorted(url.strip() for url in leader.get("/v2/machines").body.decode().split(",")) == \
        sorted(node.client_url for node in cluster.others(gone))


def test_removing_the_leader_elects_another(cluster):
    leader = cluster.leader()
    others = cluster.others(leader)
    answer = change(others[0], "DELETE", "/" + id_of(leader, others[0]))
    assert answer.status == 204, f"{answer}"

    def another():
        return next((node for node in others if node.is_leader()), None)
    wait_for("a leader among the others", another, 15)
    write_until_done(others[0], "/after")


def test_who_was_away_while_all_others_were_replaced_comes_back(cluster, only_own):
    """Nobody that it remembers lives, and the leader that calls it is one that it has never heard of."""
    away, *old = cluster.nodes[:3]
    away.kill()
    new = [add(cluster), add(cluster)]
    for node in old:
        answer = change(new[0], "DELETE", "/" + id_of(node, new[0]))
        assert answer.status == 204, f"{answer}"
        node.kill()
    write_until_done(new[1], "/meanwhile")
    away.start().wait_healthy(30)
    assert away.read("/meanwhile").status == 200
    new[0].kill()
    write_until_done(away, "/with-it")  # two of three: it is needed, and votes


def test_every_member_is_replaced_one_after_the_other_under_load(cluster):
    writer = KeyWriter("rolling", cluster.nodes[:])
    writer.start()
    for old in cluster.nodes[:3]:
        added = add(cluster)
        writer.session.nodes.append(added)
        removed = change(added, "DELETE", "/" + id_of(old, added))
        assert removed.status == 204, f"{removed}"
        old.kill()
        old.removed = True
        wait_for("three members", lambda: len(member_list(added)) == 3, 10)
    before = len(writer.acknowledged)
    wait_for("writes on the new members", lambda: len(writer.acknowledged) > before + 100 or writer.error, 60)
    writer.finish()
    for node in cluster.nodes[3:]:
        writer.check(node)


def test_bad_member_calls_change_nothing(cluster):
    node = cluster.nodes[0]
    taken = change(node, "POST", body={"peerURLs": [cluster.nodes[1].peer_url]})
    assert (taken.status, taken.json) == (409, {"message": "membership: peerURL exists"})
    assert change(node, "PUT", "/" + id_of(node, node), {"peerURLs": [cluster.nodes[1].peer_url]}).status == 409
    assert change(node, "POST", body={"peerURLs": ["nonsense"]}).status == 400
    unknown = change(node, "DELETE", "/123456")
    assert (unknown.status, unknown.json) == (404, {"message": "No such member: 123456"})
    assert change(node, "PUT", "/123456", {"peerURLs": ["http://127.0.0.1:1"]}).status == 404
    assert change(node, "DELETE", "/nonsense").status == 404
    assert len(member_list(node)) == 3


def ended(node, seconds=10):
    wait_for(f"{node} has ended", lambda: not node.alive(), seconds)
    return node.process.returncode


def test_a_removed_member_stops_and_never_comes_back(cluster, only_own):
    """It ends by itself with a clear word, whether it runs or was away; not even an empty directory brings it back."""
    through = cluster.leader()
    running, away = cluster.followers()
    gone = id_of(running, through)
    assert change(through, "DELETE", "/" + gone).status == 204
    assert ended(running) == 0
    assert "removed from the cluster" in running.log_tail()
    again = change(through, "DELETE", "/" + gone)
    assert (again.status, again.json) == (410, {"message": "Member permanently removed: " + gone})
    running.start()
    assert ended(running) != 0 or "removed from the cluster" in running.log_tail()
    running.removed = True

    # One that is down when it is removed is told by the first member that it calls.
    added = add(cluster)
    away.kill()
    assert change(through, "DELETE", "/" + id_of(away, through)).status == 204
    away.start()
    ended(away)
    assert "removed from the cluster" in away.log_tail()
    shutil.rmtree(away.data_dir)
    away.start()
    assert ended(away) != 0
    assert "does not count this node in" in away.log_tail()
    away.removed = True
    assert {member["name"] for member in member_list(added)} == {through.name, added.name}
    assert added.put("/still", "here").status == 201


@pytest.mark.parametrize("repetition", range(3))
def test_a_change_through_a_follower_happens_once_though_the_leader_dies(cluster, only_own, repetition):
    leader = cluster.leader()
    through = cluster.followers()[repetition % 2]
    url = cluster.prepare_node().peer_url
    answers = []

    def post():
        try:
            answers.append(members_call(through, "POST", body={"peerURLs": [url]}))
        except UNKNOWN_OUTCOME as error:
            answers.append(error)
    poster = threading.Thread(target=post)
    poster.start()
    if repetition != 0:
        poster.join(0.002 * repetition)
    leader.kill()
    poster.join(30)
    assert answers and answers[0].status == 201, f"{answers}"
    assert [member["id"] for member in member_list(through) if url in member["peerURLs"]] == [answers[0].json["id"]]


def test_changes_through_all_members_at_once_are_made_one_after_the_other(cluster, only_own):
    nodes = [cluster.prepare_node() for _ in range(2)]
    answers = {}

    def post(number):
        answers[number] = members_call(cluster.nodes[number], "POST", body={"peerURLs": [nodes[number].peer_url]})
    posters = [threading.Thread(target=post, args=(number,)) for number in range(2)]
    for poster in posters:
        poster.start()
    for poster in posters:
        poster.join(30)
    assert [answers[number].status for number in range(2)] == [201, 201]
    assert len(member_list(cluster.nodes[2])) == 5
    refused = change_once(cluster.nodes[0], "POST", body={"peerURLs": ["http://127.0.0.1:1"]})
    assert refused.status == 500 and "not enough started members" in refused.json["message"], "three of six would be no majority"


def change_once(node, method, path="", body=None):
    return members_call(node, method, path, body)


def test_a_member_that_never_starts_costs_no_majority(make_cluster, only_own):
    cluster = make_cluster(1)
    node = cluster.nodes[0]
    answer = change(node, "POST", body={"peerURLs": ["http://127.0.0.1:1"]})
    assert answer.status == 201
    assert node.put("/goes/on", "x").status == 201
    assert change_once(node, "DELETE", "/" + answer.json["id"]).status == 204
    last = change_once(node, "DELETE", "/" + id_of(node, node))
    assert last.status == 500 and "not enough started members" in last.json["message"]
    assert node.put("/goes/on", "y").status == 200


def test_a_member_moves_to_another_peer_url(cluster, only_own):
    moved = cluster.followers()[0]
    through = cluster.leader()
    moved.kill()
    spare = cluster.prepare_node()
    cluster.nodes.remove(spare)
    assert change(through, "PUT", "/" + id_of(moved, through), {"peerURLs": [spare.peer_url]}).status == 204
    moved.peer_url = spare.peer_url
    moved.start().wait_healthy()
    other = next(node for node in cluster.others(moved) if node is not through)
    other.kill()
    write_until_done(through, "/needs-the-moved")


def test_a_node_that_nobody_added_or_that_is_told_otherwise_is_refused(cluster, only_own):
    stranger = cluster.prepare_node()
    stranger.start()
    assert ended(stranger, 20) != 0
    assert "error validating peerURLs" in stranger.log_tail() and "add it first" in stranger.log_tail()
    assert change(cluster.nodes[0], "POST", body={"peerURLs": [stranger.peer_url]}).status == 201
    second = cluster.prepare_node()  # its initial-cluster lists one that the cluster does not know
    stranger.start()
    assert ended(stranger, 20) != 0
    assert "member count is unequal" in stranger.log_tail()
    second.removed = True
    stranger.start().wait_healthy(30)


def grow_from_one(cluster):
    cluster.nodes[0].put("/kept", "x")
    for _ in range(2):
        add(cluster)
    wait_for("three voters", lambda: sum("http" in str(member["clientURLs"]) for member in member_list(cluster.nodes[0])) == 3, 10)
    return cluster.nodes


def test_a_wiped_founder_does_not_found_a_grown_cluster_again(make_cluster, only_own):
    """n1 founded alone; with an empty directory its command line says that it is a cluster of one."""
    cluster = make_cluster(1)
    first, second, third = grow_from_one(cluster)
    first.kill()
    shutil.rmtree(first.data_dir)
    write_until_done(second, "/without-the-first")
    first.start([argument if not argument.startswith("n1=") else f"n1={first.peer_url}" for argument in first.arguments()])
    ended(first, 20)
    assert "founded a second time" in first.log_tail()
    write_until_done(third, "/still-one-cluster")
    first.cluster_state = "existing"
    for round in range(4):  # healthy means that it votes: the next member may die in that very moment
        shutil.rmtree(first.data_dir)
        first.start().wait_healthy(30)
        assert first.read("/kept", timeout=15).value == "x"
        third.kill()
        write_until_done(second, f"/needs-the-first/{round}")
        third.start().wait_healthy(30)
        first.kill()


def test_a_wiped_founder_comes_back_though_the_cluster_has_grown(cluster, only_own):
    """Its command line says `new` and lists all members, also those that came later."""
    victim = cluster.followers()[0]
    cluster.leader().put("/kept", "x")
    add(cluster)
    victim.kill()
    shutil.rmtree(victim.data_dir)
    victim.start().wait_healthy(30)
    assert victim.read("/kept", timeout=15).value == "x"
    assert len(member_list(victim)) == 4


def test_members_restart_with_the_options_of_a_grown_cluster(cluster, only_own):
    add(cluster)
    for node in cluster.nodes:
        node.terminate()
        node.start().wait_healthy(30)
    write_until_done(cluster.nodes[3], "/all-are-back")
