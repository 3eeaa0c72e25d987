"""A small training job whose every sum can be checked: started by torchrun, one copy per worker.

Linear regression by gradient descent on data that is a function of its row number. Each worker takes its share of the
rows; the gradients are summed with a gloo all_reduce. Every worker also replays the whole run alone and compares: a
wrong sum, a lost step or a silent restart shows as a difference in the weights.

    torchrun ... quickstart_train.py --steps 200                # so many steps
    torchrun ... quickstart_train.py --until FILE --log DIR     # until FILE exists; the workers agree on the last step

--log DIR: one file of JSON lines per worker process, which is how a driver sees starts, restarts and worlds.
"""
import argparse
import json
import os
import pathlib
import time

import torch
import torch.distributed as dist

ROWS, COLUMNS, RATE = 240, 4, 0.05


def data():
    rows = torch.arange(ROWS, dtype=torch.float64)
    inputs = torch.stack([torch.cos(rows * (column + 1) * 0.7) for column in range(COLUMNS)], dim=1)
    return inputs, inputs @ torch.tensor([3.0, -1.0, 0.5, 2.0], dtype=torch.float64)


def gradient(inputs, targets, weights, rank, world):
    mine, wanted = inputs[rank::world], targets[rank::world]
    return 2.0 / ROWS * (mine.T @ (mine @ weights - wanted))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=int, help="number of steps; default: until --until exists")
    options.add_argument("--until", type=pathlib.Path)
    options.add_argument("--pause", type=float, default=0.05, help="seconds between steps")
    options.add_argument("--log", type=pathlib.Path)
    options = options.parse_args()

    restart = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    record = open(options.log / f"worker_{os.getpid()}.jsonl", "a", buffering=1) if options.log else None

    def tell(event, **facts):
        if record:
            record.write(json.dumps(dict(event=event, time=time.time(), pid=os.getpid(), **facts)) + "\n")

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    tell("start", rank=rank, world=world, restart=restart)
    print(f"worker {rank} of {world} is training (restart count {restart})", flush=True)

    inputs, targets = data()
    weights = torch.zeros(COLUMNS, dtype=torch.float64)
    step = 0
    while options.steps is None or step < options.steps:
        step += 1
        # The last two numbers are the check and the vote to stop: the ranks are summed, so any wrong sum shows.
        stop = float(options.until is not None and options.until.exists())
        total = torch.cat([gradient(inputs, targets, weights, rank, world),
                           torch.tensor([(rank + 1.0) * step, stop], dtype=torch.float64)])
        dist.all_reduce(total)
        if total[-2].item() != step * world * (world + 1) / 2:
            tell("wrong_sum", step=step, got=total[-2].item())
            raise SystemExit(f"worker {rank}: wrong sum at step {step}: {total[-2].item()}")
        weights -= RATE * total[:COLUMNS]
        if step % 20 == 0:
            tell("step", step=step, world=world)
        if rank == 0 and step % 40 == 0:
            print(f"step {step}: weights {[round(value, 3) for value in weights.tolist()]}", flush=True)
        if total[-1].item() > 0:
            break
        time.sleep(options.pause)

    alone = torch.zeros(COLUMNS, dtype=torch.float64)
    for _ in range(step):
        alone -= RATE * gradient(inputs, targets, alone, 0, 1)
    if not torch.allclose(alone, weights, rtol=0, atol=1e-9):
        tell("wrong_weights", step=step)
        raise SystemExit(f"worker {rank}: the weights after {step} steps differ from the replay")
    tell("done", step=step, world=world, restart=restart)
    print(f"worker {rank}: {step} steps, every sum right, restart count {restart}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
