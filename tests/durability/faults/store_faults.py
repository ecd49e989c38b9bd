"""Both stores on a failing disk, in a process: `python -m tests.durability.faults.store_faults DIRECTORY STORE`.

The process has the injector loaded and arms it for itself. For each kind of operation and error, and for each N from 1
to 50, a store is made, filled, and used with the Nth operation failing, counted from the first change or from the
opening. Prints a line of JSON for each column: its name, and how many of its faults were met. Exit code 1 when anything
is not as promised.
"""

from __future__ import annotations

import errno
import json
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from storage.definitions.definition_changes import (
    Change,
    Definitions,
    DeleteQueue,
    GlobalParameterRow,
    PutGlobalParameter,
    PutQueue,
    PutVhost,
    QueueRow,
    VhostRow,
)
from storage.definitions.definition_store import DefinitionsError, DefinitionStore
from storage.messages.message_store import MessageStore
from storage.messages.verify_messages import verify
from storage.storage_errors import StoreError, StoreFailed, StoreFull
from tests.durability.faults.injector import ANYTHING, KINDS, SHORT, Fault, OwnDisk
from tests.unit.storage.writing import Writer, bodies, clear_away

NTH_MAX = 50
AT_WORK = ("write", "sync")
"""The kinds of operations there are once a store is open."""
STEPS = 40
QUEUES = (1, 2, 3)

Contents = dict[int, list[bytes]]
Check = Callable[[Path, OwnDisk, Fault], bool]


def faults(kinds: Iterable[str]) -> Iterator[tuple[str, list[Fault]]]:
    """Every column by its name."""
    for kind in kinds:
        for error in (errno.EIO, errno.ENOSPC, *([SHORT] if kind == "write" else [])):
            for forever in (False, True) if error != SHORT else (False,):
                name = f"{kind} {errno.errorcode.get(error, 'short')} {'from then on' if forever else 'once'}"
                yield name, [Fault(kind, error, ANYTHING, nth, forever) for nth in range(1, NTH_MAX + 1)]


class Messages:
    """A message store, and what it must hold."""

    def __init__(self, path: Path) -> None:
        self.store = MessageStore.open(path)
        self._writer = Writer(self.store)
        self.held: Contents = defaultdict(list)
        self._positions: dict[bytes, int] = {}

    def change(self, number: int) -> Contents:
        """Gather changes: a few messages, and the end of others. What the store holds when they are committed."""
        after = defaultdict(list, {queue: list(found) for queue, found in self.held.items()})
        for queue in QUEUES:
            body = b"%d.%d " % (number, queue) + b"x" * (number % 5 * 3000)
            self._positions[body] = self._writer.put(queue, body)
            after[queue].append(body)
        if number % 3 == 0:
            body = b"%d shared " % number + b"y" * 10000
            for queue in QUEUES[:2]:
                self._writer.put(queue, body, body_id=number)
                after[queue].append(body)
        if number % 2 and len(after[1]) > 3:
            body = next(body for body in after[1] if b"shared" not in body)
            self._writer.settle(1, self._positions[body])
            after[1].remove(body)
        if number % 7 == 6:
            self._writer.purge(3)
            after[3] = []
        return after

    def contents(self) -> Contents:
        """What the store holds."""
        return {queue: bodies(self.store, queue) for queue in QUEUES}

    def expect(self, *allowed: Contents) -> None:
        """The store holds one of these."""
        found = self.contents()
        assert found in [{queue: each[queue] for queue in QUEUES} for each in allowed], "the contents are wrong"

    def commit(self, number: int, mend: Callable[[], object]) -> None:
        """One batch, tried again after a full disk. Raises StoreFailed."""
        after = self.change(number)
        sealed = self._writer.seal()
        for _ in range(2):
            try:
                self.store.commit(sealed)
                break
            except StoreFull:
                self.expect(self.held)
                mend()
            except StoreFailed:
                self.held = after  # or what it was: see who catches this
                raise
        else:
            raise AssertionError("full twice")
        self.held = after


def messages_at_work(path: Path, disk: OwnDisk, fault: Fault) -> bool:
    """Faults while batches are committed: each is there whole or not at all, and those before it are."""
    messages, met = Messages(path), [False]

    def mend() -> None:
        met[0] = disk.mend() or met[0]

    before: Contents = messages.held
    try:
        messages.commit(0, mend)
        disk.break_down(fault)
        for number in range(1, STEPS):
            before = messages.held
            messages.commit(number, mend)
            if number % 5 == 0:
                _reclaim(messages.store, mend)
        before = messages.held
    except StoreFailed as error:
        _expect_name(path, error)
    mend()
    messages.store.close()
    _expect_after_restart(path, before, messages.held)
    return met[0]


def _reclaim(store: MessageStore, mend: Callable[[], object]) -> None:
    try:
        clear_away(store)
    except StoreFull:
        mend()


def _expect_after_restart(path: Path, *allowed: Contents) -> None:
    again = Messages(path)
    again.expect(*allowed)
    again.held = defaultdict(list, again.contents())
    again.commit(1000, lambda: None)
    again.expect(again.held)
    again.store.close()
    assert verify(path).problems == []


def messages_at_the_start(path: Path, disk: OwnDisk, fault: Fault) -> bool:
    """Faults while a store is made or opened: it is refused, or works; the next time it is all there."""
    held: Contents = defaultdict(list)
    if fault.nth % 2 == 0:
        earlier = Messages(path)
        earlier.commit(1, lambda: None)
        held = earlier.held
        earlier.store.close()
    disk.break_down(fault)
    try:
        MessageStore.open(path).close()
    except StoreError as error:
        _expect_name(path.parent, error)
    met = disk.mend()
    _expect_after_restart(path, held)
    return met


def definitions_at_work(path: Path, disk: OwnDisk, fault: Fault) -> bool:
    """Faults while definitions are changed: a change is refused whole, the store goes on, others are kept."""
    store = DefinitionStore.open(path)
    store.commit([PutVhost(VhostRow("v"))])
    disk.break_down(fault)
    refused = after = 0
    made: list[int] = []
    for number in range(1, NTH_MAX + 2):
        try:
            store.commit(_changes(number))
            made.append(number)
        except DefinitionsError as error:
            _expect_name(path, error)
            assert _known(store.load()) == _sum(made), "half of a change was kept"
            refused += 1
        after += refused > 0
        if after == 3:
            break
    met = disk.mend() or refused > 0
    if fault.nth % 2:
        store.commit(_changes(NTH_MAX + 2))
        made.append(NTH_MAX + 2)
    store.close()
    with DefinitionStore.open(path) as again:
        assert _known(again.load()) == _sum(made)
    return met


def definitions_at_the_start(path: Path, disk: OwnDisk, fault: Fault) -> bool:
    """Faults while the file is made or opened."""
    made = [1] if fault.nth % 2 == 0 else []
    if made:
        with DefinitionStore.open(path) as earlier:
            earlier.commit([PutVhost(VhostRow("v")), *_changes(1)])
    disk.break_down(fault)
    try:
        DefinitionStore.open(path).close()
    except DefinitionsError as error:
        _expect_name(path, error)
    met = disk.mend()
    with DefinitionStore.open(path) as again:
        assert _known(again.load()) == _sum(made)
        again.commit([PutVhost(VhostRow("w"))])
    return met


def _changes(number: int) -> list[Change]:
    made: list[Change] = [PutQueue(QueueRow(number, "v", f"q{number}", False, b"a" * 500))]
    if number % 4 == 0:
        made.append(DeleteQueue(number - 1))
    if number % 5 == 0:
        made.append(PutGlobalParameter(GlobalParameterRow("big", str(number) * 5000)))
    return made


Known = tuple[set[int], frozenset[int], list[str]]
"""Ids of queues and of deleted ones, and the value of a parameter."""


def _known(found: Definitions) -> Known:
    return {row.id for row in found.queues}, found.tombstones, [row.value for row in found.global_parameters]


def _sum(made: Iterable[int]) -> Known:
    """What there is after some of the changes."""
    changes = [change for number in made for change in _changes(number)]
    deleted = {change.id for change in changes if isinstance(change, DeleteQueue)}
    queues = {change.row.id for change in changes if isinstance(change, PutQueue)}
    values = [change.row.value for change in changes if isinstance(change, PutGlobalParameter)]
    return queues - deleted, frozenset(deleted), values[-1:]


def _expect_name(path: Path, error: StoreError) -> None:
    """An error says which file it is about."""
    assert str(path) in str(error), error


CHECKS: dict[str, tuple[str, dict[str, Check]]] = {
    "messages": ("messages", {"start": messages_at_the_start, "work": messages_at_work}),
    "definitions": ("definitions.sqlite", {"start": definitions_at_the_start, "work": definitions_at_work}),
}


def main(directory: Path, store: str) -> None:
    """Every column of one store."""
    name, checks = CHECKS[store]
    disk, wrong = OwnDisk(), 0
    for when, check in checks.items():
        for column, each in faults(KINDS if when == "start" else AT_WORK):
            met, missed = 0, 0
            for fault in each:
                if missed == 2:  # odd and even ones are different: with two in a row there are no more
                    break
                place = directory / "place"
                place.mkdir()
                try:
                    reached = check(place / name, disk, fault)
                    met, missed = met + reached, 0 if reached else missed + 1
                except Exception as error:
                    disk.mend()
                    wrong += 1
                    print(f"{when}, {fault}: {type(error).__name__} {error}", file=sys.stderr)
                shutil.rmtree(place)
            print(json.dumps([f"{when}: {column}", met]), flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
