#!/usr/bin/python3
"""v2 PUT over HTTP, three members on this machine, fsync on: Rallypoint and etcd 3.4 in turn, in one run.

    tests/bench/v2_put.py                       # 3 rounds of both, through the leader
    tests/bench/v2_put.py --target spread       # a third of the connections to each member
    tests/bench/v2_put.py --binaries /usr/bin/etcd --seconds 2 --rounds 1

The figure that counts is requests per CPU second of all three servers (the processes' own CPU clocks, read before and
after): throughput on two shared cores says as much about the client (wrk) as about the server. Each round is a fresh
cluster, warmed up for a second; servers alternate, and medians are compared.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from cluster import ETCD, Cluster, find_binary, is_etcd  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().with_name("put.lua")
COLUMNS = ("requests per CPU second", "requests/s", "p50 ms", "p99 ms", "max ms")


def load(nodes, connections, seconds, seed):
    """wrk on each of the nodes at once; (requests, seconds, errors, p50, p99, max) with times in ms, worst of all."""
    shares = [connections // len(nodes) + (number < connections % len(nodes)) for number in range(len(nodes))]
    runs = [subprocess.Popen(["wrk", "-t1", f"-c{share}", f"-d{seconds}s", "--timeout", "20s", "-s", str(SCRIPT), node.client_url,
                              "--", str(seed + number)], stdout=subprocess.PIPE, text=True)
            for number, (node, share) in enumerate(zip(nodes, shares))]
    rows = []
    for run in runs:
        said = run.communicate(timeout=seconds + 60)[0]
        line = next((line for line in said.splitlines() if line.startswith("FIGURES")), None)
        if line is None:
            raise SystemExit(f"wrk gave no figures:\n{said}")
        rows.append([float(word) for word in line.split()[1:]])
    return (sum(row[0] for row in rows), max(row[1] for row in rows) / 1e6, sum(row[2] for row in rows),
            *(max(row[column] for row in rows) / 1000 for column in (3, 4, 5)))


def measure(binary, options, seed):
    with Cluster(options.members, binary=binary) as cluster:
        leader = cluster.leader()
        nodes = cluster.nodes if options.target == "spread" else [leader]
        load(nodes, options.connections, 1, seed)
        before = sum(node.cpu_seconds() for node in cluster.nodes)
        requests, seconds, errors, p50, p99, longest = load(nodes, options.connections, options.seconds, seed + 100)
        cpu = sum(node.cpu_seconds() for node in cluster.nodes) - before
        if errors:
            print(f"   {errors:.0f} of {requests:.0f} requests failed", flush=True)
        return requests / cpu, requests / seconds, p50, p99, longest


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--binaries", nargs="+", help="default: ours and etcd")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=int, default=5)
    options.add_argument("--connections", type=int, default=64)
    options.add_argument("--members", type=int, default=3)
    options.add_argument("--target", choices=("leader", "spread"), default="leader")
    options = options.parse_args()
    binaries = options.binaries or [find_binary(), ETCD]
    results = {binary: [] for binary in binaries}
    print(f"v2 PUT of 256 bytes, {options.connections} connections to the {options.target if options.target == 'leader' else 'members'}, "
          f"{options.members} members, {options.rounds} rounds of {options.seconds} s", flush=True)
    for number in range(options.rounds):
        for binary in binaries:
            row = measure(binary, options, number * 1000)
            results[binary].append(row)
            print(f"   round {number + 1} {name(binary):10} " + "  ".join(f"{title} {value:,.1f}" for title, value in zip(COLUMNS, row)), flush=True)
    medians = {binary: [statistics.median(column) for column in zip(*rows)] for binary, rows in results.items()}
    print(f"\n   {'median':10} " + " ".join(f"{title:>24}" for title in COLUMNS))
    for binary, row in medians.items():
        print(f"   {name(binary):10} " + " ".join(f"{value:24,.1f}" for value in row))
    if len(binaries) == 2:
        first, second = (medians[binary] for binary in binaries)
        print(f"   {'ratio':10} " + " ".join(f"{a / b:23.2f}x" for a, b in zip(first, second)))


def name(binary):
    return "etcd" if is_etcd(binary) else pathlib.Path(binary).name


if __name__ == "__main__":
    main()
