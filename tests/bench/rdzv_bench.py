#!/usr/bin/python3
"""How long PyTorch's own rendezvous handler needs to bring N nodes together, on Rallypoint and on etcd in one run.

    tests/bench/rdzv_bench.py                              # 32 and 128 nodes, both servers, first round and restart storm
    tests/bench/rdzv_bench.py --nodes 128 --binaries build/release/rallypoint

A simulated node is a thread with a handler, a client and a connection of its own; the threads are spread over four
processes, which share the machine with the server. PyTorch is not changed, its requests are only counted. min = max = N,
so a round ends when the last node has joined. Round 0 is the first rendezvous; in round 1 all nodes ask again at once,
which is what a job does after a failure: the restart storm.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from cluster import ETCD, Cluster, find_binary, is_etcd  # noqa: E402

PROCESSES = 4
ROUNDS = 2


# ---- the simulated nodes: one process of them ----------------------------------------------------------------------


class Counter:
    def __init__(self):
        self.lock, self.requests, self.lost = threading.Lock(), 0, 0

    def watch(self):
        """Counts every request of python-etcd, and every state write that lost its compare-and-swap."""
        import etcd
        from torch.distributed.elastic.rendezvous.etcd_rendezvous_backend import EtcdRendezvousBackend
        execute, set_state = etcd.Client.api_execute, EtcdRendezvousBackend.set_state

        def counted_execute(client, *arguments, **options):
            with self.lock:
                self.requests += 1
            return execute(client, *arguments, **options)

        def counted_set_state(backend, *arguments, **options):
            result = set_state(backend, *arguments, **options)
            if not (result and result[2]):
                with self.lock:
                    self.lost += 1
            return result
        etcd.Client.api_execute, EtcdRendezvousBackend.set_state = counted_execute, counted_set_state


def simulate(endpoint, run_id, world, mine, timeout):
    """Builds `mine` handlers, then plays one round for each line on stdin; a JSON line on stdout after each step."""
    import logging
    logging.disable(logging.WARNING)
    from torch.distributed.elastic.rendezvous import RendezvousParameters, registry
    registry._register_default_handlers()
    counter = Counter()
    counter.watch()
    handlers = [registry.get_rendezvous_handler(RendezvousParameters(
        backend="etcd-v2", endpoint=endpoint, run_id=run_id, min_nodes=world, max_nodes=world,
        join_timeout=timeout, last_call_timeout=2)) for _ in range(mine)]
    print(json.dumps({"ready": mine}), flush=True)
    for _ in sys.stdin:
        counter.requests = counter.lost = 0
        results, errors = [], []

        def join(handler):
            try:
                _, rank, size = handler.next_rendezvous()
                results.append((time.time(), rank, size))
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
        threads = [threading.Thread(target=join, args=(handler,)) for handler in handlers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(json.dumps({"results": results, "errors": errors, "requests": counter.requests, "lost": counter.lost}), flush=True)
    os._exit(0)  # the handlers' keep-alive threads have no end of their own


# ---- the driver ----------------------------------------------------------------------------------------------------


def rendezvous(cluster, world, timeout):
    """Both rounds of one world; a list of (seconds until the last node had joined, requests, lost, CPU seconds)."""
    shares = [share for share in (world // PROCESSES + (number < world % PROCESSES) for number in range(PROCESSES)) if share]
    endpoint = f"127.0.0.1:{cluster.leader().client_port}"
    run_id = f"bench-{world}-{os.urandom(3).hex()}"
    children = [subprocess.Popen([sys.executable, __file__, "--simulate", endpoint, run_id, str(world), str(share), str(timeout)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                for share in shares]
    rows = []
    try:
        for child in children:
            assert json.loads(child.stdout.readline())["ready"]
        for _ in range(ROUNDS):
            before = sum(node.cpu_seconds() for node in cluster.nodes)
            began = time.time()
            for child in children:
                child.stdin.write("go\n")
                child.stdin.flush()
            answers = [json.loads(child.stdout.readline()) for child in children]
            cpu = sum(node.cpu_seconds() for node in cluster.nodes) - before
            joined = [result for answer in answers for result in answer["results"]]
            errors = [error for answer in answers for error in answer["errors"]]
            ranks = sorted(result[1] for result in joined)
            if errors or ranks != list(range(world)) or {result[2] for result in joined} != {world}:
                print(f"   N={world}: {len(joined)} joined, errors {errors[:2]}", flush=True)
                rows.append(None)
                break
            rows.append((max(result[0] for result in joined) - began, sum(answer["requests"] for answer in answers),
                         sum(answer["lost"] for answer in answers), cpu))
    finally:
        for child in children:
            child.kill()
            child.wait()
    return rows


def main():
    if sys.argv[1:2] == ["--simulate"]:
        endpoint, run_id, world, mine, timeout = sys.argv[2:]
        simulate(endpoint, run_id, int(world), int(mine), int(timeout))
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--binaries", nargs="+", help="default: ours and etcd")
    options.add_argument("--nodes", default="32,128", help="sizes, comma-separated")
    options.add_argument("--members", type=int, default=1, help="size of the server cluster")
    options.add_argument("--repeat", type=int, default=1)
    options.add_argument("--timeout", type=int, default=300, help="join timeout, seconds")
    options = options.parse_args()
    binaries = options.binaries or [find_binary(), ETCD]
    print(f"torch's handler over etcd-v2, {options.members} member(s)\n"
          f"   {'server':12} {'N':>4} {'first round, s':>16} {'restart storm, s':>16} {'requests':>14} {'lost CAS':>14} {'server CPU, s':>15}", flush=True)
    for world in map(int, options.nodes.split(",")):
        for _ in range(options.repeat):
            for binary in binaries:
                with Cluster(options.members, binary=binary) as cluster:
                    rows = rendezvous(cluster, world, options.timeout)
                label = "etcd" if is_etcd(binary) else pathlib.Path(binary).name
                cells = list(zip(*[row or ("failed",) * 4 for row in rows]))
                show = [" ".join(f"{value:.2f}" if isinstance(value, float) else str(value) for value in cell) for cell in cells]
                times = show[0].split() + ["-"] * (2 - len(rows))
                print(f"   {label:12} {world:4d} {times[0]:>16} {times[1]:>16} {show[1]:>14} {show[2]:>14} {show[3]:>15}", flush=True)


if __name__ == "__main__":
    main()
