"""Starts that must be refused with a clear error, and starts on damaged or full disks that must lose nothing."""
import errno
import os
import pathlib
import random
import shutil
import socket
import subprocess
import time

import pytest

from cluster import UNKNOWN_OUTCOME, free_ports, wait_for
from load import KeyWriter


def run_to_end(command, seconds=10.0, **options):
    """Starts a process that should refuse to; returns (exit status, what it said). Still running = AssertionError."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL, **options)
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"") + (error.stderr or b"")
        raise AssertionError(f"it runs instead of refusing: {' '.join(command)}\n{said[-2000:]}") from None
    return done.returncode, done.stdout + done.stderr


def check_refused(command, *words):
    """Non-zero, quickly, and the message names each of the words."""
    status, said = run_to_end(command)
    assert status not in (0, -6, -11), f"ended with {status}: {said[-1000:]}"
    for word in words:
        assert word.lower() in said.lower(), f"the error does not name {word!r}:\n{said[-2000:]}"


def single(binary, directory, *arguments, name="default"):
    client, peer = free_ports(2)
    return [binary, "--name", name, "--data-dir", str(directory), "--enable-v2",
            "--listen-client-urls", f"http://127.0.0.1:{client}", "--advertise-client-urls", f"http://127.0.0.1:{client}",
            "--listen-peer-urls", f"http://127.0.0.1:{peer}", *arguments]


@pytest.fixture
def only_own(own):
    if not own:
        pytest.skip("a promise beyond etcd")


def test_a_second_process_on_a_data_directory_is_refused(make_cluster, only_own):
    cluster = make_cluster(1)
    node = cluster.nodes[0]
    check_refused(single(cluster.binary, node.data_dir, name="n1"), str(node.data_dir))
    assert node.put("/still", "here").status == 201, "the first goes on"


@pytest.mark.parametrize("arguments, words", [
    (["--no-such-option"], ["no-such-option"]),
    (["--heartbeat-interval", "abc"], ["heartbeat-interval"]),
    (["--election-timeout", "100", "--heartbeat-interval", "100"], ["election-timeout"]),
    (["--listen-client-urls", "nonsense"], ["listen-client-urls"]),
    (["--initial-cluster", "other=http://127.0.0.1:1"], ["initial-cluster"]),
    (["--initial-cluster-state", "perhaps"], ["initial-cluster-state"]),
    (["--snapshot-count", "-1"], ["snapshot-count"]),
])
def test_a_bad_option_is_named(binary, tmp_path, only_own, arguments, words):
    check_refused(single(binary, tmp_path / "data", *arguments), *words)


def test_a_port_in_use_is_named(binary, tmp_path, only_own):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        command = single(binary, tmp_path / "data", "--listen-client-urls", f"http://127.0.0.1:{port}")
        check_refused(command, str(port))


def test_a_data_directory_that_is_a_file_is_named(binary, tmp_path, only_own):
    path = tmp_path / "file"
    path.write_text("not a directory")
    check_refused(single(binary, path), str(path))
    assert path.read_text() == "not a directory"


def test_options_that_contradict_the_data_directory_are_refused(make_cluster, only_own):
    """The directory of n1 of a cluster of three, given to somebody else, is neither overwritten nor served."""
    cluster = make_cluster(3)
    first, second = cluster.nodes[:2]
    assert first.put("/kept", "x").status == 201
    first.terminate()
    check_refused([argument if argument != str(second.data_dir) else str(first.data_dir) for argument in second_arguments(cluster, second)],
                  str(first.data_dir))
    check_refused(single(cluster.binary, first.data_dir, name="n9"), str(first.data_dir))
    first.start().wait_healthy()
    assert first.read("/kept").value == "x"


def second_arguments(cluster, second):
    """n2's command line on free listening ports, so that only the contradiction can be what stops it."""
    client, peer = free_ports(2)
    arguments = second.arguments()
    arguments[arguments.index("--listen-client-urls") + 1] = f"http://127.0.0.1:{client}"
    arguments[arguments.index("--listen-peer-urls") + 1] = f"http://127.0.0.1:{peer}"
    return arguments


def test_zero_options_start_one_node_and_localhost_answers_both_ways(binary, tmp_path, only_own):
    if any(socket_is_open(port) for port in (2379, 2380)):
        pytest.skip("2379 or 2380 is in use on this machine")
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen([binary], cwd=tmp_path, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        wait_for("port 2379", lambda: socket_is_open(2379) or process.poll() is not None, 5)
        assert process.poll() is None, (tmp_path / "log").read_text()
        assert (tmp_path / "default.rallypoint").is_dir()
    finally:
        process.terminate()
        process.wait(10)


def socket_is_open(port, host="127.0.0.1"):
    try:
        socket.create_connection((host, port), timeout=1).close()
        return True
    except OSError:
        return False


def test_localhost_is_served_on_ipv4_and_ipv6(binary, tmp_path):
    client, peer = free_ports(2)
    command = [binary, "--enable-v2", "--data-dir", str(tmp_path / "data"),
               "--listen-client-urls", f"http://localhost:{client}", "--advertise-client-urls", f"http://localhost:{client}",
               "--listen-peer-urls", f"http://localhost:{peer}"]  # PyTorch's EtcdServer starts it with exactly these
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        hosts = {address[4][0] for address in socket.getaddrinfo("localhost", client, type=socket.SOCK_STREAM)}
        for host in hosts:
            wait_for(f"{host} port {client}", lambda: socket_is_open(client, host), 5)
    finally:
        process.terminate()
        process.wait(10)


def test_exit_with_parent(binary, tmp_path, only_own):
    command = single(binary, tmp_path / "data")
    shell = subprocess.Popen(["/bin/sh", "-c", '"$@" & echo $!; read line', "sh", *command], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env=dict(os.environ, RALLYPOINT_EXIT_WITH_PARENT="1"))
    child = int(shell.stdout.readline())
    wait_for("the node", lambda: pathlib.Path(tmp_path / "data").is_dir(), 5)
    shell.kill()
    shell.wait()

    def gone():
        try:
            return pathlib.Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except FileNotFoundError:
            return True
    wait_for(f"the end of {child} with its parent", gone, 5)


# ---- disks -------------------------------------------------------------------------------------------------------


def log_segments(node):
    """The files of the node's log, newest last. Its own layout: */wal/* or names that begin with wal."""
    found = [path for path in node.data_dir.rglob("*") if path.is_file() and path.stat().st_size > 0
             and "wal" in str(path.relative_to(node.data_dir)).lower() and path.suffix not in (".lock", ".tmp")]
    assert found, f"no log files below {node.data_dir}: {sorted(map(str, node.data_dir.rglob('*')))}"
    return sorted(found, key=lambda path: path.name)


def last_data_byte(path):
    """Offset of the last byte that is not zero: segments are pre-written with zeros."""
    data = path.read_bytes().rstrip(b"\0")
    return len(data) - 1


def fill(cluster, count=300):
    writer = KeyWriter("disk", [cluster.leader()])
    writer.start()
    wait_for(f"{count} writes", lambda: len(writer.acknowledged) >= count or writer.error, 60)
    return writer.finish()


def test_a_torn_last_record_is_repaired_and_nothing_acknowledged_is_lost(cluster, own, only_own):
    writer = fill(cluster)
    victim = cluster.followers()[0]
    victim.kill()
    with open(log_segments(victim)[-1], "r+b") as segment:
        end = last_data_byte(pathlib.Path(segment.name)) + 1
        segment.seek(end)
        segment.write(random.Random(5).randbytes(57))  # the beginning of a write that was never synced
    victim.start().wait_healthy()
    wait_for("the victim reads", lambda: victim.read("/load/disk/1").status == 200, 10)
    writer.check(victim)


def test_a_corrupt_record_is_named_and_loses_nothing(cluster, own, only_own):
    """Either the node refuses to start and says where, or it heals from its peers; it never serves a hole."""
    writer = fill(cluster)
    victim = cluster.followers()[0]
    victim.kill()
    path = log_segments(victim)[0]
    middle = last_data_byte(path) // 2
    with open(path, "r+b") as segment:
        segment.seek(middle)
        byte = segment.read(1)[0]
        segment.seek(middle)
        segment.write(bytes([byte ^ 0x55]))
    victim.start()
    wait_for("the node heals or refuses", lambda: victim.healthy() or not victim.alive(), 20)
    said = victim.log_path.read_text(errors="replace").lower()
    assert path.name in said and ("corrupt" in said or "checksum" in said or "damage" in said), \
        f"the log does not name {path.name}:\n{victim.log_tail()}"
    if victim.alive():
        writer.check(victim)
    else:
        assert victim.process.returncode > 0, f"ended by a signal: {victim.process.returncode}\n{victim.log_tail()}"
    for node in cluster.others(victim):
        writer.check(node)
    assert cluster.leader().put("/goes/on", "x").status == 201


def test_a_wiped_member_comes_back_and_nothing_is_lost(cluster, only_own):
    writer = fill(cluster)
    victim = cluster.followers()[0]
    victim.kill()
    shutil.rmtree(victim.data_dir)
    victim.start()
    wait_for("the wiped member has the data", lambda: victim.healthy() and victim.read("/load/disk/300", quorum="false", timeout=2).status == 200, 30)
    writer.check(victim)
    other = next(node for node in cluster.others(victim) if not node.is_leader())
    other.kill()  # now a majority needs the one that was wiped
    assert victim.put("/with/the/wiped", "x", timeout=15).status == 201


@pytest.fixture
def small_disk(tmp_path):
    """small_disk(megabytes) mounts a tmpfs; unmounted at the end. Needs root."""
    mounted = []

    def mount(megabytes):
        directory = tmp_path / f"disk{len(mounted)}"
        directory.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(directory)], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"cannot mount a tmpfs: {done.stderr.strip()}")
        mounted.append(directory)
        return directory

    yield mount
    for directory in mounted:
        subprocess.run(["umount", "-l", str(directory)], check=False)


def fill_disk(directory, leave_bytes):
    """A file that takes all of the file system but so much."""
    with open(directory / "ballast", "wb") as ballast:
        for attempt in range(20):  # the node may take room for its next log segment meanwhile
            room = os.statvfs(directory)
            size = room.f_bavail * room.f_frsize - leave_bytes
            try:
                os.posix_fallocate(ballast.fileno(), 0, max(size, 1))
                break
            except OSError as error:
                if error.errno != errno.ENOSPC or attempt == 19:
                    raise
    return directory / "ballast"


def test_a_full_disk_loses_no_acknowledged_write(make_cluster, small_disk, only_own, figure):
    directory = small_disk(512)
    cluster = make_cluster(1, start=False, directory=directory, keep=True)
    node = cluster.nodes[0]
    node.log_path = directory.parent / "full.log"  # a log on the full disk could not say so
    cluster.start()
    ballast = fill_disk(directory, 6 << 20)
    acknowledged, refusal = 0, None
    deadline = time.monotonic() + 60
    while refusal is None and time.monotonic() < deadline:
        try:
            answer = node.put(f"/full/{acknowledged}", "x" * 60000, timeout=5)
            if answer.status != 201:
                refusal = f"answer {answer.status} {answer.body[:120]!r}"
            else:
                acknowledged += 1
        except UNKNOWN_OUTCOME as error:
            refusal = f"{type(error).__name__}, process {'alive' if node.alive() else f'exit {node.process.returncode}'}"
    assert refusal, f"{acknowledged} writes of 60 kB fitted on a full disk"
    figure(f"{acknowledged} writes, then {refusal}")
    logs = node.log_path.read_text(errors="replace").lower()
    assert "space" in logs or "full" in logs, f"the log does not say that the disk is full:\n{logs[-1500:]}"
    ballast.unlink()
    node.kill()
    node.start().wait_healthy()
    for number in range(acknowledged):
        assert node.read(f"/full/{number}").status == 200, f"acknowledged write {number} of {acknowledged} is lost"
    assert node.put("/again", "x").status == 201


def test_a_member_with_a_full_disk_does_not_stop_the_others(make_cluster, small_disk, only_own):
    cluster = make_cluster(3, start=False)
    victim = cluster.nodes[0]
    disk = small_disk(512)
    victim.data_dir = disk / "data"
    cluster.start()
    ballast = fill_disk(disk, 4 << 20)
    others = cluster.others(victim)
    for number in range(300):
        answer = others[number % 2].put(f"/full/{number}", "x" * 60000, timeout=20)
        assert answer.status == 201, f"write {number}: {answer}"
    ballast.unlink()
    victim.kill()
    victim.start().wait_healthy()
    wait_for("the member caught up", lambda: victim.read("/full/299", timeout=5).status == 200, 30)
