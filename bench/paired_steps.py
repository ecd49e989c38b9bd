"""The steps of a message in two checkouts, a batch in one and then one in the other: the cost of a change.

`python -m bench.paired_steps OTHER`, where OTHER is the other checkout: ratios of this one's cost to the other's, each
of the fifth of the batches that were fastest in a pair of processes; mean, least and most over several pairs. Other
load of the machine falls on both, and the layout of one process in memory on neither. `bench.rows.steps` says what the
steps are.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

BATCHES, PAIRS = 60, 8
ROOT = Path(__file__).resolve().parents[1]
WHOLE = ("(receive)", "deliver", "seal", "commit", "confirm, telling", "ack")

Costs = dict[str, float]


def main(other: Path) -> None:
    """Print the table."""
    ratios: dict[str, list[float]] = {}
    costs: dict[str, list[float]] = {}
    for _ in range(PAIRS):
        for step, (theirs, ours) in _pair(other):
            ratios.setdefault(step, []).append(ours / theirs)
            costs.setdefault(step, []).append(theirs)
    for step, found in ratios.items():
        spread = f"{statistics.mean(found):.3f}  ({min(found):.3f} to {max(found):.3f})"
        print(f"{step:22} {statistics.median(costs[step]):.3f} us  {spread}")


def _pair(other: Path) -> Iterator[tuple[str, tuple[float, float]]]:
    """Two processes, and what each step costs in them."""
    workers = [_worker(checkout) for checkout in (other, ROOT)]
    found: tuple[list[Costs], list[Costs]] = ([], [])
    for number in range(BATCHES):
        for place in (0, 1) if number % 2 else (1, 0):
            stdin, stdout = workers[place].stdin, workers[place].stdout
            assert stdin is not None
            assert stdout is not None
            stdin.write("batch\n")
            stdin.flush()
            found[place].append(json.loads(stdout.readline()))
    for worker in workers:
        worker.communicate()
    for step in found[0][0]:
        theirs, ours = (sorted(costs[step] for costs in each)[BATCHES // 5] for each in found)
        yield step, (theirs, ours)


def _worker(checkout: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, "-P", __file__, "--worker"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=checkout, env=environment, stdin=pipe, stdout=pipe, text=True)


def _work() -> None:
    """Time a batch of everything for each line that is read. Imports are the checkout's."""
    from bench.rows import steps
    from broker.wire import methods
    from harness.clients.amqp_peer import publish_frames
    from harness.clients.session_client import SessionLayer

    with ExitStack() as stack:
        receivers = {
            "parse": steps.Receiver(stack, "steps", taken=False),
            "two routes": steps.Receiver(stack, "steps", "others"),
            "transient": steps.Receiver(stack, "steps", persistent=False),
            "persistent": steps.Receiver(stack, "steps"),
            "with confirms": steps.Receiver(stack, "steps", confirms=True),
        }
        core, client = stack.enter_context(steps._core())
        client.send(methods.ConfirmSelect(False))
        reader = steps.DiscardingClient(SessionLayer(core))
        reader.send(methods.BasicConsume("steps", "c", False, False, False, False, {}))
        piece = publish_frames(steps.BODY, key="steps", persistent=True) * steps.PIECE
        whole: dict[str, list[float]] = {name: [] for name in (*WHOLE, "(commit, wall)")}
        for number, _ in enumerate(sys.stdin):
            for receiver in receivers.values():
                receiver.run_batch()
            steps._one_batch(core, client, reader, piece, number, whole)
            costs = {name: receiver.costs.pop() for name, receiver in receivers.items()}
            of_whole = {name: whole[name].pop() for name in WHOLE}
            print(json.dumps({**costs, **of_whole, "together": sum(of_whole.values())}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        _work()
    else:
        main(Path(sys.argv[1]).resolve())
