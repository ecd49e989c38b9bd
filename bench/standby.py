"""Waits for a second place: `python -m bench.standby`.

Printed are the seconds of a restore of `--mebibytes` of messages, with its CPU time; of a standby's first base; how far
the standby is behind a broker that takes `--rate` MiB a second; and of promotions, from the request to the ready line.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.load import generator
from bench.load.measured_broker import environment, target_of
from broker.admin.protocol import AdministrationError
from harness.brokers.broker_process import BrokerProcess
from harness.standby_process import StandbyProcess
from harness.waiting import eventually

MIB = 1 << 20
BODY_BYTES = 16 << 10
WAIT_SECONDS = 600.0
SAMPLE_SECONDS = 0.05
FORM = "%Y-%m-%d %H:%M:%S.%f UTC"
"""The moment in a status."""


class Machines:
    """A broker that is shipped, and standbys of it, in directories below `place`."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.away = place / "away"
        self.away.mkdir()
        self._settings = place / "leveret.toml"
        self._settings.write_text(f'[ship]\nto = "{self.away}"\n')
        self.broker = self._made(BrokerProcess(place / "broker", **_OPTIONS))
        self.started: list[BrokerProcess] = [self.broker]

    def standby(self) -> StandbyProcess:
        """Return a new standby, not started."""
        standby = StandbyProcess(self._place / f"standby-{len(self.started)}", **_OPTIONS)
        self._made(standby)
        self.started.append(standby)
        return standby

    def _made(self, process: BrokerProcess) -> BrokerProcess:
        process.options = ("--config", str(self._settings))
        return process

    def await_shipped(self) -> None:
        """Return when all that is on the broker's disk is at the place."""

        def nothing_waits() -> bool:
            state = self.broker.tell("status")["ship"]
            return bool(state["bases"]) and not state["lag_bytes"]

        eventually(nothing_waits, "all to be shipped", seconds=WAIT_SECONDS)


_OPTIONS: dict[str, Any] = {
    "environment": environment(),
    "own_group": True,
    "loaded_anew": True,
    "check_invariants": False,
}


@contextmanager
def machines() -> Iterator[Machines]:
    """A broker that runs and is shipped; killed at the end with its standbys, and all data removed."""
    place = Path(tempfile.mkdtemp(prefix="leveret-bench-"))
    made = Machines(place)
    made.broker.start()
    try:
        yield made
    finally:
        for process in made.started:
            if process.running:
                process.kill()
        shutil.rmtree(place)


def fill(made: Machines, mebibytes: float) -> None:
    """Publish that much, confirmed, into one queue, and ship it."""
    with closing(generator.connect(target_of(made.broker))) as client:
        for queue in ("held", "flow"):
            generator.declare(client, queue)
    generator.run(
        target_of(made.broker),
        key="held",
        producers=4,
        consumers=0,
        size=BODY_BYTES,
        window=100,
        count=int(mebibytes * MIB / BODY_BYTES),
        warm=0,
    )
    made.await_shipped()


def measure_restore(made: Machines) -> None:
    """Print the time of `leveret restore --from` into a new directory."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    directory = made.away.with_name("restored")
    command = [sys.executable, "-m", "broker", "restore", "--from", str(made.away), "--data-dir", str(directory)]
    code = os.spawnve(os.P_WAIT, sys.executable, command, environment())
    assert code == 0, f"the restore ended with {code}"
    taken, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    shipped = sum(path.stat().st_size for path in made.away.rglob("*") if path.is_file())
    print(f"restore of {shipped / MIB:,.0f} MiB of pieces: {taken:.1f} s, {cpu:.1f} s of CPU time", flush=True)
    shutil.rmtree(directory)


def measure_first_base(made: Machines, standby: StandbyProcess) -> None:
    """Print the time from a standby's start until it has everything."""
    began = time.perf_counter()
    standby.start()
    messages = _messages(made.broker)
    eventually(lambda: _messages(standby) == messages, "the standby to have all", seconds=WAIT_SECONDS)
    print(f"a standby has everything {time.perf_counter() - began:.1f} s after its start", flush=True)


def _messages(broker: BrokerProcess) -> int:
    with suppress(AdministrationError):
        return int(broker.tell("status")["totals"]["messages_ready"])
    return -1


def measure_lag(made: Machines, standby: StandbyProcess, rate: float, seconds: float) -> None:
    """Print how far the standby is behind a broker that takes `rate` MiB a second, and drains its queue."""
    load = generator.Load(
        target_of(made.broker),
        key="flow",
        queue="flow",
        producers=2,
        consumers=2,
        size=BODY_BYTES,
        window=1000,
        rate=rate * MIB / BODY_BYTES,
        seconds=seconds,
        warm=2,
    )
    lags, until = list[float](), time.monotonic() + seconds + 2
    while time.monotonic() < until:
        state = standby.tell("status")["standby"]
        lags.append(time.time() - datetime.strptime(state["moment"], FORM).replace(tzinfo=UTC).timestamp())
        time.sleep(SAMPLE_SECONDS)
    figures = load.figures()
    settled = sorted(lags[len(lags) // 5 :])
    p95 = settled[int(len(settled) * 0.95)]
    found = f"median {statistics.median(settled):.2f} s, p95 {p95:.2f} s, longest {settled[-1]:.2f} s"
    print(f"behind {rate:g} MiB/s: {found}; {figures['confirmed_per_s']:,.0f} messages/s", flush=True)


def measure_promotions(made: Machines, standby: StandbyProcess, times: int) -> None:
    """Print the time of promotions: each time the standby becomes the broker, and a new one follows it."""
    taken = list[float]()
    for _ in range(times):
        began = time.perf_counter()
        standby.tell("promote")
        standby.await_promoted()
        taken.append((time.perf_counter() - began) * 1000)
        made.broker.wait()
        made.broker = standby
        made.await_shipped()
        standby = made.standby()
        standby.start()
        messages = _messages(made.broker)
        eventually(lambda: _messages(standby) == messages, "the standby to have all", seconds=WAIT_SECONDS)  # noqa: B023
    found = f"median {statistics.median(taken):.0f} ms, shortest {min(taken):.0f} ms, longest {max(taken):.0f} ms"
    print(f"promotion: {found}, {times} times", flush=True)


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(prog="python -m bench.standby", description=__doc__)
    parser.add_argument("--mebibytes", type=float, default=1024, help="of messages that are restored")
    parser.add_argument("--rate", type=float, default=50, help="MiB a second that the standby follows")
    parser.add_argument("--seconds", type=float, default=30, help="for which it follows them")
    parser.add_argument("--promotions", type=int, default=5)
    given = parser.parse_args()
    with machines() as made:
        fill(made, given.mebibytes)
        measure_restore(made)
        standby = made.standby()
        measure_first_base(made, standby)
        measure_lag(made, standby, given.rate, given.seconds)
        measure_promotions(made, standby, given.promotions)


if __name__ == "__main__":
    main()
