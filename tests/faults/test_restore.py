"""`rallypoint snapshot restore`: the way back when the disks of a majority are gone."""
import os
import subprocess

import pytest

from cluster import Node, free_ports
from test_membership import change
from test_v3 import etcdctl
from v3 import V3, V3Error

FULL_LEASE_SECONDS = 300


@pytest.fixture(autouse=True)
def only_own(own):
    if not own:
        pytest.skip("etcd restores with a program of its own")


@pytest.fixture
def saved(cluster, tmp_path):
    """A snapshot of a cluster with history, a lease and v2 keys, and what was in it."""
    one = V3(cluster.nodes[0])
    for number in range(40):
        one.put(f"key{number}", f"first {number}")
    one.delete("key7")
    for number in range(20):
        one.put(f"key{number}", f"second {number}")
    lease = int(one.grant(FULL_LEASE_SECONDS))
    one.put("leased", "yes", lease=lease)
    cluster.nodes[1].put("/old", "v2")
    one.compact(30)
    path = tmp_path / "saved"
    assert etcdctl("snapshot", "save", str(path), node=cluster.nodes[2]).returncode == 0
    revision = one.revision()
    digest = one.hash_kv(0)
    one.put("later", "not in it")
    return path, revision, digest, lease


def restore(cluster, path, node):
    arguments = [cluster.binary, "snapshot", "restore", str(path), "--data-dir", str(node.data_dir), "--name", node.name,
                 "--initial-advertise-peer-urls", node.peer_url, "--initial-cluster-token", cluster.token]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60)


def alone(cluster, name):
    """A member of a cluster of its own, with an empty directory."""
    client_port, peer_port = free_ports(2)
    return rename(Node(cluster, 1, client_port, peer_port), name)


def rename(node, name):
    """So that its directory is not that of a member of the lost cluster."""
    node.name = name
    node.data_dir, node.log_path = node.cluster.base / name, node.cluster.base / f"{name}.log"
    return node


def test_a_snapshot_comes_back_with_history_leases_and_v2_and_the_cluster_grows_again(cluster, saved, figure):
    path, revision, digest, lease = saved
    for node in cluster.nodes:
        node.kill()
    first = alone(cluster, "r1")
    said = restore(cluster, path, first)
    assert said.returncode == 0, said.stderr
    figure(said.stdout.splitlines()[0])
    cluster.nodes[:] = [first]  # the harness names and stops these from here on
    first.start().wait_healthy()
    again = V3(first)
    assert (again.revision(), again.hash_kv(0)) == (revision, digest)
    assert again.get("key3") == "second 3" and again.get("key3", revision=42) == "first 3"
    assert again.get("key7") == "second 7" and again.get("later") is None
    with pytest.raises(V3Error, match="compacted"):
        again.get("key3", revision=29)
    assert 0 < again.time_to_live(lease) <= FULL_LEASE_SECONDS
    assert first.read("/old").value == "v2"
    assert [member["name"] for member in first.get("/v2/members").json["members"]] == ["r1"]

    again.put("after", "restore")
    for name in ("r2", "r3"):  # the others come in as to any cluster, and then the first is not needed any more
        node = rename(cluster.prepare_node(), name)
        assert change(first, "POST", body={"peerURLs": [node.peer_url]}).status == 201
        node.start().wait_healthy(30)
    first.kill()
    other = V3(cluster.nodes[2])
    other.put("alone", "x")
    assert other.get("after") == "restore" and other.get("key3", revision=42) == "first 3"
    first.start().wait_healthy()
    assert V3(first).get("alone") == "x"


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "foreign", "longer"])
def test_a_damaged_file_is_refused_and_nothing_is_made_of_it(cluster, saved, tmp_path, damage):
    path = saved[0]
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 1
    bad = {"flipped": bytes(content), "cut": bytes(content[:-100]), "empty": b"", "foreign": os.urandom(5000),
           "longer": bytes(content) + b"x"}[damage]
    (tmp_path / "bad").write_bytes(bad)
    node = alone(cluster, "r1")
    said = restore(cluster, tmp_path / "bad", node)
    assert said.returncode == 1 and str(tmp_path / "bad") in said.stderr
    assert not (node.data_dir / "identity").exists()
    assert restore(cluster, path, node).returncode == 0, "the good file can be tried afterwards"


def test_a_members_directory_is_not_overwritten(cluster, saved):
    path = saved[0]
    node = alone(cluster, "r1")
    assert restore(cluster, path, node).returncode == 0
    said = restore(cluster, path, node)
    assert said.returncode == 1 and "belongs to a member already" in said.stderr
    running = restore(cluster, path, cluster.nodes[0])
    assert running.returncode == 1 and "in use" in running.stderr


def test_mistakes_on_the_command_line_are_named(cluster, saved):
    usage = subprocess.run([cluster.binary, "snapshot", "restore"], capture_output=True, text=True, timeout=10)
    assert usage.returncode == 2 and "usage: rallypoint snapshot restore FILE" in usage.stderr
    several = subprocess.run([cluster.binary, "snapshot", "restore", str(saved[0]), "--name", "n1", "--data-dir", str(cluster.base / "x"),
                              "--initial-cluster", "n1=http://127.0.0.1:1,n2=http://127.0.0.1:2",
                              "--initial-advertise-peer-urls", "http://127.0.0.1:1"], capture_output=True, text=True, timeout=10)
    assert several.returncode == 1 and "cluster of one" in several.stderr
    gone = restore(cluster, "/no/such/file", alone(cluster, "r1"))
    assert gone.returncode == 1 and "/no/such/file" in gone.stderr
