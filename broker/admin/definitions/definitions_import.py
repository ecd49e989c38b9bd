"""Taking definitions in, as RabbitMQ does: exchanges and queues that are there stay, all else is as the file says.

Everything is checked before the first change. Users, virtual hosts, permissions, limits, and what only the store
knows are written in one transaction; then exchanges and queues are declared, and bindings made last. That transaction
also says which those will be, so that a start can finish what a crash has cut short.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments, separated
from broker.admin.definitions import unfinished_import
from broker.admin.definitions.definitions_check import check
from broker.admin.definitions.definitions_file import (
    BindingEntry,
    DefinitionsFile,
    ExchangeEntry,
    ParameterEntry,
    PolicyEntry,
    QueueEntry,
    UserEntry,
    VhostEntry,
    convert_in_steps,
    operator_policy,
)
from broker.admin.json_tables import table
from broker.admin.listing import binding_row
from broker.admin.protocol import AdministrationError
from broker.admin.short_steps import in_steps, let_go
from broker.entities.exchanges.exchange import Binding, Destination, Exchange
from broker.entities.queues.queue import QueueSpec
from broker.entities.scheduling.future import Future
from broker.entities.vhosts.parameters import OPERATOR_POLICY, VHOST_LIMITS
from broker.session.login.passwords import SHA256, hash_password, verify
from storage.definitions.definition_changes import (
    Definitions,
    DeleteVhostLimit,
    GlobalParameterRow,
    ParameterRow,
    PermissionRow,
    PolicyRow,
    PutGlobalParameter,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutTopicPermission,
    PutUser,
    PutUserLimit,
    PutVhost,
    PutVhostLimit,
    SetMetadata,
    TopicPermissionRow,
    UserLimitRow,
    UserRow,
    VhostLimitRow,
    VhostRow,
)
from storage.definitions.definition_statements import TABLES

T = TypeVar("T")

UNDEFINED = "undefined"
"""RabbitMQ's word for no default queue type."""

PUTS: dict[type[Any], type[Any]] = {
    VhostRow: PutVhost,
    UserRow: PutUser,
    PermissionRow: PutPermission,
    TopicPermissionRow: PutTopicPermission,
    VhostLimitRow: PutVhostLimit,
    UserLimitRow: PutUserLimit,
    PolicyRow: PutPolicy,
    ParameterRow: PutParameter,
    GlobalParameterRow: PutGlobalParameter,
}


async def import_definitions(administration: Administration, arguments: Arguments) -> dict[str, int]:
    """Take definitions in: all of them, or into a `vhost` what belongs there; how many of each kind were changed.

    A DefinitionsFile has been moved there by whoever read it; it is used up.
    """
    definitions, vhost = arguments.value("definitions"), arguments.optional("vhost")
    vhost = None if vhost is None else administration.vhost(vhost).name
    if not isinstance(definitions, DefinitionsFile):
        definitions = await convert_in_steps(definitions, vhost)
    try:
        return await add(administration, definitions)
    finally:
        for kind in definitions.__struct_fields__:
            await let_go(getattr(definitions, kind))


async def resume(administration: Administration, unfinished: bytes) -> dict[str, int]:
    """Finish an import that was cut short. Raises AdministrationError when it does not fit any more; it is over."""
    try:
        return await add(administration, unfinished_import.unpacked(unfinished))
    except AdministrationError:
        await administration.change(_over())
        raise


async def add(administration: Administration, file: DefinitionsFile) -> dict[str, int]:
    """Take in what a file holds; how many of each kind were made or changed.

    Raises AdministrationError `invalid`, having changed nothing.
    """
    await check(administration.broker, file)
    stored = await administration.definitions.load()
    rows = await _different(_rows(file, stored), stored)
    lifted = _lifted_limits(file, stored)
    begun = await _begun(file)
    await administration.change(*(PUTS[type(row)](row) for row in rows), *lifted, *begun)
    created = Counter(TABLES[type(row)].name for row in rows)
    created.update({TABLES[VhostLimitRow].name: len(lifted)} if lifted else {})
    try:
        created["exchanges"] = await _all(administration, _declare_exchanges(administration, file.exchanges))
        created["queues"] = await _all(administration, _declare_queues(administration, file.queues))
        created["bindings"] = await _all(administration, _bind(administration, file.bindings))
    except Exception:  # the caller gets it; only a broker that ends leaves it to the next start
        await administration.change(_over())
        raise
    if begun:
        await administration.change(_over())
    return dict(created)


async def _begun(file: DefinitionsFile) -> list[SetMetadata]:
    """What is still to come when the first transaction is on disk. There are no passwords in it."""
    kept = await unfinished_import.packed(file)
    return [SetMetadata(unfinished_import.NAME, kept)] if kept else []


def _over() -> SetMetadata:
    return SetMetadata(unfinished_import.NAME, b"")


TOGETHER = 500
"""How many exchanges, queues or bindings are made in one transaction, and so appear in one step."""


async def _all(administration: Administration, futures: AsyncGenerator[Future[Any]]) -> int:
    """Have changes begun and written, some together; their number."""
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


# Rows of the store


async def _different(rows: Iterable[Any], stored: Definitions) -> list[Any]:
    """The rows that the store does not have like this; of several of one identity the last."""
    kinds = [kind for kind in stored if isinstance(kind, tuple)]
    known = {_identity(row): row for kind in kinds async for row in in_steps(kind) if type(row) in PUTS}
    wanted = {_identity(row): row async for row in in_steps(rows)}
    return [row for identity, row in wanted.items() if known.get(identity) != row]


def _lifted_limits(file: DefinitionsFile, stored: Definitions) -> list[DeleteVhostLimit]:
    """A virtual host's limits are replaced as a whole: those that the file does not name any more."""
    replaced = {entry.vhost: dict(entry.value or {}) for entry in file.parameters if entry.component == VHOST_LIMITS}
    return [
        DeleteVhostLimit(row.vhost, row.name)
        for row in stored.vhost_limits
        if row.vhost in replaced and row.name not in replaced[row.vhost]
    ]


def _identity(row: Any) -> tuple[object, ...]:
    return (type(row), *(getattr(row, name) for name in TABLES[type(row)].key))


def _rows(file: DefinitionsFile, stored: Definitions) -> Iterator[Any]:
    """What a file holds beside entities, those first that others refer to."""
    vhosts = {row.name: row for row in stored.vhosts}
    users = {row.name: row for row in stored.users}
    yield from (_vhost(entry, vhosts.get(entry.name)) for entry in file.vhosts)
    yield from (_user(entry, users.get(entry.name)) for entry in file.users)
    for permission in file.permissions:
        yield PermissionRow(*_fields(permission, PermissionRow))
    for topic in file.topic_permissions:
        yield TopicPermissionRow(*_fields(topic, TopicPermissionRow))
    for user in file.users:
        yield from (UserLimitRow(user.name, name, value) for name, value in dict(user.limits).items())
    for policy in file.policies:
        yield _policy(policy, operator=False)
    for parameter in file.parameters:
        yield from _parameter(parameter)
    for everywhere in file.global_parameters:
        yield GlobalParameterRow(everywhere.name, json.dumps(everywhere.value))


def _fields(entry: object, row: type[Any]) -> Iterator[str]:
    return (getattr(entry, name) for name in row._fields)


def _vhost(entry: VhostEntry, known: VhostRow | None) -> VhostRow:
    """A virtual host that is there keeps its default queue type, as in RabbitMQ 3.10."""
    more = entry.metadata
    queue_type = entry.default_queue_type or more.default_queue_type
    queue_type = "" if queue_type == UNDEFINED else queue_type
    return VhostRow(
        entry.name,
        entry.description or more.description,
        separated(entry.tags) or separated(more.tags),
        queue_type if known is None else known.default_queue_type,
    )


def _user(entry: UserEntry, known: UserRow | None) -> UserRow:
    """Every hash of a password is another one: a user who has the password of the file keeps the hash."""
    if entry.password and not entry.password_hash:
        given = entry.password.encode("utf-8", "surrogateescape")
        if known is not None and verify(given, known.password_hash, known.hashing_algorithm):
            return known._replace(tags=separated(entry.tags))
        return UserRow(entry.name, hash_password(given), SHA256, separated(entry.tags))
    return UserRow(entry.name, entry.password_hash, entry.hashing_algorithm, separated(entry.tags))


def _policy(entry: PolicyEntry, *, operator: bool) -> PolicyRow:
    definition = json.dumps(dict(entry.definition))
    return PolicyRow(entry.vhost, entry.name, entry.pattern, entry.apply_to, definition, entry.priority, operator)


def _parameter(entry: ParameterEntry) -> Iterator[Any]:
    if entry.component == VHOST_LIMITS:
        yield from (VhostLimitRow(entry.vhost, name, value) for name, value in dict(entry.value or {}).items())
    elif entry.component == OPERATOR_POLICY:
        yield _policy(operator_policy(entry), operator=True)
    else:
        yield ParameterRow(entry.vhost, entry.component, entry.name, json.dumps(entry.value))


# Entities


async def _declare_exchanges(
    administration: Administration, entries: Iterable[ExchangeEntry]
) -> AsyncGenerator[Future[Any]]:
    seen = set()
    async with aclosing(in_steps(entries)) as given:
        async for entry in given:
            vhost = administration.vhost(entry.vhost)
            if entry.name not in vhost.exchanges and (vhost, entry.name) not in seen:
                seen.add((vhost, entry.name))
                yield vhost.declare_exchange(
                    entry.name,
                    entry.type,
                    durable=entry.durable,
                    auto_delete=entry.auto_delete,
                    internal=entry.internal,
                    arguments=table(entry.arguments),
                    by=administration.by,
                )


async def _declare_queues(administration: Administration, entries: Iterable[QueueEntry]) -> AsyncGenerator[Future[Any]]:
    seen = set()
    async with aclosing(in_steps(entries)) as given:
        async for entry in given:
            vhost = administration.vhost(entry.vhost)
            if entry.name not in vhost.queues and (vhost, entry.name) not in seen:
                seen.add((vhost, entry.name))
                spec = QueueSpec(entry.name, entry.durable, False, entry.auto_delete, table(entry.arguments))
                yield vhost.declare_queue(spec, None, administration.by)


async def _bind(administration: Administration, entries: Iterable[BindingEntry]) -> AsyncGenerator[Future[Any]]:
    begun = set[Binding]()
    alike = dict[Exchange, set[str]]()
    async with aclosing(in_steps(entries)) as given:
        async for entry in given:
            vhost = administration.vhost(entry.vhost)
            source, arguments = _found(vhost.exchanges, entry.source, entry), table(entry.arguments)
            destination: Destination
            if entry.destination_type == "queue":
                destination = _found(vhost.queues, entry.destination, entry)
            else:
                destination = _found(vhost.exchanges, entry.destination, entry)
            binding = source.binding(destination, entry.routing_key, arguments)
            if binding in source.bindings or binding in begun:
                continue
            if arguments:
                if source not in alike:
                    alike[source] = {_in_json(each) async for each in in_steps(list(source.bindings))}
                if _in_json(binding) in alike[source]:
                    continue
                alike[source].add(_in_json(binding))
            begun.add(binding)
            yield vhost.bindings.bind(binding, arguments, administration.by)


def _found(there: Mapping[str, T], name: str, entry: BindingEntry) -> T:
    """One end of a binding. Raises AdministrationError `failed` if it was deleted since it was checked."""
    if name not in there:
        raise AdministrationError("failed", f"definitions: '{name}' of a binding in vhost '{entry.vhost}' was deleted")
    return there[name]


def _in_json(binding: Binding) -> str:
    """Exported and imported again, a binding is the same although its arguments have lost their types."""
    return json.dumps(binding_row(binding), sort_keys=True)
