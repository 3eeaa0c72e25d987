#!/usr/bin/python3
"""etcd's v3 API, three members on this machine, fsync on: Rallypoint and etcd 3.4 in turn, as one table.

    tests/bench/v3_table.py                                   # 3 rounds of every work on both
    tests/bench/v3_table.py --works put-64,range --rounds 5
    tests/bench/v3_table.py --works keys-1m,idle-watchers     # memory; loads 1,000,000 keys, minutes on etcd
    tests/bench/v3_table.py --servers stock,etcd,own          # `own`: our client library on our server

The figure that counts is CPU seconds of all three servers per million operations (processes' own clocks): throughput on
two shared cores says as much about the client as about the server. Each round of a server is a fresh cluster: 10,000 keys
are written, all members restarted (etcd's reads are cheapest then), and the works run in the order of the table, reads
first. Everything goes to the leader. Servers alternate, medians are compared.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from cluster import ETCD, REPOSITORY, Cluster, find_binary  # noqa: E402

KEYS = 10_000

# work -> (what the table calls it, arguments of v3_bench, the CPU ratio to etcd that we want from a stock client)
WORKS = {
    "range": ("linearizable range of one key, 64", ["range"], 5),
    "range-serializable": ("serializable range of one key, 64", ["range-serializable"], 5),
    "put-1": ("put 256 B, single client", ["put", "--outstanding", "1", "--connections", "1"], None),
    "put-64": ("put 256 B, 64 outstanding", ["put"], 4),
    "put-256": ("put 256 B, 256 outstanding", ["put", "--outstanding", "256"], 3),
    "txn": ("compare-and-set txn, 64", ["txn"], 4),
    "keepalive": ("lease keepalive, 64 on 8 streams", ["keepalive"], 5),
    "watch": ("watch fan-out, 10,000 watchers, 100 streams (per event)", ["watch", "--streams", "100"], 5),
}
MEMORY = {
    "idle-watchers": "bytes per idle watcher (20,000 on distinct keys)",
    "keys-1m": "MB resident with 1,000,000 keys of 16+256 B (largest member)",
}
PROFILES = {"etcd": "stock", "stock": "stock", "own": "own"}  # which client on which server
TITLES = {"etcd": "etcd", "stock": "ours", "own": "ours, own client"}


class Bench:
    def __init__(self, program, options):
        self.program, self.options = program, options

    def run(self, cluster, arguments, client="stock", seconds=None):
        """The figures of one work on the cluster, as a dict."""
        leader = cluster.leader()
        nodes = [leader, *cluster.others(leader)]
        command = [self.program, *arguments, "--client", client, "--endpoints", f"127.0.0.1:{leader.client_port}",
                   "--pids", ",".join(str(node.process.pid) for node in nodes)]
        if seconds:
            command += ["--seconds", str(seconds)]
        if client == "own" and "--connections" not in arguments:
            command += ["--connections", "1"]
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=1800)
        line = next((line for line in said.stdout.splitlines() if line.startswith("FIGURES ")), None)
        if line is None:
            raise SystemExit(f"{' '.join(command)} gave no figures (exit code {said.returncode}):\n{said.stdout}")
        return json.loads(line.removeprefix("FIGURES "))

    def fill(self, cluster, keys):
        self.run(cluster, ["fill", "--keys", str(keys), "--outstanding", "256"])


def restart(cluster):
    for node in cluster.nodes:
        node.terminate()
    for node in cluster.nodes:
        node.start()
    for node in cluster.nodes:
        node.wait_healthy()


def binary_of(server):
    return ETCD if server == "etcd" else find_binary()


def speed_round(bench, server, works):
    """work -> figures, on a fresh cluster of that server."""
    results = {}
    with Cluster(3, binary=binary_of(server)) as cluster:
        bench.fill(cluster, KEYS)
        restart(cluster)
        for work in works:
            figures = bench.run(cluster, WORKS[work][1] + ["--keys", str(KEYS)], PROFILES[server], bench.options.seconds)
            count, seconds = max(figures["count"], 1), figures["seconds"]
            results[work] = {"cpu": figures["cpu"] / count * 1e6, "rate": figures["count"] / seconds,
                             "client_cpu": figures["client_cpu"] / count * 1e6, "p50": figures["p50_us"], "p99": figures["p99_us"]}
            failed = f"   {figures['failures']} FAILED" if figures["failures"] else ""
            print(f"   {TITLES[server]:17} {work:20} {results[work]['cpu']:8.2f} s/M {results[work]['rate']:12,.0f}/s   "
                  f"p50 {figures['p50_us']:7,} us   p99 {figures['p99_us']:7,} us   client {results[work]['client_cpu']:6.2f} s/M{failed}", flush=True)
    return results


def memory_round(bench, server, works):
    results = {}
    if "idle-watchers" in works:
        with Cluster(3, binary=binary_of(server)) as cluster:
            figures = bench.run(cluster, ["idle-watchers", "--watchers", "20000", "--streams", "100"], PROFILES[server])
            results["idle-watchers"] = (figures["bytes_after"] - figures["bytes_before"]) / figures["count"]
    if "keys-1m" in works:
        with Cluster(3, binary=binary_of(server)) as cluster:
            bench.fill(cluster, 1_000_000)
            results["keys-1m"] = max(resident_bytes(node) for node in cluster.nodes) / 1e6
    for work, value in results.items():
        print(f"   {TITLES[server]:17} {work:20} {value:12,.0f}", flush=True)
    return results


def resident_bytes(node):
    status = pathlib.Path(f"/proc/{node.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024


def median(rounds, work, column=None):
    values = [row[work] if column is None else row[work][column] for row in rounds if work in row]
    return statistics.median(values) if values else None


def print_table(rounds, works, servers):
    others = [server for server in servers if server != "etcd"]

    def ratio(value, base, inverse=False):
        if not value or not base:
            return "-"
        return f"{(base / value if inverse else value / base):.2f}x"
    print("\nmedians; ratios: how many times better than etcd")
    for title, column, inverse in (("CPU seconds of all servers per million", "cpu", True), ("per second", "rate", False),
                                   ("p50, us", "p50", True), ("p99, us", "p99", True)):
        head = "".join(f"{TITLES[server]:>17}" for server in servers) + "".join(f"{'ratio':>9}" for _ in others)
        print(f"\n{title:58}{head}" + ("   wanted" if column == "cpu" else ""))
        for work in works:
            values = {server: median(rounds[server], work, column) for server in servers}
            cells = "".join(f"{values[server]:17,.2f}" if column == "cpu" else f"{values[server]:17,.0f}" for server in servers)
            cells += "".join(f"{ratio(values[server], values.get('etcd'), inverse):>9}" for server in others)
            wanted = f"{WORKS[work][2]:8d}x" if column == "cpu" and WORKS[work][2] else ""
            print(f"{WORKS[work][0]:58}{cells}{wanted}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", default=",".join(WORKS), help=f"comma-separated: {', '.join([*WORKS, *MEMORY])}; default: all but memory")
    parser.add_argument("--servers", default="etcd,stock", help="etcd, stock (ours, stock client), own (ours, our client)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--program", default=str(REPOSITORY / "build" / "release" / "tests" / "v3_bench"))
    parser.add_argument("--json", help="also write all rounds to this file")
    options = parser.parse_args()
    servers, asked = options.servers.split(","), options.works.split(",")
    unknown = [work for work in asked if work not in WORKS and work not in MEMORY] + [server for server in servers if server not in TITLES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    works = [work for work in WORKS if work in asked]
    memory = [work for work in MEMORY if work in asked]
    bench = Bench(options.program, options)
    rounds, sizes = {server: [] for server in servers}, {server: [] for server in servers}
    for number in range(options.rounds):
        for server in servers if works else []:
            print(f"round {number + 1}", flush=True)
            rounds[server].append(speed_round(bench, server, works))
    for server in servers if memory else []:
        sizes[server].append(memory_round(bench, server, memory))
    if works:
        print_table(rounds, works, servers)
    for work in memory:
        print(f"{MEMORY[work]:70}" + "".join(f"{TITLES[server]:>12} {median(sizes[server], work):,.0f}" for server in servers))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"speed": rounds, "memory": sizes}, indent=1))


if __name__ == "__main__":
    main()
