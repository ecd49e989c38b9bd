"""Hours of mixed load at a moderate rate: does anything grow, slow down, get lost?

`python -m bench.soak.soak --minutes 60` starts a broker, loads it with bench/soak/mixture.py and bench/rows/churn.py,
and looks at it every ten seconds (oftener in a short run): memory, descriptors, threads, files, confirm latencies, CPU
time. All samples go to a CSV. At the end, or at ^C, a table holds the beginning (minutes 2 to 5 of an hour, in
proportion else) against the last twelfth, and every message's account is closed: lost, doubled, out of order must be 0.
"""

from __future__ import annotations

import argparse
import csv
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

from bench.load.measured_broker import Target, Wanted, mib, own_broker, report, target_of
from bench.rows.churn import Churn
from bench.soak.accounts import Account
from bench.soak.mixture import BACKLOG_SECONDS, Mixture
from harness.process_figures import allow_open_files, cpu_seconds, own_memory, resident_memory

HOUR_SECONDS = 3600.0
SAMPLE_SECONDS = 10.0
SAMPLES_AT_LEAST = 120
DRAIN_SECONDS = 60.0
PROGRESS_SECONDS = 30.0
START, END = (2 / 60, 5 / 60), (55 / 60, 1.0)
"""Parts of the run that are compared."""


@dataclass(frozen=True)
class Sample:
    """The broker at one moment; rates, latencies and CPU since the sample before."""

    seconds: float
    published_per_s: float
    outstanding: int
    confirm_p50_ms: float
    confirm_p99_ms: float
    cpu_cores: float
    rss_anon_mib: float
    rss_mib: float
    descriptors: int
    threads: int
    messages_file_mib: float
    definitions_file_mib: float


class Observer:
    """Takes samples of a broker and its load."""

    def __init__(self, target: Target, data: Path, mixture: Mixture) -> None:
        self._pid = target.pid
        self._data = data
        self._mixture = mixture
        self._began = self._last = time.monotonic()
        self._cpu = cpu_seconds(self._pid)
        self._published = 0

    def sample(self) -> Sample:
        """Look at everything now."""
        now, cpu, published = time.monotonic(), cpu_seconds(self._pid), self._mixture.published
        elapsed = now - self._last
        p50, p99 = self._mixture.latencies.take()
        process = Path(f"/proc/{self._pid}")
        found = Sample(
            seconds=round(now - self._began, 1),
            published_per_s=round((published - self._published) / elapsed, 1),
            outstanding=self._mixture.outstanding,
            confirm_p50_ms=p50,
            confirm_p99_ms=p99,
            cpu_cores=round((cpu - self._cpu) / elapsed, 3),
            rss_anon_mib=mib(own_memory(self._pid)),
            rss_mib=mib(resident_memory(self._pid)),
            descriptors=len(list((process / "fd").iterdir())),
            threads=len(list((process / "task").iterdir())),
            messages_file_mib=mib(_bytes_on_disk(self._data, "messages*")),
            definitions_file_mib=mib(_bytes_on_disk(self._data, "definitions*")),
        )
        self._last, self._cpu, self._published = now, cpu, published
        return found


def _bytes_on_disk(directory: Path, pattern: str) -> int:
    """Blocks of all files, and of those in directories, that are called so."""
    places = [file for path in directory.glob(pattern) for file in (path.rglob("*") if path.is_dir() else (path,))]
    return sum(file.stat().st_blocks * 512 for file in places)


@dataclass
class Outcome:
    """The result of a run."""

    samples: list[Sample]
    accounts: list[Account]
    published: int
    unconfirmed: int
    connections: int
    churned: int
    failure: BaseException | None

    @property
    def lost(self) -> int:
        """Messages that never came."""
        return sum(len(account.outstanding) for account in self.accounts)

    @property
    def doubled(self) -> int:
        """Messages that came again after their acknowledgement."""
        return sum(account.doubled for account in self.accounts)

    @property
    def disordered(self) -> int:
        """Messages that came after later ones."""
        return sum(account.disordered for account in self.accounts)

    @property
    def sound(self) -> bool:
        """All came, once, in order, confirmed."""
        return not (self.lost or self.doubled or self.disordered or self.unconfirmed or self.failure)


def endure(seconds: float, each: Callable[[Sample], None]) -> Outcome:
    """Run the load for `seconds` against a broker of this checkout; `each` is shown every sample."""
    allow_open_files()
    interval = min(SAMPLE_SECONDS, seconds / SAMPLES_AT_LEAST)
    with own_broker() as broker:
        target = target_of(broker)
        mixture = Mixture(target, max(0.2, BACKLOG_SECONDS * min(1.0, seconds / HOUR_SECONDS)))
        churn = Churn(target)
        observer = Observer(target, broker.data_dir, mixture)
        samples: list[Sample] = []
        began = time.monotonic()
        churn.start()
        with _stopped_by_interrupt(mixture):
            while (now := time.monotonic()) < began + seconds and not mixture.stopping and churn.failure is None:
                mixture.run(min(now + interval, began + seconds))
                samples.append(observer.sample())
                each(samples[-1])
        churn.stop()
        mixture.drain(time.monotonic() + DRAIN_SECONDS)
        outcome = Outcome(
            samples,
            list(mixture.accounts.values()),
            mixture.published,
            mixture.unconfirmed,
            mixture.connections,
            churn.rounds,
            churn.failure,
        )
        mixture.close()
        broker.stop()
    return outcome


@contextmanager
def _stopped_by_interrupt(mixture: Mixture) -> Iterator[None]:
    """^C ends the load between two messages, so that accounts can be closed; a second one ends everything."""

    def stop(_number: int, _frame: object) -> None:
        mixture.stopping = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def between(samples: Sequence[Sample], part: tuple[float, float], seconds: float) -> list[Sample]:
    """The samples of a part of the run; the last one if there is none."""
    first, last = (bound * seconds for bound in part)
    return [sample for sample in samples if first < sample.seconds <= last + 1] or list(samples[-1:])


def table(outcome: Outcome) -> dict[str, tuple[float, float]]:
    """Medians at the beginning and at the end, for each figure."""
    ran = outcome.samples[-1].seconds
    start, end = (between(outcome.samples, part, ran) for part in (START, END))
    names = [field.name for field in fields(Sample) if field.name != "seconds"]
    return {name: (median(getattr(s, name) for s in start), median(getattr(s, name) for s in end)) for name in names}


def soak(wanted: Wanted) -> None:
    """The row: an hour, shrunk by the part."""
    outcome = endure(max(2.0, wanted.seconds(HOUR_SECONDS)), lambda sample: None)
    for name, (start, end) in table(outcome).items():
        report("soak", what=name, start=start, end=end)
    report("soak", **_said(outcome))
    if not outcome.sound:
        raise SystemExit("messages were lost, doubled or out of order")


def _said(outcome: Outcome) -> dict[str, Any]:
    return {
        "published": outcome.published,
        "lost": outcome.lost,
        "doubled": outcome.doubled,
        "disordered": outcome.disordered,
        "unconfirmed": outcome.unconfirmed,
        "connections": outcome.connections,
        "churned": outcome.churned,
        "sound": outcome.sound,
    }


def _show(outcome: Outcome) -> None:
    print(f"\n{'':24}{'start':>12}{'end':>12}{'growth':>10}")
    for name, (start, end) in table(outcome).items():
        growth = f"{(end - start) / start:+.1%}" if start else ""
        print(f"{name:24}{start:12,.2f}{end:12,.2f}{growth:>10}")
    print()
    for name, value in _said(outcome).items():
        print(f"{name:24}{value:>12,}")
    for account in outcome.accounts:
        if account.outstanding or account.doubled or account.disordered:
            print(
                f"{account.name}: {len(account.outstanding)} lost, {account.doubled} doubled, {account.disordered} late"
            )
    if outcome.failure is not None:
        print(f"the churn ended with {outcome.failure!r}")


def main() -> None:
    """Run, print a line now and then, write the CSV, print the table; exit with 1 if a message is amiss."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak.soak", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--csv", type=Path, default=Path("build/soak.csv"), help="where all samples go")
    options = parser.parse_args()
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    with options.csv.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Sample)])
        writer.writeheader()

        told = [0.0]

        def each(sample: Sample) -> None:
            writer.writerow(asdict(sample))
            file.flush()
            if sample.seconds >= told[0]:
                told[0] = sample.seconds + PROGRESS_SECONDS
                print(
                    f"{sample.seconds:6.0f} s  {sample.published_per_s:6.0f}/s  p50 {sample.confirm_p50_ms:5.2f} ms"
                    f"  p99 {sample.confirm_p99_ms:6.2f} ms  {sample.cpu_cores:4.2f} cores"
                    f"  RssAnon {sample.rss_anon_mib:6.1f} MiB  files {sample.messages_file_mib:6.1f} MiB",
                    flush=True,
                )

        outcome = endure(options.minutes * 60, each)
    _show(outcome)
    sys.exit(not outcome.sound)


if __name__ == "__main__":
    main()
