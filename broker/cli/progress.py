"""A progress bar on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def progress(label: str, expected: int, *, counts: bool = False) -> Iterator[Callable[[int], None]]:
    """Tell it how much has been done in all. It grows when that is more than was expected; `counts` shows both."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=expected, label=label, file=sys.stderr, show_pos=counts) as bar:

        def tell(done: int) -> None:
            bar.length = max(expected, done)
            bar.update(done - bar.pos)

        yield tell
