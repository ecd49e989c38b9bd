"""Records brokers that are shipped, and judges every prefix of their pieces.

`python -m tests.durability.shipped_states --minutes 5`. With `--record` a record is judged again that a failure has
left. The last line says what was tried.
"""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
import time
from pathlib import Path

from harness.campaign_options import campaign_parser, exit_on_sigterm, first_seed, numbered
from tests.durability.crash.explorer import Findings, shown
from tests.durability.crash.recording.recorder import Recording
from tests.durability.shipped_states.shipped_explorer import HARMED, explore
from tests.durability.shipped_states.shipped_record import record_shipped
from tests.planted.planted_catalogue import plant_here

KEPT = Path("shipped-states")


def main() -> None:
    """Run the rounds, or explore one record; exit with 1 when one has failed, and keep its record."""
    parser = campaign_parser("tests.durability.shipped_states", __doc__, rounds=3)
    parser.add_argument("--record", type=Path, help="explore this record instead")
    parser.add_argument("--stride", type=int, default=1, help="judge one prefix of so many")
    parser.add_argument("--harmed", type=int, default=HARMED, help="places with one harmed piece for each record")
    parser.add_argument("--until", metavar="SYMPTOM", help="end at the first failure that has this regular expression")
    options = parser.parse_args()
    exit_on_sigterm()
    logging.disable(logging.WARNING)  # each restored place is a new timeline, and says so
    if options.record is not None:
        recording = Recording(options.record)
        if recording.about.planted:
            plant_here(recording.about.planted)  # of the broker, or of what reads the place
        found = explore(recording, stride=options.stride, count=options.harmed, until=options.until)
        print(shown(found))
        return
    begun, rounds, total = time.monotonic(), 0, Findings(0, 0, 0, [])
    for seed in numbered(options, first_seed(options)):
        findings = _round(seed, options.stride, options.harmed)
        rounds, total = rounds + 1, _sum(total, findings)
    print(
        f"{total.states:,} places of {rounds} records restored in {time.monotonic() - begun:.0f} s, judged "
        f"{total.judged:,} times: {total.instants:,} pieces, each prefix as promised"
    )


def _round(seed: int, stride: int, count: int) -> Findings:
    directory = Path(tempfile.mkdtemp(prefix="leveret-shipped-record-"))
    recording = record_shipped(directory / "record", seed)
    findings = explore(recording, stride=stride, count=count)
    if findings.failed:
        kept = recording.keep(KEPT / f"broker-{seed}")
        for failure in findings.failures:
            print(f"{failure.place}: {failure.problem}", flush=True)
        print(f"python -m tests.durability.shipped_states --record {kept.home}", flush=True)
    shutil.rmtree(directory)
    if findings.failed:
        sys.exit(1)
    return findings


def _sum(one: Findings, other: Findings) -> Findings:
    return Findings(
        one.states + other.states,
        one.judged + other.judged,
        0,
        [],
        one.instants + other.instants,
    )


if __name__ == "__main__":
    main()
