"""RabbitMQ's definitions files: their form, and how they are read. Their entries are in `broker/admin/kinds`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import aclosing
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, get_args

import msgspec

from broker.admin.definitions.packed_entries import PackedEntries
from broker.admin.json_input.body_parts import BodyParts
from broker.admin.json_input.json_reader import Row, read_object
from broker.admin.json_input.strict_json import decode_json
from broker.admin.kinds.definition_entry import DefinitionEntry, converted
from broker.admin.kinds.parameter_kind import GlobalParameterEntry, ParameterEntry
from broker.admin.kinds.permission_kind import PermissionEntry, TopicPermissionEntry
from broker.admin.kinds.policy_kind import PolicyEntry
from broker.admin.kinds.topology_entries import BindingEntry, ExchangeEntry, QueueEntry
from broker.admin.kinds.user_kind import UserEntry
from broker.admin.kinds.values import check_json
from broker.admin.kinds.vhost_kind import VhostEntry
from broker.admin.protocol import AdministrationError, invalid
from broker.admin.short_steps import in_steps


def _list_of(kind: type[DefinitionEntry]) -> Any:
    return msgspec.field(default_factory=partial(PackedEntries, kind))


class DefinitionsFile(msgspec.Struct, frozen=True):
    """A whole file, in RabbitMQ's order: each list refers only to what lists before it have."""

    users: PackedEntries[UserEntry] = _list_of(UserEntry)
    vhosts: PackedEntries[VhostEntry] = _list_of(VhostEntry)
    permissions: PackedEntries[PermissionEntry] = _list_of(PermissionEntry)
    topic_permissions: PackedEntries[TopicPermissionEntry] = _list_of(TopicPermissionEntry)
    parameters: PackedEntries[ParameterEntry] = _list_of(ParameterEntry)
    global_parameters: PackedEntries[GlobalParameterEntry] = _list_of(GlobalParameterEntry)
    policies: PackedEntries[PolicyEntry] = _list_of(PolicyEntry)
    queues: PackedEntries[QueueEntry] = _list_of(QueueEntry)
    exchanges: PackedEntries[ExchangeEntry] = _list_of(ExchangeEntry)
    bindings: PackedEntries[BindingEntry] = _list_of(BindingEntry)
    rabbit_version: str = ""
    """The version of the RabbitMQ that wrote the file; empty if it does not say."""


ENTRIES: dict[str, type[DefinitionEntry]] = {
    part.name: get_args(part.type)[0] for part in msgspec.structs.fields(DefinitionsFile) if get_args(part.type)
}
"""The entries of each list of a file."""

_FORM = msgspec.defstruct("_FORM", [(name, list[entry], []) for name, entry in ENTRIES.items()])  # type: ignore[valid-type]

_VERSION = "rabbit_version"
DECLARED = ("queues", "exchanges", "bindings")
"""The lists whose entries are declared as by a client; all others are changes of the store."""

OF_VHOSTS = ("parameters", "policies", *DECLARED)
"""The lists that an import into one virtual host takes in."""


def read_file(path: Path) -> DefinitionsFile:
    """Read a file, or all files of a directory in the order of their names, as one.

    Raises AdministrationError `invalid` with the name of a file and the fault.
    """
    if path.is_dir():
        return _joined([read_file(file) for file in sorted(path.iterdir()) if file.is_file()])
    try:
        content = path.read_bytes()
    except OSError as error:
        raise invalid(f"{path}: cannot be read: {error.strerror}") from error
    return parse(content, str(path))


def _joined(files: Sequence[DefinitionsFile]) -> DefinitionsFile:
    joined = DefinitionsFile(rabbit_version=files[-1].rabbit_version if files else "")
    for file, kind in product(files, ENTRIES):
        for entry in getattr(file, kind):
            getattr(joined, kind).append(entry)
    return joined


def parse(content: bytes, where: str) -> DefinitionsFile:
    """Return definitions from JSON. Raises AdministrationError `invalid` with their origin `where`, and the fault."""
    try:
        return convert(decode_json(content))
    except ValueError as error:
        raise invalid(f"{where}: is not JSON: {error}") from error
    except AdministrationError as error:
        raise invalid(f"{where}: {error}") from error


def convert(definitions: object) -> DefinitionsFile:
    """Return definitions from decoded JSON. Raises AdministrationError `invalid` with the place of the fault."""
    check_json(definitions, "definitions")
    form = converted(definitions, _FORM)
    lists: dict[str, Any] = {name: PackedEntries(entry, getattr(form, name)) for name, entry in ENTRIES.items()}
    return DefinitionsFile(**lists, rabbit_version=_version(definitions))


def _version(definitions: object) -> str:
    version = definitions.get(_VERSION) if isinstance(definitions, dict) else None
    return version if isinstance(version, str) else ""


async def convert_in_steps(definitions: object, vhost: str | None = None) -> DefinitionsFile:
    """Return the same of a file of any size, in short steps. With `vhost`: only what can be imported into one virtual
    host, moved into that."""
    if not isinstance(definitions, dict):
        return convert(definitions)
    row = _row_reader(vhost)
    used = (*_kinds(vhost), _VERSION)
    known = {kind: rows if kind in used else None for kind, rows in definitions.items()}
    found = {kind: await _packed(kind, rows, row) if isinstance(rows, list) else rows for kind, rows in known.items()}
    return _file_of(found, _kinds(vhost))


async def read_definitions(body: BodyParts, vhost: str | None = None) -> DefinitionsFile:
    """Return the same from JSON, which is used up; its entries are checked as soon as they are read.

    Raises ValueError for malformed JSON, and AdministrationError `invalid`.
    """
    lists = {kind: partial(PackedEntries, ENTRIES[kind]) for kind in _kinds(vhost)}
    return _file_of(await read_object(body, lists, _row_reader(vhost)), _kinds(vhost))


def _kinds(vhost: str | None) -> Collection[str]:
    return ENTRIES if vhost is None else OF_VHOSTS


async def _packed(kind: str, rows: list[object], row: Row) -> PackedEntries[Any]:
    entries = PackedEntries(ENTRIES[kind])
    async with aclosing(in_steps(enumerate(rows))) as numbered:
        async for number, value in numbered:
            entries.append(row(kind, number, value))
    return entries


def _row_reader(vhost: str | None) -> Row:
    def row(kind: str, number: int, value: object) -> Any:
        if vhost is not None and isinstance(value, dict):
            value["vhost"] = vhost
        check_json(value, "definitions")
        return converted(value, ENTRIES[kind], f"{kind}[{number}]")

    return row


def _file_of(found: dict[str, Any], kinds: Collection[str]) -> DefinitionsFile:
    """Return the file of the lists of these kinds; of others only the names are checked."""
    listed = {kind: rows for kind, rows in found.items() if isinstance(rows, PackedEntries)}
    others = {kind: value for kind, value in found.items() if kind not in listed}
    convert({kind: value for kind, value in others.items() if kind in kinds or kind not in ENTRIES})
    return DefinitionsFile(**listed, rabbit_version=_version(found))
