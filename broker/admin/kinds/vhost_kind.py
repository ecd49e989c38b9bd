"""Virtual hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from broker.admin.json_terms import binary_term
from broker.admin.kinds.change_event import ChangeEvent
from broker.admin.kinds.definition_entry import DefinitionEntry, Name
from broker.admin.kinds.definition_kind import DefinitionKind
from broker.admin.kinds.limit_kind import vhost_limits_cleared
from broker.admin.kinds.values import separated
from broker.admin.protocol import AdministrationError, invalid
from broker.entities.arguments.erlang_terms import Atom, Term, printed
from broker.entities.arguments.queue_types import TYPES
from broker.entities.exchanges.event_exchange import INTERNAL
from broker.entities.node.broker import Broker
from broker.entities.vhosts.vhost import DEFAULT_EXCHANGES, TRACE_EXCHANGE, VHost, VHostDescription
from storage.definitions.definition_rows import Put, VhostRow

UNDEFINED = "undefined"
"""RabbitMQ's word for no default queue type."""
_MODULES = {f"rabbit_{name}_queue": name for name in TYPES}
"""Other names of queue types, which RabbitMQ 4 takes for default ones, too."""
Json = str | int | float | bool | list[Any] | dict[str, Any] | None


class VhostFields(msgspec.Struct, frozen=True):
    """The description of a virtual host: beside its name in files of old versions, in `metadata` in newer ones."""

    description: str = ""
    tags: list[str] | str = ""
    default_queue_type: Json = ""
    """A text, or none; anything else is refused by `VhostEntry.check`, in the words of the series."""


class VhostMetadata(VhostFields, frozen=True):
    """The `metadata` of a virtual host, where alone it is protected from deletion."""

    protected_from_deletion: bool | None = None


class VhostEntry(VhostFields, DefinitionEntry, frozen=True, kw_only=True):
    """A virtual host. Fields that are empty are those of `metadata`."""

    name: Name
    metadata: VhostMetadata = VhostMetadata()
    tracing: bool | None = None
    """None: as it is."""

    def changes(self, broker: Broker) -> Iterator[Put]:
        """Yield the virtual host."""
        parts = (self.metadata, self) if broker.personality.vhost_types else (self, self.metadata)
        description, tags = (getattr(parts[0], name) or getattr(parts[1], name) for name in ("description", "tags"))
        queue_type, protected = self._queue_type(broker), self._protected(broker)
        yield Put(VhostRow(self.name, description, separated(tags), queue_type, protected))

    def check(self, broker: Broker) -> None:
        """Raise AdministrationError for what is no default queue type."""
        given = self.queue_type(as_4=broker.personality.vhost_types)
        check_queue_type(broker, given if isinstance(given, str) else _read_as_text(broker, given))

    def queue_type(self, *, as_4: bool) -> Json:
        """Return the default queue type that is given; RabbitMQ 4 reads it of `metadata` alone."""
        found = (
            self.metadata.default_queue_type if as_4 else self.default_queue_type or self.metadata.default_queue_type
        )
        return "" if found is None and as_4 else found

    def _protected(self, broker: Broker) -> bool | None:
        """Return the protection after the import: what the file does not say stays."""
        if broker.personality.protection and self.metadata.protected_from_deletion is not None:
            return self.metadata.protected_from_deletion
        return protection_of(broker, self.name)

    def _queue_type(self, broker: Broker) -> str:
        given, there = str(self.queue_type(as_4=broker.personality.vhost_types)), broker.vhosts.get(self.name)
        if there is not None and (not broker.personality.imported_types or given in ("", UNDEFINED)):
            return there.description.default_queue_type
        return queue_type_of_new(broker, given)


def protection_of(broker: Broker, name: str) -> bool | None:
    """Return the protection of a virtual host as it is: None where nobody has said, or there is no such one."""
    there = broker.vhosts.get(name)
    return None if there is None else there.description.protected_from_deletion


def assert_deletable(broker: Broker, vhost: VHost) -> None:
    """Raise AdministrationError `protected` for a virtual host that is protected from deletion."""
    if broker.personality.protection and vhost.description.protected_from_deletion:
        text = f"Refusing to delete virtual host '{vhost.name}' because it is protected from deletion"
        raise AdministrationError("protected", text)


def queue_type_of_new(broker: Broker, given: str) -> str:
    """Return the default queue type of a new virtual host that is put with `given`; empty: none of its own."""
    if given not in ("", UNDEFINED):
        return _MODULES.get(given, given)
    return broker.default_queue_type if broker.personality.vhost_types else ""


def queue_type_put(broker: Broker, name: str, given: str) -> str:
    """Return the default queue type of a virtual host after a put: without one RabbitMQ 4 keeps what there is."""
    if name in broker.vhosts and broker.personality.vhost_types and given in ("", UNDEFINED):
        return broker.vhosts[name].description.default_queue_type
    return queue_type_of_new(broker, given)


def check_queue_type(broker: Broker, queue_type: str) -> None:
    """Refuse an unknown default queue type. Raises AdministrationError `invalid`."""
    as_4 = broker.personality.vhost_types
    if queue_type in ("", UNDEFINED, *TYPES) or (as_4 and queue_type in _MODULES):
        return
    if as_4:
        raise invalid(f"{queue_type} is not a valid queue type")
    raise invalid(f"Unsupported default queue type '{queue_type}'; known: {', '.join(TYPES)}")


def put_queue_type(broker: Broker, given: object) -> str | None:
    """Return the default queue type of a request, None for none. Raises AdministrationError for another value."""
    as_4 = broker.personality.vhost_types
    if given in (None, UNDEFINED):  # RabbitMQ 4 sets the node's type, 3 none
        return broker.default_queue_type if as_4 else None
    if isinstance(given, str) or not as_4:
        return given  # type: ignore[return-value]  # the command refuses what is no text
    word = "queue type" if isinstance(given, bool) else "default_queue_type value"
    raise invalid(f"{binary_term(given)} is not a valid {word}")


def _read_as_text(broker: Broker, given: Json) -> str:
    """Return a default queue type of definitions that is no text as the text that RabbitMQ 4 takes it for.

    Raises AdministrationError `invalid` where it takes it for none.
    """
    if not broker.personality.vhost_types:
        raise invalid(f"default_queue_type: expected a text, got {binary_term(given)}")
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        raise invalid(f"{''.join(given)} is not a valid queue type")
    raise invalid("badarg")


def exported(broker: Broker, vhost: VHost) -> dict[str, Any]:
    """Return a virtual host as definitions files have it."""
    shown = metadata(vhost.description)
    if broker.personality.series >= (4, 0):
        return {"name": vhost.name, "limits": limits_of(broker, vhost), "metadata": shown}
    return {"name": vhost.name, **shown, "metadata": shown}


def limits_of(broker: Broker, vhost: VHost) -> dict[str, int]:
    """Return the limits of a virtual host by their names."""
    return dict(broker.user_limits.vhosts.get(vhost.name, {}))


def metadata(description: VHostDescription) -> dict[str, Any]:
    """Return a virtual host's `metadata`: its description, without what was never chosen."""
    optional = ("default_queue_type", "protected_from_deletion")
    shown = {**description._asdict(), "tags": list(description.tags)}
    return {name: value for name, value in shown.items() if name not in optional or value not in ("", None)}


# Effect


def _put(broker: Broker, row: VhostRow) -> None:
    broker.add_vhost(row.name).description = _description(row)


def _delete(broker: Broker, by: str, *, name: str) -> None:
    if name in broker.vhosts:
        broker.remove_vhost(name, by)


def _description(row: VhostRow) -> VHostDescription:
    return VHostDescription(*row[1:])


def set_tracing(vhost: VHost, *, on: bool) -> None:
    """Switch tracing on or off, until the broker stops."""
    from broker.session.channel import firehose

    if vhost.traced != on:
        (firehose.start if on else firehose.stop)(vhost)


# Events


def _put_events(broker: Broker, row: VhostRow) -> Iterator[ChangeEvent]:
    if row.name in broker.vhosts:
        yield from _changed(broker, row)
        return
    for name, type_ in DEFAULT_EXCHANGES.items():
        flags = {"durable": True, "auto_delete": False, "internal": name == TRACE_EXCHANGE}
        headers = {"name": name, "vhost": row.name, "type": type_, **flags, "arguments": [], "policy": ""}
        yield ChangeEvent("exchange.created", headers)
    yield ChangeEvent("vhost.created", {**_headers(broker, row), "tags": list(row.tags) or ""})


def _changed(broker: Broker, row: VhostRow) -> Iterator[ChangeEvent]:
    vhost, described = broker.vhosts[row.name], _description(row)
    if row.tags != vhost.description.tags and described == vhost.description._replace(tags=row.tags):
        yield ChangeEvent("vhost.tags.set", {"name": row.name, "tags": list(row.tags)})
    elif described != vhost.description:
        protection = _protection(broker, row, "deletion_protection")
        yield ChangeEvent("vhost.updated", {**_headers(broker, row), "tracing": vhost.traced, **protection})


def _headers(broker: Broker, row: VhostRow) -> dict[str, Any]:
    assert broker.event_exchange is not None
    description = _description(row)
    return {
        "name": row.name,
        "description": row.description,
        "tags": list(row.tags),
        "default_queue_type": row.default_queue_type or UNDEFINED,
        **_protection(broker, row, "protected_from_deletion"),
        "metadata": _erlang_map(metadata(description)),
        "tracing": False,
        "cluster_state": {broker.event_exchange.node: "running"},
    }


def _protection(broker: Broker, row: VhostRow, header: str) -> dict[str, bool]:
    return {header: row.protected_from_deletion is True} if broker.personality.protection else {}


def _erlang_map(shown: dict[str, Any]) -> str:
    """Return metadata as the plugin prints it: an Erlang map, with tags as atoms."""
    terms = {name: _erlang_term(value) for name, value in sorted(shown.items())}
    return f"#{{{','.join(f'{name} => {printed(term)}' for name, term in terms.items())}}}"


def _erlang_term(value: object) -> Term:
    if isinstance(value, list):
        return list(map(Atom, value))
    return Atom(str(value).lower()) if isinstance(value, bool) else str(value).encode()


def _delete_events(broker: Broker, *, name: str) -> Iterator[ChangeEvent]:
    users = broker.users
    for vhost, user in users.permissions:
        if vhost == name:
            yield ChangeEvent("permission.deleted", {"user": user, "vhost": name})
    for user in dict.fromkeys(user for vhost, user, _ in users.topic_permissions if vhost == name):
        yield ChangeEvent("topic.permission.deleted", {"user": user, "vhost": name})
    yield ChangeEvent("vhost.deleted", {"name": name})
    if broker.user_limits.vhosts.get(name):
        yield from vhost_limits_cleared(name)
    assert broker.event_exchange is not None
    yield ChangeEvent("vhost.down", {"name": name, "node": broker.event_exchange.node}, INTERNAL)


VHOSTS = DefinitionKind(VhostRow, _put, _delete, _put_events, _delete_events)
