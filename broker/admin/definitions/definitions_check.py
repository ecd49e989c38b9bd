"""Checks of definitions before the first change: of each entry, and of what entries refer to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import aclosing, suppress

from broker.admin.definitions.definitions_file import ENTRIES, DefinitionsFile
from broker.admin.json_tables import table
from broker.admin.kinds.definition_entry import DefinitionEntry
from broker.admin.kinds.parameter_kind import ParameterEntry
from broker.admin.kinds.policy_kind import PolicyEntry
from broker.admin.kinds.topology_entries import BindingEntry, new_router
from broker.admin.kinds.values import NAME_BYTES_MAX
from broker.admin.kinds.vhost_kind import VhostEntry
from broker.admin.protocol import AdministrationError, ValidationFailed, invalid
from broker.admin.short_steps import in_steps
from broker.entities.arguments.queue_types import type_of
from broker.entities.exchanges.exchange import Router
from broker.entities.node.broker import Broker
from broker.entities.node.user_limits import MAX_QUEUES
from broker.entities.vhosts.vhost import DEFAULT_EXCHANGES
from broker.wire.amqp_errors import AmqpError

_NAMES = ("name", "vhost", "user", "source", "destination", "exchange", "routing_key")
"""Fields that travel as short strings: msgspec has limited their characters, here their bytes are limited."""


class AfterImport:
    """The names and entities that will exist after an import: those of the broker, and those of the file."""

    def __init__(self, broker: Broker, file: DefinitionsFile) -> None:
        self.broker = broker
        self.users = set(broker.users.by_name)
        self.vhosts = set(broker.vhosts)
        self._file = file
        self._exchanges: dict[str, dict[str, Router]] = {}
        self._queues: dict[str, dict[str, str]] = {}

    async def find(self) -> None:
        """Read the file, in short steps; to be called first. Only bindings refer to exchanges and queues."""
        async with aclosing(in_steps(self._file.users)) as users:
            self.users |= {user.name async for user in users}
        async with aclosing(in_steps(self._file.vhosts)) as vhosts:
            self.vhosts |= {vhost.name async for vhost in vhosts}
        if self._file.bindings:
            await self._find_entities()

    async def _find_entities(self) -> None:
        alike: dict[type[Router], Router] = {}
        async with aclosing(in_steps(self._file.exchanges)) as exchanges:
            async for exchange in exchanges:
                with suppress(AdministrationError, AmqpError, ValueError, TypeError, OverflowError):  # see _check_entry
                    router = new_router(exchange.type, exchange.arguments)
                    routers = self._exchanges.setdefault(exchange.vhost, {})
                    routers[exchange.name] = alike.setdefault(type(router), router)
        async with aclosing(in_steps(self._file.queues)) as queues:
            async for queue in queues:
                with suppress(AmqpError, ValueError, TypeError, OverflowError):
                    modules = self._queues.setdefault(queue.vhost, {})
                    modules[queue.name] = type_of(table(queue.arguments)).module

    def router(self, vhost: str, name: str) -> Router:
        """Return a router like that of an exchange, for checks. Raises AdministrationError `invalid`."""
        there = self.broker.vhosts[vhost].exchanges if vhost in self.broker.vhosts else {}
        if name in there:
            return there[name].router
        router = self._exchanges.get(vhost, {}).get(name)
        if router is not None:
            return router
        if name not in DEFAULT_EXCHANGES:
            raise invalid(f"no exchange '{name}' in vhost '{vhost}'")
        return new_router(DEFAULT_EXCHANGES[name], {})

    def queue_type(self, vhost: str, name: str) -> str:
        """Return the module of a queue's type. Raises AdministrationError `invalid` if there will be no such queue."""
        there = self.broker.vhosts[vhost].queues if vhost in self.broker.vhosts else {}
        if name in there:
            return type_of(there[name].spec.arguments).module
        module = self._queues.get(vhost, {}).get(name)
        if module is None:
            raise invalid(f"no queue '{name}' in vhost '{vhost}'")
        return module


async def check(broker: Broker, file: DefinitionsFile) -> None:
    """Raise AdministrationError `invalid` with the place of the first entry that cannot be imported."""
    after = AfterImport(broker, file)
    await after.find()
    await _check_queue_limits(broker, file)
    async with aclosing(in_steps(_entries(file))) as entries:
        async for place, entry in entries:
            _check_entry(place, entry, after)


def _check_entry(place: str, entry: DefinitionEntry, after: AfterImport) -> None:
    as_4 = after.broker.personality.series >= (4, 0)
    try:
        _check_names(entry)
        _check_references(entry, after, as_4=as_4)
        entry.check(after.broker)
    except ReferenceMissing:
        raise
    except AmqpError as error:
        raise invalid(_in_4(error, entry) if as_4 else f"definitions: {place}: {error.text}") from None
    except (AdministrationError, ValueError, TypeError, OverflowError) as error:
        in_4 = as_4 and isinstance(entry, PolicyEntry | ParameterEntry | VhostEntry)
        raise invalid(_in_4(error, entry) if in_4 else f"definitions: {place}: {error}") from None


class ReferenceMissing(AdministrationError):
    """A virtual host or user of an entry does not exist, in the words of RabbitMQ 4: they name no place."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid", message)


def _in_4(error: Exception, entry: DefinitionEntry) -> str:
    """Return the refusal of an entry in the words of RabbitMQ 4: they name the thing, and no place in the file."""
    if isinstance(error, AmqpError):
        return f"{error.code.name.lower()}: {error.text}"
    if isinstance(entry, VhostEntry):
        return str(error)
    lines = "\n".join(error.problems) if isinstance(error, ValidationFailed) else str(error)
    if isinstance(entry, ParameterEntry):
        place = f'vhost: "{entry.vhost}" / component: "{entry.component}" / key: "{entry.name}"'
    else:
        place = f'vhost: "{getattr(entry, "vhost", "")}" key: "{getattr(entry, "name", "")}"'
    return f"Validation failed\n\n{lines}\n ({place})"


def _entries(file: DefinitionsFile) -> Iterator[tuple[str, DefinitionEntry]]:
    for kind in ENTRIES:
        for number, entry in enumerate(getattr(file, kind)):
            yield f"{kind}[{number}]", entry


def _check_names(entry: DefinitionEntry) -> None:
    for kind in _NAMES:
        name = getattr(entry, kind, "")
        if len(name.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
            raise invalid(f"{kind}: is longer than {NAME_BYTES_MAX} bytes")


def _check_references(entry: DefinitionEntry, after: AfterImport, *, as_4: bool) -> None:
    if hasattr(entry, "vhost") and entry.vhost not in after.vhosts:
        if as_4:
            raise ReferenceMissing(f'Please create virtual host "{entry.vhost}" prior to importing definitions.')
        raise invalid(f"Virtual host '{entry.vhost}' does not exist")
    if hasattr(entry, "user") and entry.user not in after.users:
        if as_4:
            raise ReferenceMissing(f'{{no_such_user,<<"{entry.user}">>}}')
        raise invalid(f'User "{entry.user}" does not exist')
    if isinstance(entry, BindingEntry) and entry.source:
        _check_ends(entry, after)


def _check_ends(entry: BindingEntry, after: AfterImport) -> None:
    source, kind = after.router(entry.vhost, entry.source), "exchange"
    if entry.destination_type == "queue":
        kind = after.queue_type(entry.vhost, entry.destination)
    else:
        after.router(entry.vhost, entry.destination)
    source.check_binding(entry.routing_key, table(entry.arguments), kind)


async def _check_queue_limits(broker: Broker, file: DefinitionsFile) -> None:
    """RabbitMQ's check: the limits that are set now count, not those of the file."""
    limited = {name: set[str]() for name in broker.vhosts if _limit(broker, name, sys.maxsize) is not None}
    if not limited:
        return
    async with aclosing(in_steps(file.queues)) as queues:
        async for queue in queues:
            if queue.vhost in limited and queue.name not in broker.vhosts[queue.vhost].queues:
                limited[queue.vhost].add(queue.name)
    for vhost, names in limited.items():
        there, added = len(broker.vhosts[vhost].queues), len(names)
        limit = _limit(broker, vhost, there + added - 1)
        if added and limit is not None:
            raise invalid(
                f'Adding {added} queue(s) to virtual host "{vhost}" would exceed the limit of {limit} queue(s). '
                f"This virtual host currently has {there} queue(s) defined. Import aborted!"
            )


def _limit(broker: Broker, vhost: str, queues: int) -> int | None:
    """Return the limit of queues that a virtual host has reached with this number of them."""
    return broker.user_limits.vhost_reached(vhost, MAX_QUEUES, lambda: queues)
