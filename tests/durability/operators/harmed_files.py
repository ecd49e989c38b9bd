"""Files that are missing, empty, cut, zeroed, of an older moment, of another store, or closed to the broker."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.durability.operators.operated_store import Harm, OperatedStore
from tests.durability.operators.operator_step import Scene, Step

PAGE_BYTES = 4096
NOBODY = 65534
JOURNAL = ("messages/journal", "messages/journal.end")
FILES = (
    *("messages/data.mdb", *JOURNAL, "messages/ballast", "messages/lock.mdb"),
    *("definitions.sqlite", "definitions.sqlite-wal", "definitions.sqlite-shm"),
    *("messages.lock", "broker.lock", "command.lock"),
)
READ_ONLY = 0o400
WEIGHTS = {"messages/journal": 3, "messages/journal.end": 2}
"""Relative frequency of harm to a file; 1 for the others."""
STORES = ("data.mdb", "messages belongs to other definitions", "journal", "definitions.sqlite")
"""Words of which a refusal may have one if one file is of another moment than the others."""
TAKES_NO_ROOM = ("missing", "empty", "cut", "closed")
"""Kinds of harm that a full disk allows."""


class Place(NamedTuple):
    """A file of a store, and what draws how it is harmed."""

    store: OperatedStore
    name: str
    dice: random.Random

    @property
    def path(self) -> Path:
        return self.store.data / self.name

    @property
    def size(self) -> int:
        return self.path.stat().st_size


Harming = Callable[[Place], str]
"""Harms a file, and says how; empty where there is nothing to harm."""


def missing(place: Place) -> str:
    """It is gone."""
    place.path.unlink()
    return "missing"


def empty(place: Place) -> str:
    """It has no bytes."""
    os.truncate(place.path, 0)
    return "empty"


def cut(place: Place) -> str:
    """It ends at any of its pages, or in the midst of one."""
    pages = place.size // PAGE_BYTES
    if not pages:
        return ""
    size = place.dice.randrange(pages) * PAGE_BYTES + place.dice.choice((0, 0, 512))
    os.truncate(place.path, size)
    return f"cut to {size} bytes"


def zeroed(place: Place) -> str:
    """It has nothing but zeros."""
    _overwrite(place.path, 0, bytes(place.size))
    return "zeroed"


def page_zeroed(place: Place) -> str:
    """One page of the journal is zeros; of the stores a page may cost messages, each of which is logged."""
    if place.name != JOURNAL[0] or not place.size or place.store.machine_crashed:  # which may have left the same
        return ""
    page = place.dice.choice(list(_pages_in_use(place.path)) or [0])
    _overwrite(place.path, page * PAGE_BYTES, bytes(PAGE_BYTES))
    return f"page {page} zeroed"


def flipped(place: Place) -> str:
    """One bit of a page of the journal is another."""
    if place.name != JOURNAL[0] or not place.size or place.store.machine_crashed:
        return ""
    page = place.dice.choice(list(_pages_in_use(place.path)) or [0])
    at = page * PAGE_BYTES + place.dice.randrange(60)
    with place.path.open("rb") as file:
        file.seek(at)
        byte = file.read(1)
    _overwrite(place.path, at, bytes([byte[0] ^ 1 << place.dice.randrange(8)]))
    return f"a bit changed at byte {at}"


def older(place: Place) -> str:
    """It is as it was at an earlier moment of the same directory.

    Not the journal, or its end, after a crash of the machine: what the machine has lost by that, and what somebody
    has put back, cannot be told apart by anything that is on the disk.
    """
    if place.store.machine_crashed and place.name in JOURNAL:
        return ""
    copies = [copy / place.name for copy in place.store.earlier if (copy / place.name).is_file()]
    return _replaced(place, place.dice.choice(copies), "of an older moment") if copies else ""


def of_another(place: Place) -> str:
    """It is another store's."""
    theirs = place.store.another() / place.name
    return _replaced(place, theirs, "another store's") if theirs.is_file() else ""


def _replaced(place: Place, by: Path, how: str) -> str:
    if by.read_bytes() == place.path.read_bytes():
        return ""
    shutil.copyfile(by, place.path)
    return how


def closed(place: Place) -> str:
    """It may not be written, or is another user's."""
    if os.geteuid() == 0 and place.dice.random() < 0.5:
        os.chown(place.path, NOBODY, NOBODY)
        return "owned by another user"
    place.path.chmod(READ_ONLY)
    return "read-only"


HARMS: dict[str, tuple[int, Harming, tuple[str, ...]]] = {
    "missing": (4, missing, ()),
    "empty": (3, empty, ()),
    "cut": (4, cut, ()),
    "zeroed": (3, zeroed, ()),
    "a page zeroed": (3, page_zeroed, ()),
    "a bit changed": (2, flipped, ()),
    "older": (4, older, STORES),
    "another's": (3, of_another, STORES),
    "closed": (2, closed, ("messages", "data")),
}
"""Ways to harm a file, how often each is drawn in comparison, and what a line may name beside the file."""


def harm(kind: str, file: str = "") -> Callable[[Scene], None]:
    """Harm one file of the directory in a way: this one, or any, the journal most often."""
    _weight, harming, also = HARMS[kind]

    def do(scene: Scene) -> None:
        store, dice = scene.store, scene.dice
        names = [file] if file else _files(store)
        there = [name for name in names if (store.data / name).is_file()]
        if not there or (store.full and kind not in TAKES_NO_ROOM):
            return
        (name,) = dice.choices(there, [WEIGHTS.get(name, 1) for name in there])
        undo = _undo(store, name)
        how = harming(Place(store, name, dice))
        if how:
            store.tell(f"{name} is {how}")
            shown = (name.rpartition("/")[2], *also)
            store.harms.append(Harm(f"{name} is {how}", shown, undo, of_journal=name in JOURNAL))

    return do


def _undo(store: OperatedStore, name: str) -> Callable[[], None]:
    """Keep a file, to put it back later, with its mode and owner."""
    kept, owner = store.home / f"kept-{store.number()}", (store.data / name).stat()
    shutil.copy2(store.data / name, kept)

    def put_back() -> None:
        target = store.data / name
        target.unlink(missing_ok=True)
        shutil.copy2(kept, target)
        if os.geteuid() == 0:
            os.chown(target, owner.st_uid, owner.st_gid)

    return put_back


def _files(store: OperatedStore) -> Iterator[str]:
    yield from FILES
    yield from sorted(str(path.relative_to(store.data)) for path in (store.data / "events").glob("*"))[-2:]


def _pages_in_use(path: Path) -> Iterator[int]:
    """The pages of the journal that have anything in them."""
    data = path.read_bytes()
    for page in range(len(data) // PAGE_BYTES):
        if any(data[page * PAGE_BYTES : page * PAGE_BYTES + 4]):
            yield page


def _overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("rb+") as file:
        file.seek(at)
        file.write(data)


def has_files(store: OperatedStore) -> bool:
    """A broker has run on the directory."""
    return (store.data / "messages").is_dir()


STEPS = [Step(f"a file {kind}", weight, harm(kind), has_files) for kind, (weight, _, _) in HARMS.items()]
OF_ONE = [Step(f"{file} {kind}", 0, harm(kind, file), has_files) for kind in HARMS for file in FILES]
"""The same for a file of one's choice: to be named, never drawn."""
