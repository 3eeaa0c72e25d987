"""One training job under PyTorch's unmodified launcher: agents as processes, workers seen through their log lines."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from cluster import REPOSITORY, wait_for

PYTHON = "/usr/bin/python3"  # Debian's, which has torch and etcd
TRAIN = REPOSITORY / "deploy" / "quickstart_train.py"


class Job:
    """Started agents all run TRAIN until finish() is called; the workers then agree on a last step."""

    def __init__(self, directory, backend, endpoint, run_id, nodes="2", configuration="", launcher=()):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True)
        self.backend, self.endpoint, self.run_id, self.nodes = backend, endpoint, run_id, nodes
        self.configuration, self.launcher = configuration, list(launcher)
        self.stop_file = self.directory / "stop"
        self.agents = []

    def start_agent(self, endpoint=None):
        number = len(self.agents)
        # -r, -t and --log_dir: Debian's torch 1.13 on Python 3.11 fails on the defaults of these options.
        command = [PYTHON, "-m", "torch.distributed.run", f"--nnodes={self.nodes}", "--nproc_per_node=1",
                   f"--rdzv_backend={self.backend}", f"--rdzv_endpoint={endpoint or self.endpoint}",
                   f"--rdzv_id={self.run_id}", "-r", "1", "-t", "1", "--log_dir", str(self.directory / f"agent{number}"),
                   *([f"--rdzv_conf={self.configuration}"] if self.configuration else []), *self.launcher,
                   str(TRAIN), "--until", str(self.stop_file), "--log", str(self.directory)]
        with open(self.directory / f"agent{number}.log", "wb") as log:
            agent = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                     env=dict(os.environ, OMP_NUM_THREADS="1"))
        self.agents.append(agent)
        return agent

    def kill_agent(self, agent):
        """kill -9 of the agent and its workers, as if their machine had gone."""
        os.killpg(agent.pid, signal.SIGKILL)
        agent.wait()
        self.agents.remove(agent)

    def events(self, kind=None):
        found = []
        for path in self.directory.glob("worker_*.jsonl"):
            for line in path.read_text().splitlines():
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # a line being written
                if kind in (None, event["event"]):
                    found.append(event)
        return sorted(found, key=lambda event: event["time"])

    def check_alive(self):
        for agent in self.agents:
            if agent.poll() is not None:
                raise AssertionError(f"an agent ended early with {agent.returncode}:\n{self.log_tail()}")

    def wait_steps_after(self, moment, world, seconds):
        """Every member of a world of this size has made a reported step since the moment (time.time())."""
        def condition():
            self.check_alive()
            recent = {event["pid"] for event in self.events("step") if event["time"] > moment and event["world"] == world}
            return len(recent) >= world
        wait_for(f"{world} workers at work in a world of {world}", condition, seconds)
        return time.time() - moment

    def finish(self, workers, starts, seconds=90.0):
        """Let it end; every agent must exit 0, `workers` be done, `starts` worker starts be seen, no sum be wrong."""
        self.check_alive()
        self.stop_file.touch()
        deadline = time.monotonic() + seconds
        for agent in self.agents:
            try:
                status = agent.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"an agent did not end within {seconds:g} s\n{self.log_tail()}") from None
            if status != 0:
                raise AssertionError(f"an agent exited with {status}\n{self.log_tail()}")
        wrong = self.events("wrong_sum") + self.events("wrong_weights")
        assert not wrong, f"wrong sums: {wrong}"
        done, started = len(self.events("done")), len(self.events("start"))
        assert done == workers, f"{done} workers were done, expected {workers}"
        assert starts is None or started == starts, f"{started} worker starts, expected {starts}: workers were restarted"

    def log_tail(self, lines=12):
        parts = []
        for path in sorted(self.directory.glob("agent*.log")):
            parts += [f"--- {path.name}", *path.read_text(errors="replace").splitlines()[-lines:]]
        return "\n".join(parts)

    def stop(self):
        for agent in self.agents:
            try:
                os.killpg(agent.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            agent.wait()


if __name__ == "__main__":
    sys.exit("a module of the test harness: see tests/conformance/torch_elastic.py")
