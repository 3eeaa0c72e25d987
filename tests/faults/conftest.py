"""Fixtures of the process tests. RALLYPOINT_BINARY chooses the binary; Debian's etcd works too, as a check of the tests."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from cluster import Cluster, find_binary, is_etcd  # noqa: E402

FIGURES = []


@pytest.fixture(scope="session")
def binary():
    return find_binary()


@pytest.fixture
def own(binary):
    """True on Rallypoint: what is promised beyond etcd is demanded only there."""
    return not is_etcd(binary)


@pytest.fixture
def figure(request):
    """figure("sentence with a number"): shown in the summary, passed or failed."""
    return lambda text: FIGURES.append(f"{request.node.name}: {text}")


@pytest.fixture
def make_cluster(binary, request):
    """make_cluster(size, arguments...) starts one; everything is stopped at the end, logs shown if the test failed."""
    made = []

    def make(size=3, *arguments, start=True, **options):
        cluster = Cluster(size, binary=binary, arguments=arguments, **options)
        made.append(cluster)
        return cluster.start() if start else cluster

    yield make
    report = getattr(request.node, "call_report", None)
    for cluster in made:
        if report is not None and report.failed:
            for node in cluster.nodes:
                print(f"--- {node}, last lines of its log:\n{node.log_tail()}")
        cluster.stop()


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(3)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.call_report = outcome.get_result()


def pytest_terminal_summary(terminalreporter):
    if FIGURES:
        terminalreporter.section("figures")
        for line in FIGURES:
            terminalreporter.write_line(line)
