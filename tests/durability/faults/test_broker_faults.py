"""The real broker on a disk that fails: it goes on, or it ends and says why, and what it has promised is there.

A share of the matrix that `make disk-faults` goes through whole.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durability.faults.injector import ANYTHING, DEFINITIONS, JOURNAL, KINDS, LMDB, MESSAGES, SHORT, Fault
from tests.durability.faults.life import Ending, live

pytestmark = pytest.mark.slow

EIO, ENOSPC = errno.EIO, errno.ENOSPC


def at_work() -> Iterator[Fault]:
    """Faults while clients publish, consume and declare."""
    for files in (LMDB, DEFINITIONS):
        yield Fault("write", EIO, files, 1)
        yield Fault("write", SHORT, files, 1)
        yield Fault("write", ENOSPC, files, 1, forever=True)
        yield Fault("sync", EIO, files, 2)
    yield Fault("write", EIO, DEFINITIONS, 4, forever=True)
    yield Fault("sync", ENOSPC, LMDB, 3)
    yield Fault("sync", EIO, JOURNAL, 3)
    yield Fault("sync", ENOSPC, JOURNAL, 2)
    yield Fault("sync", EIO, MESSAGES, 3, forever=True)


def at_start() -> Iterator[Fault]:
    """Faults while a broker starts, once and from then on: names for both stores at once, which take turns."""
    for kind in KINDS:
        for files in (MESSAGES, DEFINITIONS) if kind in ("write", "sync") else (ANYTHING,):
            yield Fault(kind, EIO, files, 1)
    yield Fault("write", ENOSPC, ANYTHING, 2, forever=True)
    yield Fault("open", ENOSPC, ANYTHING, 2, forever=True)


def sound(ending: Ending) -> Ending:
    assert ending.problems == [], str(ending)
    return ending


@pytest.mark.parametrize("fault", list(at_work()), ids=str)
def test_a_fault_at_work(fault: Fault, place: Path, injector: Path) -> None:
    """I6. A failed sync of LMDB ends the broker, a failed write does not, a change of definitions is refused.

    Without a journal that can be written, LMDB is written and synced at once.
    """
    ending = sound(live(place / "life", injector, fault, "work"))
    assert ending.met
    ends = fault.files in (LMDB, MESSAGES) and fault.kind == "sync"
    assert bool(ending.line) == ends, str(ending)
    assert fault.files == DEFINITIONS or not ending.refused, str(ending)
    assert ending.refused or fault.files != DEFINITIONS or not fault.forever, str(ending)


@pytest.mark.parametrize("when", ["creation", "start"])
@pytest.mark.parametrize("fault", list(at_start()), ids=str)
def test_a_fault_at_the_start(fault: Fault, when: str, place: Path, injector: Path) -> None:
    sound(live(place / "life", injector, fault, when))
