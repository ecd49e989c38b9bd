"""Kill Spark's driver, an executor, a task's Python, or the broker, while a stream and a queue are written into files.

python -m tests.durability.stream_kills [--cycles 10 | --minutes 10] [--seed 1] [--broker HOST:PORT --kill COMMAND]

A publisher numbers messages, sends each to both, and awaits each confirm; at the end the files must have every
confirmed number, and of the stream every offset once. By default the broker is Leveret; another one, as RabbitMQ 3.10
or 4, is at `--broker`, and COMMAND kills and starts it again.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import pika
from pika.exceptions import AMQPError

from harness.brokers.broker_process import BrokerProcess
from harness.campaign_options import campaign_parser, first_seed, numbered
from harness.project import ROOT
from harness.waiting import eventually

TYPES = {"stream": "stream", "queue": "classic"}
"""Types of the queues by what ends their names."""
COMMIT_SECONDS = 180
PAUSE_SECONDS_MAX = 2.0
AGAIN = 0.6
"""Probability that something is killed once more before a batch is committed: while all recovers from the last kill."""
PUBLISH_SECONDS = 0.002
VICTIMS = {"executor": "CoarseGrainedExecutorBackend", "worker": "pyspark.daemon"}
"""Processes to kill, each with a part of its command line."""


class Publisher(threading.Thread):
    """Publishes 0, 1, 2, ..., one confirm at a time, until it is stopped; what was not confirmed is published again."""

    def __init__(self, address: tuple[str, int], name: str) -> None:
        super().__init__(name="publisher", daemon=True)
        self._name = name
        self.confirmed = 0
        self._address = address
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            with suppress(AMQPError, OSError):
                self._publish()
            self._over.wait(0.1)

    def stop(self) -> None:
        """Return when nothing is published any more."""
        self._over.set()
        self.join()

    def _publish(self) -> None:
        with pika.BlockingConnection(pika.ConnectionParameters(*self._address)) as connection:
            channel = connection.channel()
            for kind, queue_type in TYPES.items():
                channel.queue_declare(f"{self._name}-{kind}", durable=True, arguments={"x-queue-type": queue_type})
            channel.confirm_delivery()
            while not self._over.wait(PUBLISH_SECONDS):
                for kind in TYPES:
                    persistent = pika.BasicProperties(delivery_mode=2)
                    channel.basic_publish("", f"{self._name}-{kind}", b"%d" % self.confirmed, persistent)
                self.confirmed += 1


class Job:
    """The job, started again whenever its driver was killed."""

    def __init__(self, address: tuple[str, int], name: str, directory: Path) -> None:
        scratch = directory / "scratch"
        scratch.mkdir()
        self._places = (address[0], str(address[1]), name, str(directory))
        self._directory = directory
        settings = {"PYTHONPATH": str(ROOT), "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
        self._environment = {**os.environ, **settings}
        self._log = (directory / "job.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._process is None:
            self._process = subprocess.Popen(self._command(), cwd=ROOT, env=self._environment, stdout=self._log,
                                             stderr=self._log, start_new_session=True)  # fmt: skip

    def rows(self) -> list[tuple[str, int, int]]:
        """Write all that is left, and return what is in the files: stream or queue, offset, number."""
        with_end = [*self._command(), "to-end"]
        done = subprocess.run(
            with_end, cwd=ROOT, env=self._environment, stdout=subprocess.PIPE, stderr=self._log, check=True
        )
        return [(kind, offset, int(body)) for kind, offset, body in map(json.loads, done.stdout.splitlines())]

    def await_commit(self) -> None:
        """Return when both queries have committed another batch."""
        known = {kind: self._committed(kind) for kind in TYPES}

        def is_committed() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"the job has ended by itself: see {self._log.name}"
            return all(self._committed(kind) > last for kind, last in known.items())

        eventually(is_committed, "a batch to be committed", seconds=COMMIT_SECONDS)

    def kill(self, victim: str) -> bool:
        """Kill the driver with all it has started, or one process of a kind; False if there is none."""
        assert self._process is not None
        marks = VICTIMS.get(victim, "")
        found = [pid for pid in _of_session(self._process.pid) if marks in _command_line(pid)]
        for pid in found if victim == "driver" else found[-1:]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if victim == "driver":
            self._process.wait()
            self._process = None
        return bool(found)

    def _committed(self, kind: str) -> int:
        commits = self._directory / kind / "checkpoint" / "commits"
        return max((int(each.name) for each in commits.glob("[0-9]*") if each.name.isdigit()), default=-1)

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "tests.durability.stream_kills.archiving_job", *self._places]


def _of_session(leader: int) -> list[int]:
    """The processes of a session."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(int(place.name)) == leader:
                found.append(int(place.name))
    return sorted(found)


def _command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def campaign(
    job: Job, publisher: Publisher, kill_broker: Callable[[], object], cycles: Iterable[int], seed: int
) -> str:
    """The cycles, and what was tried. Raises AssertionError when a message is missing or there twice."""
    chance, killed = random.Random(seed), Counter[str]()

    def kill(victim: str) -> bool:
        if victim != "broker":
            return job.kill(victim)
        kill_broker()
        return True

    publisher.start()
    for _ in cycles:
        job.start()
        job.await_commit()
        again = True
        while again:
            time.sleep(chance.uniform(0, PAUSE_SECONDS_MAX))  # the instant of the kill, not a wait for anything
            victim = chance.choice(["driver", "executor", "worker", "broker"])
            if kill(victim):
                killed[victim] += 1
                print(f"killed {victim}, {publisher.confirmed:,} confirmed", flush=True)
            job.start()
            again = chance.random() < AGAIN
    publisher.stop()
    job.start()
    job.kill("driver")
    in_files = verdict(job.rows(), publisher.confirmed)
    kills = ", ".join(f"{count} of the {victim}" for victim, count in sorted(killed.items()))
    return f"kills: {kills}; {publisher.confirmed:,} confirmed; in the files {in_files}"


def verdict(rows: Sequence[tuple[str, int, int]], confirmed: int) -> str:
    """Judge what is in the files. Raises AssertionError when a message is missing, or an offset there twice."""
    offsets = Counter(offset for kind, offset, _ in rows if kind == "stream")
    assert max(offsets.values()) == 1, f"twice: {[offset for offset, times in offsets.items() if times > 1][:10]}"
    for kind in TYPES:
        missing = set(range(confirmed)) - {number for each, _, number in rows if each == kind}
        assert not missing, f"confirmed and not in the files of the {kind}: {sorted(missing)[:10]}"
    of_queue = Counter(number for kind, _, number in rows if kind == "queue")
    again = sum(times - 1 for times in of_queue.values())
    once = f"{len(offsets):,} offsets of the stream, each once"
    return f"{once}, and {len(of_queue):,} messages of the queue, {again:,} of them again"


def main() -> None:
    """Run the cycles; exit with 1 when a message is missing or there twice."""
    parser = campaign_parser("tests.durability.stream_kills", __doc__, rounds=10, unit="cycles")
    parser.add_argument("--broker", help="HOST:PORT of another broker")
    parser.add_argument("--kill", help="a command that kills the other broker and starts it again")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="leveret-stream-kills-"))
    seed = first_seed(options)
    print(f"seed {seed}, data in {directory}", flush=True)
    if options.broker:
        host, _, port = options.broker.partition(":")
        address, kill = (host, int(port)), lambda: subprocess.run(options.kill, shell=True, check=True)
        broker = None
    else:
        broker = BrokerProcess(directory / "data")
        broker.start()
        address, kill = broker.address, broker.kill_and_restart
    name = directory.name  # at another broker queues of earlier runs are still there, with the same numbers
    job, publisher = Job(address, name, directory), Publisher(address, name)
    try:
        print(campaign(job, publisher, kill, numbered(options), seed), flush=True)
    finally:
        publisher.stop()
        job.start()
        job.kill("driver")
        if broker is not None:
            broker.stop()
    shutil.rmtree(directory)


if __name__ == "__main__":
    main()
