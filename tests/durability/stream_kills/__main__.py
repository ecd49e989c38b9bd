"""Kill Spark's driver, executors, the Python of sources and tasks, and brokers, while streams and queues become files.

python -m tests.durability.stream_kills [--cycles 10 | --minutes 10] [--seed 1] [--broker HOST:PORT --kill COMMAND]...
    [--directory DIR [--unfinished]]

The broker is Leveret; others, as RabbitMQ 3.10 and 4, come beside it with `--broker`, each with a COMMAND that kills
and starts it again. The same kills are for all of them: to start Spark is what takes long. For each broker a publisher
numbers messages, sends each to a stream and a queue, and awaits each confirm; at the end its files must have every
confirmed number, and of the stream every offset once. With `--directory` a run goes on with an earlier one that was
`--unfinished`: its last act was a kill of everything, and nothing of it is judged before.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.brokers.broker_process import BrokerProcess
from harness.campaign_options import campaign_parser, exit_on_sigterm, first_seed, numbered
from tests.durability.stream_kills.killed_brokers import KilledBroker, KilledBrokers, broker_at
from tests.durability.stream_kills.killed_job import Job
from tests.durability.stream_kills.notes import Notes
from tests.durability.stream_kills.numbered_messages import Publisher, verdict

VICTIMS = {"driver": 1, "planner": 1, "executor": 5, "worker": 5, "broker": 3}
"""Parts that are killed, and how often: after a kill of the driver it takes longest until everything is there again."""
AGAIN = 0.85
"""Probability that something is killed once more before a batch is committed: while all recovers from the last kill."""
PAUSE_SECONDS_MAX, START_SECONDS = 3.0, 20.0
"""Longest pauses before the next kill; the second one after a kill of the driver, so that all of its start is hit."""


class Campaign:
    """The kills, and what they have come to. `publishers` are by the labels of brokers."""

    def __init__(self, job: Job, brokers: KilledBrokers, publishers: Mapping[str, Publisher], notes: Notes) -> None:
        self._job = job
        self._brokers = brokers
        self._publishers = publishers
        self._notes = notes

    def kill_parts(self, cycles: Iterable[int], seed: int) -> None:
        """Kill one part after the other."""
        chance = random.Random(seed)
        for _ in cycles:
            self._job.start()
            self._job.await_commit()
            longest, again = PAUSE_SECONDS_MAX, True
            while again:
                time.sleep(chance.uniform(0, longest))  # the instant of the kill, not a wait for anything
                (victim,) = chance.choices([*VICTIMS], [*VICTIMS.values()])
                self._kill(victim)
                self._job.start()
                longest = START_SECONDS if victim == "driver" else PAUSE_SECONDS_MAX
                again = chance.random() < AGAIN
        self._brokers.await_started()

    def kill_all(self) -> None:
        """End all that runs by a kill."""
        for publisher in self._publishers.values():
            publisher.stop()
        self._kill("driver")

    def _kill(self, victim: str) -> None:
        if victim == "broker":
            self._brokers.kill()
        elif not self._job.kill(victim):
            return
        confirmed = {label: publisher.confirmed for label, publisher in self._publishers.items()}
        self._notes.add(victim, confirmed)
        print(f"{time.strftime('%X')} killed {victim}, confirmed: {confirmed}", flush=True)

    def judged(self) -> str:
        """Have all that is left written; what was tried. Raises AssertionError for a missing message, or one twice."""
        for publisher in self._publishers.values():
            publisher.stop()
        self._notes.confirm({label: publisher.confirmed for label, publisher in self._publishers.items()})
        rows = self._job.rows()
        told = [
            f"{label}: {len(self._notes.numbers(label)):,} confirmed; in the files"
            f" {verdict([row for row in rows if row.broker == label], self._notes.numbers(label))}"
            for label in self._publishers
        ]
        return f"{self._notes.kills}; {'; '.join(told)}"


def run(directory: Path, brokers: Mapping[str, KilledBroker], options: argparse.Namespace) -> str:
    """Kill, and judge unless it is to be gone on with; what was tried."""
    name = f"kills-{directory.name}"  # at another broker queues of earlier runs are there, with the same numbers
    notes = Notes(directory / "notes.json")
    addresses = {label: broker.address for label, broker in brokers.items()}
    job = Job(addresses, name, directory)
    publishers = {label: Publisher(address, name, notes.first) for label, address in addresses.items()}
    with KilledBrokers([*brokers.values()]) as killing:
        campaign = Campaign(job, killing, publishers, notes)
        try:
            for publisher in publishers.values():
                publisher.start()
            campaign.kill_parts(numbered(options), first_seed(options))
            if options.unfinished:
                campaign.kill_all()
                return f"{notes.kills}; to be gone on with in {directory}"
            return campaign.judged()
        finally:
            job.end()  # before brokers are awaited: whoever ends the campaign may not have the time


def main() -> None:
    """Run the cycles; exit with 1 when a message is missing or there twice."""
    parser = campaign_parser("tests.durability.stream_kills", __doc__, rounds=10, unit="cycles")
    parser.add_argument("--broker", action="append", default=[], help="HOST:PORT of another broker")
    parser.add_argument("--kill", action="append", default=[], help="a command that kills that broker and starts it")
    parser.add_argument("--directory", type=Path, help="where an unfinished run is, or is to be")
    parser.add_argument("--unfinished", action="store_true", help="end with a kill, and judge another time")
    options = parser.parse_args()
    if len(options.broker) != len(options.kill):
        parser.error("each --broker goes with a --kill")
    exit_on_sigterm()
    directory = options.directory or Path(tempfile.mkdtemp(prefix="leveret-stream-kills-"))
    directory.mkdir(exist_ok=True)
    print(f"data in {directory}", flush=True)
    leveret = BrokerProcess(directory / "data")
    leveret.start()
    others = map(broker_at, options.broker, options.kill)
    brokers = [KilledBroker("leveret", leveret.address, leveret.kill_and_restart), *others]
    try:
        print(run(directory, {each.label: each for each in brokers}, options), flush=True)
    finally:
        leveret.kill()
    if not options.unfinished:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
