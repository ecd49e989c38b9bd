"""The import of definitions. As in RabbitMQ, existing exchanges and queues stay, and all else is as the file says.

Everything is checked before the first change. Users, virtual hosts, permissions, limits, and what only the store
knows are written in one transaction; then exchanges and queues are declared, and bindings made last. That transaction
also says which those will be, so that a start can finish an import that a crash has cut short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any

from broker.admin.administration import Administration
from broker.admin.apply_changes import KINDS
from broker.admin.definitions import unfinished_import
from broker.admin.definitions.definitions_check import check
from broker.admin.definitions.definitions_file import DECLARED, ENTRIES, DefinitionsFile, convert_in_steps
from broker.admin.kinds.topology_entries import bind, declare_exchanges, declare_queues
from broker.admin.kinds.vhost_kind import set_tracing
from broker.admin.protocol import AdministrationError
from broker.admin.short_steps import in_steps
from broker.entities.node.broker import Broker
from broker.entities.scheduling.future import Future
from storage.definitions.definition_rows import TABLES, Definitions, Delete, Put, SetMetadata


async def import_definitions(administration: Administration, definitions: object, vhost: str | None) -> dict[str, int]:
    """Import definitions: all of them, or into a `vhost` what belongs there. Returns the number of changes by kind.

    A DefinitionsFile was moved into the virtual host when it was read.
    """
    vhost = None if vhost is None else administration.vhost(vhost).name
    if not isinstance(definitions, DefinitionsFile):
        definitions = await convert_in_steps(definitions, vhost)
    return await add(administration, definitions)


async def resume(administration: Administration, unfinished: bytes) -> dict[str, int]:
    """Finish an import that a crash cut short. Raises AdministrationError if it no longer fits, and gives it up."""
    try:
        return await add(administration, unfinished_import.unpacked(unfinished))
    except AdministrationError:
        await administration.change(_over())
        raise


async def add(administration: Administration, file: DefinitionsFile) -> dict[str, int]:
    """Import a file. Returns the number of changes by kind.

    Raises AdministrationError `invalid`, having changed nothing.
    """
    await check(administration.broker, file)
    stored = await administration.definitions.load()
    broker, by = administration.broker, administration.by
    changes = await _needed(_changes(file, broker), stored)
    rest = await _left_to_do(file)
    await administration.change(*changes, *rest)
    await _set_tracing(broker, file)
    created = Counter(
        TABLES[change.kind if isinstance(change, Delete) else type(change.row)].name for change in changes
    )
    try:
        created["exchanges"] = await _all(administration, declare_exchanges(broker, file.exchanges, by))
        created["queues"] = await _all(administration, declare_queues(broker, file.queues, by))
        created["bindings"] = await _all(administration, bind(broker, file.bindings, by))
    except Exception:  # only a broker that ends leaves the rest to the next start
        await administration.change(_over())
        raise
    if rest:
        await administration.change(_over())
    return dict(created)


async def _left_to_do(file: DefinitionsFile) -> list[SetMetadata]:
    """Return the change that notes what is left to do after the first transaction; it has no passwords."""
    kept = await unfinished_import.packed(file)
    return [SetMetadata(unfinished_import.NAME, kept)] if kept else []


async def _set_tracing(broker: Broker, file: DefinitionsFile) -> None:
    async with aclosing(in_steps(file.vhosts)) as vhosts:
        async for entry in vhosts:
            if entry.tracing is not None:
                set_tracing(broker.vhosts[entry.name], on=entry.tracing)


def _over() -> SetMetadata:
    return SetMetadata(unfinished_import.NAME, b"")


TOGETHER = 500
"""Exchanges, queues or bindings that are made in one transaction, and so appear in one step."""


async def _all(administration: Administration, futures: AsyncGenerator[Future[Any]]) -> int:
    """Begin changes, and wait until they are written, TOGETHER at a time. Returns their number."""
    begun, count = list[Future[Any]](), 0
    async with aclosing(futures):
        async for future in futures:
            begun.append(future)
            count += 1
            if len(begun) == TOGETHER:
                await _settled(administration, begun)
    await _settled(administration, begun)
    return count


async def _settled(administration: Administration, begun: list[Future[Any]]) -> None:
    while begun:
        await administration.settled(begun.pop())


# Changes of the store


def _changes(file: DefinitionsFile, broker: Broker) -> Iterator[Put | Delete]:
    """Yield the changes of all entries but those to be declared: those first that others refer to, as in the file."""
    for section in ENTRIES:
        if section == "users":
            for user in file.users:
                yield from user.of_version(file.rabbit_version).changes(broker)
        elif section not in DECLARED:
            for entry in getattr(file, section):
                yield from entry.changes(broker)


async def _needed(changes: Iterable[Put | Delete], stored: Definitions) -> list[Put | Delete]:
    """Return the changes that change something; of several of one row the last."""
    known = {_identity(Put(row)): row for kind in KINDS async for row in in_steps(getattr(stored, TABLES[kind].name))}
    wanted = {_identity(change): change async for change in in_steps(changes)}
    return [
        change
        async for identity, change in in_steps(wanted.items())
        if isinstance(change, Delete) or known.get(identity) != change.row
    ]


def _identity(change: Put | Delete) -> tuple[object, ...]:
    if isinstance(change, Delete):
        return change.kind, *(change.key[name] for name in TABLES[change.kind].key)
    row = change.row
    return type(row), *(getattr(row, name) for name in TABLES[type(row)].key)


# The log line


def in_words(made: Mapping[str, int]) -> str:
    """Return how many entries of each kind an import has made or changed: `2 vhosts, 1 user`."""
    return ", ".join(f"{count} {_noun(kind, count)}" for kind, count in made.items() if count) or "nothing is new"


def _noun(kind: str, count: int) -> str:
    words = kind.replace("_", " ")
    if count != 1:
        return words
    return f"{words[:-3]}y" if words.endswith("ies") else words[:-1]
