"""What could go wrong with definitions, found before the first change: against the file itself and what exists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from broker.admin.command_arguments import NAME_BYTES_MAX, check_pattern, invalid
from broker.admin.definitions.definitions_file import (
    BindingEntry,
    DefinitionsFile,
    ExchangeEntry,
    ParameterEntry,
    PermissionEntry,
    PolicyEntry,
    QueueEntry,
    TopicPermissionEntry,
    UserEntry,
    operator_policy,
)
from broker.admin.protocol import AdministrationError
from broker.admin.settings import policy_check
from broker.admin.settings.limit_admin import checked
from broker.admin.short_steps import in_steps
from broker.admin.views.json_tables import table
from broker.entities.arguments import queue_arguments, queue_types
from broker.entities.arguments.queue_types import type_of
from broker.entities.exchanges.exchange import Router
from broker.entities.exchanges.exchange_type_table import CHANCE, ROUTERS
from broker.entities.node.broker import Broker
from broker.entities.node.parameters import OPERATOR_POLICY, SHOVEL, VHOST_LIMITS
from broker.entities.node.user_limits import MAX_QUEUES, OF_USERS, OF_VHOSTS
from broker.entities.vhosts.vhost import DEFAULT_EXCHANGES
from broker.session.login.passwords import ALGORITHMS
from broker.wire.amqp_errors import AmqpError
from broker.wire.field_tables import Table

_NAMES = ("name", "vhost", "user", "source", "destination", "exchange", "routing_key")
"""Fields that travel as short strings: msgspec has counted their characters, here their bytes count."""


class Known:
    """What there will be when a file is taken in: what is there, and what the file has."""

    def __init__(self, broker: Broker, file: DefinitionsFile) -> None:
        self._broker = broker
        self.users = {user.name for user in file.users} | broker.users.by_name.keys()
        self.vhosts = {vhost.name for vhost in file.vhosts} | broker.vhosts.keys()
        self._file = file
        self._exchanges: dict[tuple[str, str], ExchangeEntry] = {}
        self._queues: dict[tuple[str, str], QueueEntry] = {}

    async def find(self) -> None:
        """Look at the file's exchanges and queues, in short steps: to be done first."""
        async with aclosing(in_steps(self._file.exchanges)) as exchanges:
            self._exchanges = {(entry.vhost, entry.name): entry async for entry in exchanges}
        async with aclosing(in_steps(self._file.queues)) as queues:
            self._queues = {(entry.vhost, entry.name): entry async for entry in queues}

    def router(self, vhost: str, name: str) -> Router:
        """What an exchange will route by. Raises AdministrationError `invalid` where there will be none."""
        there = self._broker.vhosts[vhost].exchanges if vhost in self._broker.vhosts else {}
        if name in there:
            return there[name].router
        entry = self._exchanges.get((vhost, name))
        if entry is not None:
            return _router(entry.type, entry.arguments)
        if name not in DEFAULT_EXCHANGES:
            raise invalid(f"no exchange '{name}' in vhost '{vhost}'")
        return _router(DEFAULT_EXCHANGES[name])

    def queue_arguments(self, vhost: str, name: str) -> Table:
        """The arguments that a queue will have. Raises AdministrationError `invalid` where there will be none."""
        there = self._broker.vhosts[vhost].queues if vhost in self._broker.vhosts else {}
        if name in there:
            return there[name].spec.arguments
        entry = self._queues.get((vhost, name))
        if entry is None:
            raise invalid(f"no queue '{name}' in vhost '{vhost}'")
        return table(entry.arguments)


async def check(broker: Broker, file: DefinitionsFile) -> None:
    """Raises AdministrationError `invalid` with the place of the first thing that cannot be taken in."""
    known = Known(broker, file)
    await known.find()
    await _check_queue_limits(broker, file)
    async with aclosing(in_steps(_entries(file))) as entries:
        async for place, entry in entries:
            _check_entry(place, entry, known)


def _check_entry(place: str, entry: Any, known: Known) -> None:
    try:
        _check_names(entry)
        _check_references(entry, known)
        if isinstance(entry, BindingEntry):
            _check_binding(entry, known)
        elif type(entry) in _CHECKS:
            _CHECKS[type(entry)](entry)
    except AmqpError as error:
        raise invalid(f"definitions: {place}: {error.text}") from None
    except (AdministrationError, ValueError, TypeError, OverflowError) as error:
        raise invalid(f"definitions: {place}: {error}") from None


def _entries(file: DefinitionsFile) -> Iterator[tuple[str, Any]]:
    for kind in file.__struct_fields__:
        for number, entry in enumerate(getattr(file, kind)):
            yield f"{kind}[{number}]", entry


def _check_names(entry: Any) -> None:
    for kind in _NAMES:
        name = getattr(entry, kind, "")
        if len(name.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
            raise invalid(f"{kind}: is longer than {NAME_BYTES_MAX} bytes")


def _check_references(entry: Any, known: Known) -> None:
    if hasattr(entry, "vhost") and entry.vhost not in known.vhosts:
        raise invalid(f"Virtual host '{entry.vhost}' does not exist")
    if hasattr(entry, "user") and entry.user not in known.users:
        raise invalid(f'User "{entry.user}" does not exist')


def _router(type_: str, arguments: Mapping[str, Any] | Sequence[Any] = ()) -> Router:
    if type_ not in ROUTERS:
        raise invalid(f"unknown exchange type '{type_}'")
    return ROUTERS[type_](table(arguments), CHANCE)


async def _check_queue_limits(broker: Broker, file: DefinitionsFile) -> None:
    """RabbitMQ's check: the limits that are set now, not those of the file."""
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


def _check_user(user: UserEntry) -> None:
    if user.hashing_algorithm not in ALGORITHMS:
        raise invalid(f"hashing algorithm {user.hashing_algorithm} is not known; known: {', '.join(ALGORITHMS)}")
    checked(user.limits or {}, OF_USERS, "user-limits")


def _check_permission(permission: PermissionEntry) -> None:
    for pattern in (permission.configure, permission.write, permission.read):
        check_pattern(pattern)


def _check_topic_permission(permission: TopicPermissionEntry) -> None:
    check_pattern(permission.write)
    check_pattern(permission.read)


def _check_policy(policy: PolicyEntry, *, operator: bool = False) -> None:
    definition = dict(policy.definition)
    policy_check.checked(policy.name, policy.pattern, policy.apply_to, definition, policy.priority, operator=operator)


def _check_parameter(parameter: ParameterEntry) -> None:
    if parameter.component == VHOST_LIMITS:
        checked(parameter.value or {}, OF_VHOSTS, "limits")
    elif parameter.component == OPERATOR_POLICY:
        _check_policy(operator_policy(parameter), operator=True)
    elif parameter.component == SHOVEL:
        _check_shovel(parameter)


def _check_shovel(parameter: ParameterEntry) -> None:
    # Imported here: most brokers have no shovel, and this brings along what reads URIs.
    from broker.admin.settings import shovel_check

    problems = shovel_check.problems(parameter.name, parameter.value, lambda vhost: "")
    if problems:
        raise invalid("; ".join(problems))


def _check_exchange(exchange: ExchangeEntry) -> None:
    _router(exchange.type, exchange.arguments)
    alternate = table(exchange.arguments).get("alternate-exchange")
    if alternate is not None and alternate.kind != "S":
        raise invalid("argument alternate-exchange: expected a text")


def _check_queue(queue: QueueEntry) -> None:
    arguments = table(queue.arguments)
    queue_arguments.check(queue.name, queue.vhost, arguments)
    queue_types.check_properties(
        queue.name, queue.vhost, arguments, durable=queue.durable, exclusive=False, auto_delete=queue.auto_delete
    )


def _check_binding(entry: BindingEntry, known: Known) -> None:
    source, kind = known.router(entry.vhost, entry.source), "exchange"
    if entry.destination_type == "queue":
        kind = type_of(known.queue_arguments(entry.vhost, entry.destination)).module
    else:
        known.router(entry.vhost, entry.destination)
    source.check_binding(entry.routing_key, table(entry.arguments), kind)


_CHECKS: dict[type[Any], Callable[[Any], None]] = {
    UserEntry: _check_user,
    PermissionEntry: _check_permission,
    TopicPermissionEntry: _check_topic_permission,
    PolicyEntry: _check_policy,
    ParameterEntry: _check_parameter,
    ExchangeEntry: _check_exchange,
    QueueEntry: _check_queue,
}
