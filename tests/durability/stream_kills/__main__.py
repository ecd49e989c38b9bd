"""Kill Spark's driver, an executor, a task's Python, or the brokers, while streams and queues are written into files.

python -m tests.durability.stream_kills [--cycles 10 | --minutes 10] [--seed 1] [--broker HOST:PORT --kill COMMAND]...

The broker is Leveret; others, as RabbitMQ 3.10 and 4, come beside it with `--broker`, each with a COMMAND that kills
and starts it again. The same kills are for all of them: to start Spark is what takes long. For each broker a publisher
numbers messages, sends each to a stream and a queue, and awaits each confirm; at the end its files must have every
confirmed number, and of the stream every offset once.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.brokers.broker_process import BrokerProcess
from harness.campaign_options import campaign_parser, first_seed, numbered
from tests.durability.stream_kills.killed_brokers import KilledBroker, KilledBrokers, broker_at
from tests.durability.stream_kills.killed_job import Job
from tests.durability.stream_kills.numbered_messages import Publisher, verdict

VICTIMS = ("driver", "executor", "worker", "broker")
AGAIN = 0.7
"""Probability that something is killed once more before a batch is committed: while all recovers from the last kill."""
PAUSE_SECONDS_MAX, START_SECONDS = 3.0, 20.0
"""Longest pauses before the next kill; the second one after a kill of the driver, so that all of its start is hit."""


def kill_parts(
    job: Job, brokers: KilledBrokers, publishers: Mapping[str, Publisher], cycles: Iterable[int], seed: int
) -> Counter[str]:
    """Kill one part after the other; return how many of each."""
    chance, killed = random.Random(seed), Counter[str]()
    for _ in cycles:
        job.start()
        job.await_commit()
        longest, again = PAUSE_SECONDS_MAX, True
        while again:
            time.sleep(chance.uniform(0, longest))  # the instant of the kill, not a wait for anything
            victim = chance.choice(VICTIMS)
            if victim == "broker":
                brokers.kill()
            if victim == "broker" or job.kill(victim):
                killed[victim] += 1
                confirmed = ", ".join(f"{each.confirmed:,}" for each in publishers.values())
                print(f"{time.strftime('%X')} killed {victim}, {confirmed} confirmed", flush=True)
            job.start()
            longest = START_SECONDS if victim == "driver" else PAUSE_SECONDS_MAX
            again = chance.random() < AGAIN
    return killed


def campaign(directory: Path, brokers: Mapping[str, KilledBroker], cycles: Iterable[int], seed: int) -> str:
    """The cycles, and what was tried. Raises AssertionError when a message is missing or there twice."""
    name = directory.name  # at another broker queues of earlier runs are still there, with the same numbers
    addresses = {label: broker.address for label, broker in brokers.items()}
    job = Job(addresses, name, directory)
    publishers = {label: Publisher(address, name) for label, address in addresses.items()}
    for publisher in publishers.values():
        publisher.start()
    try:
        with KilledBrokers([*brokers.values()]) as killing:
            killed = kill_parts(job, killing, publishers, cycles, seed)
            killing.await_started()
        for publisher in publishers.values():
            publisher.stop()
        rows = job.rows()
    finally:
        job.kill("driver")
    kills = ", ".join(f"{count} of the {victim}" for victim, count in sorted(killed.items()))
    judged = [
        f"{label}: {publisher.confirmed:,} confirmed; in the files"
        f" {verdict([row for row in rows if row.broker == label], publisher.confirmed)}"
        for label, publisher in publishers.items()
    ]
    return f"{killed.total()} kills: {kills}; {'; '.join(judged)}"


def main() -> None:
    """Run the cycles; exit with 1 when a message is missing or there twice."""
    parser = campaign_parser("tests.durability.stream_kills", __doc__, rounds=10, unit="cycles")
    parser.add_argument("--broker", action="append", default=[], help="HOST:PORT of another broker")
    parser.add_argument("--kill", action="append", default=[], help="a command that kills that broker and starts it")
    options = parser.parse_args()
    if len(options.broker) != len(options.kill):
        parser.error("each --broker goes with a --kill")
    directory = Path(tempfile.mkdtemp(prefix="leveret-stream-kills-"))
    seed = first_seed(options)
    print(f"seed {seed}, data in {directory}", flush=True)
    leveret = BrokerProcess(directory / "data")
    leveret.start()
    others = map(broker_at, options.broker, options.kill)
    brokers = [KilledBroker("leveret", leveret.address, leveret.kill_and_restart), *others]
    try:
        print(campaign(directory, {each.label: each for each in brokers}, numbered(options), seed), flush=True)
    finally:
        leveret.stop()
    shutil.rmtree(directory)


if __name__ == "__main__":
    main()
