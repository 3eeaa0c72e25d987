"""What must never hurt: malformed HTTP, endless headers, huge bodies, half-open sockets, garbage on the peer port."""
import json
import os
import socket
import time

import pytest

from cluster import UNKNOWN_OUTCOME, request


def send_raw(port, data, seconds=3.0):
    """Sends bytes, half-closes, and returns what came back until the server closed or nothing came for `seconds`."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                received += chunk
        except OSError:
            pass
    return received


def status_of(received):
    return int(received.split(b" ", 2)[1]) if received.startswith(b"HTTP/1.") else None


def check_fine(cluster):
    for node in cluster.nodes:
        assert node.alive(), f"{node} is gone:\n{node.log_tail()}"
        assert node.put("/fine", "yes", timeout=5).status in (200, 201)


FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"  # without it etcd ignores a body

MALFORMED = [
    b"\r\n\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00\x01\x02\x03" * 50, b"GET /v2/keys/\x00 HTTP/1.1\r\n\r\n",
    b"PUT /v2/keys/a HTTP/1.1\r\nHost: x\r\n" + FORM + b"Content-Length: -5\r\n\r\n",
    b"PUT /v2/keys/a HTTP/1.1\r\nHost: x\r\n" + FORM + b"Content-Length: 99999999999999999999\r\n\r\nx",
    b"PUT /v2/keys/a HTTP/1.1\r\nHost: x\r\n" + FORM + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nvalue",
    b"PUT /v2/keys/a HTTP/1.1\r\nHost: x\r\n" + FORM + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"PUT /v2/keys/a HTTP/1.1\r\nHost: x\r\n" + FORM + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
    b"GET /v2/keys/%zz HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /v2/keys/" + b"a" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http:///// HTTP/1.1\r\nHost: x\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),  # a TLS hello on the plain port
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 255, 99, 0, 0, 0, 0, 1]) + bytes(300),  # HTTP/2 with a bad frame
]


def test_malformed_http_is_refused_and_does_no_harm(make_cluster):
    cluster = make_cluster(1)
    for data in MALFORMED:
        received = send_raw(cluster.nodes[0].client_port, data)
        status = status_of(received)
        assert status is None or status >= 400 or status in (200, 301), f"{data[:60]!r} was answered {received[:100]!r}"
    check_fine(cluster)
    assert cluster.nodes[0].read("/a").status == 404, "nothing malformed was taken for a write"


def test_headers_without_end_are_cut(make_cluster):
    cluster = make_cluster(1)
    sent = 0
    with socket.create_connection(("127.0.0.1", cluster.nodes[0].client_port), timeout=10) as connection:
        try:
            connection.sendall(b"GET /v2/keys/a HTTP/1.1\r\nHost: x\r\n")
            for number in range(1000):
                line = b"X-%d: " % number + b"a" * 65536 + b"\r\n"
                connection.sendall(line)
                sent += len(line)
        except OSError:
            pass
    assert sent < 32 << 20, f"the server took {sent} bytes of headers"
    check_fine(cluster)


def test_a_huge_body_is_refused_and_not_stored(make_cluster, own):
    cluster = make_cluster(1)
    node = cluster.nodes[0]
    try:
        answer = request(node.client_port, "PUT", "/v2/keys/huge", form={"value": "x" * (64 << 20)}, timeout=30)
        assert answer.status >= 400, f"64 MiB were taken: {answer.status}"
    except UNKNOWN_OUTCOME:
        pass  # closed while we sent
    assert node.read("/huge").status == 404
    if own:
        answer = node.put("/huge", "x" * (4 << 20))
        assert answer.status in (400, 413), f"4 MiB: {answer}"
        assert node.put("/large", "x" * (1 << 20)).status == 201, "1 MiB is allowed"
    check_fine(cluster)


def test_half_open_and_half_sent_connections_delay_nobody(make_cluster):
    cluster = make_cluster(1)
    port = cluster.nodes[0].client_port
    held = []
    for number in range(300):
        connection = socket.create_connection(("127.0.0.1", port), timeout=5)
        if number % 3 == 1:
            connection.sendall(b"PUT /v2/keys/half HTTP/1.1\r\nHost: x\r\nContent-Le")
        if number % 3 == 2:
            connection.sendall(b"PUT /v2/keys/half HTTP/1.1\r\nHost: x\r\n" + FORM + b"Content-Length: 100\r\n\r\nvalue=")
        held.append(connection)
    check_fine(cluster)
    assert cluster.nodes[0].read("/half").status == 404
    for connection in held:
        connection.close()
    check_fine(cluster)
    assert cluster.nodes[0].read("/half").status == 404, "a request that never ended was not carried out"


def test_abandoned_watches_are_freed(make_cluster):
    cluster = make_cluster(1)
    node = cluster.nodes[0]
    descriptors = f"/proc/{node.process.pid}/fd"
    before = len(os.listdir(descriptors))
    for _ in range(3):
        held = []
        for _ in range(100):
            connection = socket.create_connection(("127.0.0.1", node.client_port), timeout=5)
            connection.sendall(b"GET /v2/keys/never?wait=true HTTP/1.1\r\nHost: x\r\n\r\n")
            held.append(connection)
        for connection in held:
            assert b"200 OK" in connection.recv(4096), "the headers of a watch come at once"
            connection.close()
    deadline = time.monotonic() + 10
    while len(os.listdir(descriptors)) > before + 10 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(os.listdir(descriptors)) <= before + 10, "closed watches keep their sockets"
    check_fine(cluster)


def test_garbage_on_the_peer_port_does_no_harm(cluster):
    leader = cluster.leader()
    term = leader.read("/x").headers.get("X-Raft-Term")
    for node in cluster.nodes:
        for data in [os.urandom(4096), bytes(65536), b"\xff" * 65536, b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n",
                     b"\x00\x00\x00\x10" + os.urandom(16), b"\x7f\xff\xff\xff" + bytes(1000), b"x"]:
            send_raw(node.peer_port, data, seconds=0.5)
        held = [socket.create_connection(("127.0.0.1", node.peer_port), timeout=5) for _ in range(100)]
        check_fine(cluster)
        for connection in held:
            connection.close()
    check_fine(cluster)
    assert cluster.leader() is leader, "garbage moved the leadership"
    assert leader.read("/x").headers.get("X-Raft-Term") == term


# Statuses and codes as measured on etcd 3.4.23.
BAD_PARAMETERS = [
    ("PUT", "/p", {"value": "x", "ttl": "abc"}, 400, 202),
    ("PUT", "/p", {"value": "x", "ttl": "-5"}, 400, 202),
    ("PUT", "/p", {"value": "x", "ttl": "99999999999999999999"}, 400, 202),
    ("PUT", "/p", {"value": "x", "prevIndex": "abc"}, 400, 203),
    ("PUT", "/p", {"value": "x", "prevExist": "maybe"}, 400, 209),
    ("PUT", "/p", {"value": "x", "prevValue": ""}, 400, 201),
    ("PUT", "/p", {"value": "x", "refresh": "true", "ttl": "5"}, 400, 211),
    ("PUT", "/p", {"refresh": "true"}, 400, 212),
    ("GET", "/p?wait=true&waitIndex=abc", None, 400, 203),
    ("GET", "/p?recursive=maybe", None, 400, 209),
    ("GET", "/p?sorted=2", None, 400, 209),
    ("GET", "/absent", None, 404, 100),
    ("PUT", "/absent", {"value": "x", "prevExist": "true"}, 404, 100),
    ("PUT", "/absent", {"value": "x", "prevValue": "y"}, 404, 100),
    ("PUT", "", {"value": "x"}, 400, 107),
    ("DELETE", "", None, 400, 107),
    ("PUT", "/file/below", {"value": "x"}, 400, 104),
    ("GET", "/file/below", None, 400, 104),
    ("PUT", "/directory", {"value": "x"}, 403, 102),
    ("DELETE", "/directory", None, 403, 102),
    ("DELETE", "/directory?dir=true", None, 403, 108),
    ("PUT", "/file", {"value": "x", "prevExist": "false"}, 412, 105),
    ("PUT", "/file", {"value": "x", "prevValue": "wrong"}, 412, 101),
    ("DELETE", "/file?prevIndex=999999", None, 412, 101),
]


def test_bad_parameters_get_the_status_and_code_that_etcd_gives(make_cluster):
    cluster = make_cluster(1)
    node = cluster.nodes[0]
    node.put("/file", "right")
    node.put("/directory/inside", "x")
    wrong = []
    for method, path, form, status, code in BAD_PARAMETERS:
        answer = request(node.client_port, method, "/v2/keys" + path, form=form)
        if (answer.status, (answer.json or {}).get("errorCode")) != (status, code):
            wrong.append(f"{method} {path} {form}: {answer}, expected {status} {code}")
    assert not wrong, "\n".join(wrong)
    assert node.read("/file").value == "right"


@pytest.mark.parametrize("method, path, status", [
    ("PATCH", "/v2/keys/x", 405), ("POST", "/version", 405), ("GET", "/nothing/here", 404), ("GET", "/v2/nothing", 404),
])
def test_unknown_paths_and_methods_are_named(make_cluster, method, path, status):
    cluster = make_cluster(1)
    assert request(cluster.nodes[0].client_port, method, path).status == status


def test_side_endpoints_answer(cluster):
    for node in cluster.nodes:
        version = json.loads(node.get("/version").body)
        assert {"etcdserver", "etcdcluster"} <= set(version)
        machines = sorted(url.strip() for url in node.get("/v2/machines").body.decode().split(","))
        assert machines == sorted(other.client_url for other in cluster.nodes)
        members = node.get("/v2/members").json["members"]
        assert sorted(member["name"] for member in members) == ["n1", "n2", "n3"]
        assert {member["clientURLs"][0] for member in members} == set(machines)
    ids = {node.read("/x").headers["X-Etcd-Cluster-Id"] for node in cluster.nodes}
    assert len(ids) == 1
