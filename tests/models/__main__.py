"""Walk the models, round after round: `python -m tests.models --minutes 10`.

A round is a walk of each model, all of one seed; the tests have a few of these walks. A failure prints what was found
and the command that repeats it. The last line says what was tried.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import repeat
from pathlib import Path

import trio

from broker.admin.json_input import json_reader
from harness.campaign_options import campaign_parser, exit_on_sigterm, first_seed, numbered
from tests.models import (
    test_limits_model,
    test_policies_model,
    test_queue_model,
    test_quorum_model,
    test_store_model,
)
from tests.unit.admin import test_json_input
from tests.unit.channel import test_delivery_ledger
from tests.unit.storage import test_free_pages


def walk_free_pages(seed: int) -> None:
    """A walk over the free pages of an LMDB file."""
    with tempfile.TemporaryDirectory() as directory:
        test_free_pages.walk(Path(directory), seed)


def walk_json(seed: int) -> None:
    """Texts of JSON, through a window that is smaller than many of their strings."""
    usual, json_reader.WINDOW_BYTES = json_reader.WINDOW_BYTES, test_json_input.SMALL_WINDOW_BYTES
    try:
        trio.run(test_json_input.walk, seed, 200)
    finally:
        json_reader.WINDOW_BYTES = usual


WALKS: dict[str, Callable[[int], None]] = {
    "queue": partial(test_queue_model.walk, steps=1200),
    "priorities": partial(test_queue_model.walk, steps=1200, priorities=True),
    "quorum": partial(test_quorum_model.walk, steps=1200, delaying=False),
    "delayed retry": partial(test_quorum_model.walk, steps=1200, delaying=True),
    "limits": partial(test_limits_model.walk, steps=400),
    "policies": test_policies_model.walk,
    "store": test_store_model.walk,
    "free pages": walk_free_pages,
    "delivery ledger": test_delivery_ledger.walk,
    "JSON": walk_json,
}


def problem(name: str, seed: int) -> str:
    """Return what a walk finds, and the command that repeats it; nothing if all is as it should be."""
    try:
        WALKS[name](seed)
    except Exception:
        return f"{traceback.format_exc()}python -m tests.models --walk '{name}' --seed {seed} --rounds 1"
    return ""


def main() -> None:
    """Run the rounds; exit with 1 when a walk has failed."""
    parser = campaign_parser("tests.models", __doc__, rounds=20)
    parser.add_argument("--walk", choices=WALKS, help="the walk of one model; all of them if not given")
    options = parser.parse_args()
    exit_on_sigterm()
    names = list(WALKS) if options.walk is None else [options.walk]
    begun, walks = time.monotonic(), 0
    with ProcessPoolExecutor() as pool:
        for seed in numbered(options, first_seed(options)):
            problems = list(filter(None, pool.map(problem, names, repeat(seed))))
            walks += len(names)
            print(f"seed {seed}: {len(problems)} of {len(names)} walks failed", flush=True)
            if problems:
                sys.exit("\n".join([*problems, summary(walks, begun)]))
    print(summary(walks, begun))


def summary(walks: int, begun: float) -> str:
    """Return a line on what was tried."""
    return f"{walks:,} walks of {len(WALKS)} models in {time.monotonic() - begun:.0f} s"


if __name__ == "__main__":
    main()
