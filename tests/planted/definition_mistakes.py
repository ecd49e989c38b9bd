"""Mistakes in what becomes of definitions: what is answered before it is written, and what is not synced."""

from __future__ import annotations

from collections.abc import Callable

from broker.entities.scheduling.future import Future
from broker.server.definition_writer import DefinitionLog
from storage.definitions.definition_changes import Change, PutBinding, PutExchange, PutQueue
from storage.definitions.definition_store import DefinitionStore
from tests.planted.mistake import BrokerCrashes, Mistake, Patch, Simulation

DECLARATIONS = (PutBinding, PutExchange, PutQueue)


def declare_ok_before_commit(patch: Patch) -> None:
    """Answer declarations and bindings at once, and write them then."""
    write = DefinitionLog.write

    def write_later(log: DefinitionLog, *changes: Change) -> Future[None]:
        pending = write(log, *changes)
        return Future.resolved(None) if all(isinstance(change, DECLARATIONS) for change in changes) else pending

    patch(DefinitionLog, "write", write_later)


def delete_ok_before_commit(patch: Patch) -> None:
    """Answer deletions and unbindings at once, and write them then."""
    erase = DefinitionLog.erase

    def erase_later(log: DefinitionLog, *deletions: Change, gone: Callable[[], None] | None = None) -> Future[None]:
        erase(log, *deletions, gone=gone)
        return Future.resolved(None)

    patch(DefinitionLog, "erase", erase_later)


def definitions_in_normal_mode(patch: Patch) -> None:
    """Have SQLite sync its log only when it is moved into the file."""
    connect = DefinitionStore._connect

    async def connect_and_relax(store: DefinitionStore) -> None:
        await connect(store)
        await store._rows("PRAGMA synchronous = NORMAL")

    patch(DefinitionStore, "_connect", connect_and_relax)


MISTAKES = {
    "declare-ok before commit": Mistake(
        "I5", declare_ok_before_commit, (BrokerCrashes(r"is None, not \[True", (6,)), Simulation(3))
    ),
    "delete-ok before commit": Mistake("I5", delete_ok_before_commit, (BrokerCrashes(r"not \[None\]", (6,)),)),
    "definitions in normal mode": Mistake(
        "I5", definitions_in_normal_mode, (BrokerCrashes(r"is None, not \[True", (6,)),)
    ),
}
