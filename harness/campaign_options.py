"""Command line of a campaign: its rounds or minutes, its first seed, and an end on SIGTERM that leaves nothing."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from collections.abc import Iterator

from harness.waiting import begun_within

SEEDS = 1 << 32


def campaign_parser(
    module: str, description: str | None, *, rounds: int, unit: str = "rounds"
) -> argparse.ArgumentParser:
    """Return a parser with `--rounds` (or another unit), `--minutes` and `--seed`."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    often = parser.add_mutually_exclusive_group()
    often.add_argument(f"--{unit}", dest="rounds", metavar="N", type=int, default=rounds, help=f"{rounds} if not given")
    often.add_argument("--minutes", type=float, help=f"{unit} begun within this time, instead of --{unit}")
    parser.add_argument("--seed", type=int, help="repeats what is drawn; random if not given")
    return parser


def first_seed(options: argparse.Namespace) -> int:
    """Return the seed asked for, or draw one."""
    return secrets.randbelow(SEEDS) if options.seed is None else int(options.seed)


def numbered(options: argparse.Namespace, first: int = 1) -> Iterator[int]:
    """Return the numbers of the rounds asked for, from `first` on."""
    if options.minutes is not None:
        return begun_within(options.minutes, first)
    return iter(range(first, first + options.rounds))


def exit_on_sigterm() -> None:
    """Have SIGTERM end the process in order, so that no broker and no file system is left."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
