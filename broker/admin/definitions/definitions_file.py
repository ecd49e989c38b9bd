"""RabbitMQ's definitions files: their form, read and checked before anything is done with them.

Keys that are not known are passed over, as RabbitMQ does: files of many versions hold what only plugins know.
Messages say where in the file something is wrong, never what stands there: it may be a password.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta, field

from broker.admin.command_arguments import check_json, invalid
from broker.admin.json_input.json_reader import Row, read_object
from broker.admin.json_input.strict_json import decode_json
from broker.admin.protocol import AdministrationError
from broker.admin.short_steps import in_steps
from broker.session.login.passwords import SHA256

Entry = TypeVar("Entry")
Name = Annotated[str, Meta(min_length=1, max_length=255)]
FieldTable = dict[Name, Any] | list[Any]
"""Arguments. Some versions of RabbitMQ write an empty table as an empty list."""
_NO_ARGUMENTS: FieldTable = {}
"""One for all entries without arguments: of each its own, 250,000 in a file of 16 MiB take as much again."""
_TEXTS_MAX = 10_000
"""Texts of a file that are in memory once, not once for each entry."""


def _no_arguments() -> FieldTable:
    return _NO_ARGUMENTS


class UserEntry(msgspec.Struct, frozen=True):
    """A user, with a hash or (as people write such files by hand) with a password."""

    name: Name
    password_hash: str = ""
    password: str = ""
    hashing_algorithm: str = SHA256
    tags: list[str] | str = ""
    limits: dict[str, int] | list[Any] = {}


class VhostMetadata(msgspec.Struct, frozen=True):
    """What newer versions say of a virtual host."""

    description: str = ""
    tags: list[str] | str = ""
    default_queue_type: str = ""


class VhostEntry(msgspec.Struct, frozen=True):
    """A virtual host."""

    name: Name
    description: str = ""
    tags: list[str] | str = ""
    default_queue_type: str = ""
    metadata: VhostMetadata = VhostMetadata()


class PermissionEntry(msgspec.Struct, frozen=True):
    """What a user may do in a virtual host."""

    user: Name
    vhost: Name
    configure: str
    write: str
    read: str


class TopicPermissionEntry(msgspec.Struct, frozen=True):
    """Which routing keys a user may use on an exchange."""

    user: Name
    vhost: Name
    exchange: str
    write: str
    read: str


class ExchangeEntry(msgspec.Struct, frozen=True, gc=False):
    """An exchange."""

    name: Name
    vhost: Name
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: FieldTable = field(default_factory=_no_arguments)


class QueueEntry(msgspec.Struct, frozen=True, gc=False):
    """A queue."""

    name: Name
    vhost: Name
    durable: bool = True
    auto_delete: bool = False
    arguments: FieldTable = field(default_factory=_no_arguments)


class BindingEntry(msgspec.Struct, frozen=True, gc=False):
    """A binding."""

    source: Name
    vhost: Name
    destination: Name
    destination_type: Literal["queue", "exchange"] = "queue"
    routing_key: Annotated[str, Meta(max_length=255)] = ""
    arguments: FieldTable = field(default_factory=_no_arguments)


class PolicyEntry(msgspec.Struct, frozen=True):
    """A policy."""

    vhost: Name
    name: Name
    pattern: str
    definition: dict[str, Any] | list[tuple[str, Any]]
    """Of operator policies, RabbitMQ's command line writes pairs instead of an object."""
    priority: Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)] = 0
    apply_to: str = field(default="all", name="apply-to")


class ParameterEntry(msgspec.Struct, frozen=True):
    """A runtime parameter; limits of virtual hosts and operator policies come as such, too."""

    vhost: Name
    component: Name
    name: Name
    value: Any


class GlobalParameterEntry(msgspec.Struct, frozen=True):
    """A runtime parameter of the whole broker."""

    name: Name
    value: Any


class DefinitionsFile(msgspec.Struct, frozen=True):
    """A whole file."""

    users: list[UserEntry] = []
    vhosts: list[VhostEntry] = []
    permissions: list[PermissionEntry] = []
    topic_permissions: list[TopicPermissionEntry] = []
    parameters: list[ParameterEntry] = []
    global_parameters: list[GlobalParameterEntry] = []
    policies: list[PolicyEntry] = []
    queues: list[QueueEntry] = []
    exchanges: list[ExchangeEntry] = []
    bindings: list[BindingEntry] = []


ENTRIES = {part.name: get_args(part.type)[0] for part in msgspec.structs.fields(DefinitionsFile)}
"""What the lists of a file are made of."""

OF_VHOSTS = ("parameters", "policies", "queues", "exchanges", "bindings")
"""Kinds that an import into one virtual host takes in."""


def read_file(path: Path) -> DefinitionsFile:
    """Read a file. Raises AdministrationError `invalid` with its name and what is wrong with it."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise invalid(f"{path}: cannot be read: {error.strerror}") from error
    return parse(content, str(path))


def parse(content: bytes, where: str) -> DefinitionsFile:
    """Definitions from JSON. Raises AdministrationError `invalid` with where they are from and what is wrong."""
    try:
        return convert(decode_json(content))
    except ValueError as error:
        raise invalid(f"{where}: is not JSON: {error}") from error
    except AdministrationError as error:
        raise invalid(f"{where}: {error}") from error


def convert(definitions: object) -> DefinitionsFile:
    """Take definitions from decoded JSON. Raises AdministrationError `invalid` with the place of what does not fit."""
    check_json(definitions, "definitions")
    return _converted(definitions, DefinitionsFile)


async def convert_in_steps(definitions: object, vhost: str | None = None) -> DefinitionsFile:
    """The same for a file of any size, in short steps; for a virtual host what belongs there, moved into it."""
    if not isinstance(definitions, dict):
        return convert(definitions)
    row = _row_reader(vhost)
    known = {kind: rows if kind in _kinds(vhost) else None for kind, rows in definitions.items()}
    found = {kind: await _made(kind, rows, row) if isinstance(rows, list) else rows for kind, rows in known.items()}
    return _file_of(found, _kinds(vhost))


async def read_definitions(body: bytes | bytearray, vhost: str | None = None) -> DefinitionsFile:
    """The same from JSON, where each entry is checked as soon as it is read.

    Raises ValueError for what is no JSON, and AdministrationError `invalid`.
    """
    return _file_of(await read_object(body, _kinds(vhost), _row_reader(vhost)), _kinds(vhost))


def _kinds(vhost: str | None) -> Collection[str]:
    return ENTRIES if vhost is None else OF_VHOSTS


async def _made(kind: str, rows: list[object], row: Row) -> list[Any]:
    async with aclosing(in_steps(enumerate(rows))) as numbered:
        return [row(kind, number, value) async for number, value in numbered]


def _row_reader(vhost: str | None) -> Row:
    seen = dict[object, object]()

    def row(kind: str, number: int, value: object) -> object:
        if isinstance(value, dict):
            _share(value, seen)
            if vhost is not None:
                value["vhost"] = vhost
        check_json(value, "definitions")
        return _converted(value, ENTRIES[kind], f"{kind}[{number}]")

    return row


def _share(entry: dict[str, object], seen: dict[object, object]) -> None:
    """Replace texts of an entry by equal ones of entries before it, and leave out arguments that are empty."""
    if entry.get("arguments") in ({}, []):
        del entry["arguments"]
    for name, value in entry.items():
        if isinstance(value, str) and (value in seen or len(seen) < _TEXTS_MAX):
            entry[name] = seen.setdefault(value, value)


def _file_of(found: dict[str, Any], kinds: Collection[str]) -> DefinitionsFile:
    """Of what is not wanted only the names are checked."""
    listed = {kind: rows for kind, rows in found.items() if isinstance(rows, list)}
    others = {kind: value for kind, value in found.items() if kind not in listed}
    convert({kind: value for kind, value in others.items() if kind in kinds or kind not in ENTRIES})
    return DefinitionsFile(**listed)


def operator_policy(parameter: ParameterEntry) -> PolicyEntry:
    """The operator policy that a parameter stands for. Raises AdministrationError `invalid`."""
    if not isinstance(parameter.value, dict):
        raise invalid("value: expected an operator policy")
    return _converted({**parameter.value, "vhost": parameter.vhost, "name": parameter.name}, PolicyEntry)


def _converted(value: object, kind: type[Entry], place: str = "") -> Entry:
    """`place` is where in the file the value stands, empty for the whole file."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text = str(error)
        if place and "`$" not in text:  # of the value itself it does not say where it is
            text += " - at `$`"
        raise invalid(f"definitions: {text.replace('`$', f'`{place}').replace('`.', '`')}") from None
    except UnicodeEncodeError:  # where only certain words may stand; elsewhere such texts are welcome
        raise invalid("definitions: a key, or a type of destination, is not UTF-8") from None
