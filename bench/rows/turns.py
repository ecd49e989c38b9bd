"""The longest turns of the broker during each attack of tests/security/hostile, in CPU time, and what they went to.

What a bad client costs others is one turn of his at a time. A latency says little of it on a machine that does other
things as well; the CPU time that the loop's thread takes for a turn says the same on any load. `bench/watched` measures
it inside the broker.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.load.measured_broker import Target, Wanted, own_broker, report, target_of
from bench.rows.attacks import attacking, named
from harness.attacks.attack_catalogue import ATTACKS
from harness.waiting import eventually

SECONDS = 4.0
LATER_SECONDS = 2.0
"""After the attack: what the ends of its connections take."""
WATCHED = Path(__file__).parent / "watched"
SHOWN = 4
LONG_MILLISECONDS = 5


def turns(wanted: Wanted) -> None:
    """Each attack against a broker of its own; TURNS_ONLY names some of them, separated by commas."""
    for name in named("TURNS_ONLY") or (ATTACKS if wanted.part >= 0.1 else list(ATTACKS)[-2:]):
        with tempfile.TemporaryDirectory(prefix="leveret-turns-") as directory:
            path = Path(directory) / "turns"
            with own_broker(**watched(path)) as broker:
                target = target_of(broker)
                longest(target, path)  # of the start, which is not of interest
                with attacking(target, name, wanted):
                    time.sleep(wanted.seconds(SECONDS))
                    under_way = longest(target, path)
                time.sleep(wanted.seconds(LATER_SECONDS))
                after = longest(target, path)
        _report(name, under_way)
        _report(f"{name}, afterwards", after)


def watched(path: Path) -> dict[str, str]:
    """The environment of a broker whose turns are measured; `longest` finds them in this file."""
    paths = os.pathsep.join([str(WATCHED), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"TURNS_FILE": str(path), "PYTHONPATH": paths}


def longest(target: Target, path: Path) -> dict[str, Any]:
    """Return the turns that the broker has seen since it was asked last."""
    os.kill(target.pid, signal.SIGRTMIN)
    eventually(path.exists, "the turns to be written")
    found: dict[str, Any] = json.loads(path.read_text())
    path.unlink()
    return found


def _report(name: str, found: dict[str, Any]) -> None:
    longest_ms = found["longest"][0]["ms"] if found["longest"] else 0.0
    long = sum(count for milliseconds, count in found["lengths"] if milliseconds >= LONG_MILLISECONDS)
    report(name, longest_ms=longest_ms, long_turns=long, turns=found["longest"][:SHOWN])
