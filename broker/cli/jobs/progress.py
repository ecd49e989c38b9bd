"""A progress bar on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def progress(label: str, expected: int, *, counts: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal, moved by calling what this gives with how much is done in all; `counts` shows numbers.

    Where more is done than was expected, the expectation grows.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=expected, label=label, file=sys.stderr, show_pos=counts) as bar:

        def tell(done: int) -> None:
            bar.length = max(expected, done)
            bar.update(done - bar.pos)

        yield tell
