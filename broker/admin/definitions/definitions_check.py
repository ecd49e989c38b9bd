"""Checks of definitions before the first change: of each entry, and of what entries refer to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from functools import partial

from broker.admin.definitions.definitions_file import DefinitionsFile
from broker.admin.json_tables import table
from broker.admin.kinds.definition_entry import DefinitionEntry
from broker.admin.kinds.topology_entries import BindingEntry, ExchangeEntry, QueueEntry, new_router
from broker.admin.kinds.values import NAME_BYTES_MAX
from broker.admin.protocol import AdministrationError, invalid
from broker.admin.short_steps import in_steps
from broker.entities.arguments.queue_types import type_of
from broker.entities.exchanges.exchange import Router
from broker.entities.node.broker import Broker
from broker.entities.node.user_limits import MAX_QUEUES
from broker.entities.vhosts.vhost import DEFAULT_EXCHANGES
from broker.wire.amqp_errors import AmqpError
from broker.wire.field_tables import Table

_NAMES = ("name", "vhost", "user", "source", "destination", "exchange", "routing_key")
"""Fields that travel as short strings: msgspec has limited their characters, here their bytes are limited."""


class AfterImport:
    """The names and entities that will exist after an import: those of the broker, and those of the file."""

    def __init__(self, broker: Broker, file: DefinitionsFile) -> None:
        self._broker = broker
        self.users = {user.name for user in file.users} | broker.users.by_name.keys()
        self.vhosts = {vhost.name for vhost in file.vhosts} | broker.vhosts.keys()
        self._file = file
        self._exchanges: dict[tuple[str, str], ExchangeEntry] = {}
        self._queues: dict[tuple[str, str], QueueEntry] = {}

    async def find(self) -> None:
        """Read the file's exchanges and queues, in short steps; to be called first."""
        async with aclosing(in_steps(self._file.exchanges)) as exchanges:
            self._exchanges = {(entry.vhost, entry.name): entry async for entry in exchanges}
        async with aclosing(in_steps(self._file.queues)) as queues:
            self._queues = {(entry.vhost, entry.name): entry async for entry in queues}

    def router(self, vhost: str, name: str) -> Router:
        """Return the router of an exchange. Raises AdministrationError `invalid` if there will be no such exchange."""
        there = self._broker.vhosts[vhost].exchanges if vhost in self._broker.vhosts else {}
        if name in there:
            return there[name].router
        entry = self._exchanges.get((vhost, name))
        if entry is not None:
            return new_router(entry.type, entry.arguments)
        if name not in DEFAULT_EXCHANGES:
            raise invalid(f"no exchange '{name}' in vhost '{vhost}'")
        return new_router(DEFAULT_EXCHANGES[name], {})

    def queue_arguments(self, vhost: str, name: str) -> Table:
        """Return the arguments of a queue. Raises AdministrationError `invalid` if there will be no such queue."""
        there = self._broker.vhosts[vhost].queues if vhost in self._broker.vhosts else {}
        if name in there:
            return there[name].spec.arguments
        entry = self._queues.get((vhost, name))
        if entry is None:
            raise invalid(f"no queue '{name}' in vhost '{vhost}'")
        return table(entry.arguments)


async def check(broker: Broker, file: DefinitionsFile) -> None:
    """Raise AdministrationError `invalid` with the place of the first entry that cannot be imported."""
    after = AfterImport(broker, file)
    await after.find()
    await _check_queue_limits(broker, file)
    async with aclosing(in_steps(_entries(file))) as entries:
        async for place, entry in entries:
            _check_entry(place, entry, after)


def _check_entry(place: str, entry: DefinitionEntry, after: AfterImport) -> None:
    try:
        _check_names(entry)
        _check_references(entry, after)
        entry.check()
    except AmqpError as error:
        raise invalid(f"definitions: {place}: {error.text}") from None
    except (AdministrationError, ValueError, TypeError, OverflowError) as error:
        raise invalid(f"definitions: {place}: {error}") from None


def _entries(file: DefinitionsFile) -> Iterator[tuple[str, DefinitionEntry]]:
    for kind in file.__struct_fields__:
        for number, entry in enumerate(getattr(file, kind)):
            yield f"{kind}[{number}]", entry


def _check_names(entry: DefinitionEntry) -> None:
    for kind in _NAMES:
        name = getattr(entry, kind, "")
        if len(name.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
            raise invalid(f"{kind}: is longer than {NAME_BYTES_MAX} bytes")


def _check_references(entry: DefinitionEntry, after: AfterImport) -> None:
    if hasattr(entry, "vhost") and entry.vhost not in after.vhosts:
        raise invalid(f"Virtual host '{entry.vhost}' does not exist")
    if hasattr(entry, "user") and entry.user not in after.users:
        raise invalid(f'User "{entry.user}" does not exist')
    if isinstance(entry, BindingEntry):
        _check_ends(entry, after)


def _check_ends(entry: BindingEntry, after: AfterImport) -> None:
    source, kind = after.router(entry.vhost, entry.source), "exchange"
    if entry.destination_type == "queue":
        kind = type_of(after.queue_arguments(entry.vhost, entry.destination)).module
    else:
        after.router(entry.vhost, entry.destination)
    source.check_binding(entry.routing_key, table(entry.arguments), kind)


async def _check_queue_limits(broker: Broker, file: DefinitionsFile) -> None:
    """RabbitMQ's check: the limits that are set now count, not those of the file."""
    coming: dict[str, set[str]] = {}
    async with aclosing(in_steps(file.queues)) as queues:
        async for queue in queues:
            if queue.vhost not in broker.vhosts or queue.name not in broker.vhosts[queue.vhost].queues:
                coming.setdefault(queue.vhost, set()).add(queue.name)
    for vhost, names in coming.items():
        there = broker.vhosts[vhost].queues if vhost in broker.vhosts else {}
        added = len(names)
        count = len(there) + added - 1
        limit = broker.user_limits.vhost_reached(vhost, MAX_QUEUES, partial(int, count))
        if added and limit is not None:
            raise invalid(
                f'Adding {added} queue(s) to virtual host "{vhost}" would exceed the limit of {limit} queue(s). '
                f"This virtual host currently has {len(there)} queue(s) defined. Import aborted!"
            )
