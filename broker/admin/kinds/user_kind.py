"""Users, with their limits in definitions files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from broker.admin.kinds import limit_kind
from broker.admin.kinds.change_event import ChangeEvent
from broker.admin.kinds.definition_entry import DefinitionEntry, Name
from broker.admin.kinds.definition_kind import DefinitionKind
from broker.admin.kinds.values import separated
from broker.admin.protocol import invalid
from broker.entities.node.broker import Broker
from broker.entities.node.user_limits import OF_USERS
from broker.entities.node.users import User
from broker.session.login.passwords import ALGORITHMS, MD5, SHA256, hash_password, verify
from storage.definitions.definition_rows import Put, UserLimitRow, UserRow

PROTECTED = "protected"
"""The tag of users that the HTTP API may not change."""


def is_protected(broker: Broker, name: str) -> bool:
    """Return True if there is such a user, and the HTTP API may not change it."""
    user = broker.users.by_name.get(name)
    return broker.personality.protection and user is not None and PROTECTED in user.tags


_OF_MD5 = re.compile(r"3\.[0-5]\.")


class UserEntry(DefinitionEntry, frozen=True):
    """A user, with a hash or (as people write such files by hand) with a password."""

    name: Name
    password_hash: str = ""
    password: str = ""
    hashing_algorithm: str = ""
    """Empty: that of the RabbitMQ that wrote the file."""
    tags: list[str] | str = ""
    limits: dict[str, int] | list[Any] = {}

    def check(self, broker: Broker) -> None:
        """Raise AdministrationError for an unknown hashing algorithm, or for limits that a user cannot have."""
        if self.hashing_algorithm not in ("", *ALGORITHMS):
            raise invalid(f"hashing algorithm {self.hashing_algorithm} is not known; known: {', '.join(ALGORITHMS)}")
        limit_kind.checked(self.limits or {}, OF_USERS, "user-limits")

    def of_version(self, rabbitmq_version: str) -> UserEntry:
        """Return the entry with the algorithm that files of a version of RabbitMQ do not name: MD5 before 3.6."""
        if self.hashing_algorithm:
            return self
        return msgspec.structs.replace(self, hashing_algorithm=MD5 if _OF_MD5.match(rabbitmq_version) else SHA256)

    def changes(self, broker: Broker) -> Iterator[Put]:
        """Yield the user and its limits; limits that the entry does not name stay."""
        yield Put(self._row(broker.users.by_name.get(self.name)))
        yield from (Put(UserLimitRow(self.name, *limit)) for limit in dict(self.limits).items())

    def _row(self, there: User | None) -> UserRow:
        """Every hash of a password is another one: a user who has the password of the file keeps the hash."""
        tags = separated(self.tags)
        if not self.password or self.password_hash:
            return UserRow(self.name, self.password_hash, self.hashing_algorithm, tags)
        given = self.password.encode("utf-8", "surrogateescape")
        if there is not None and verify(given, there.password_hash, there.hashing_algorithm):
            return UserRow(*there)._replace(tags=tags)
        return UserRow(self.name, hash_password(given), SHA256, tags)


def exported(broker: Broker) -> list[dict[str, Any]]:
    """Return all users as definitions files have them, with the hashes of their passwords."""
    limited = broker.user_limits.users
    return [
        {**user._asdict(), "tags": list(user.tags), "limits": limited.get(user.name, {})}
        for user in broker.users.by_name.values()
    ]


# Effect


def _put(broker: Broker, row: UserRow) -> None:
    broker.users.by_name[row.name] = User(*row)


def _delete(broker: Broker, by: str, *, name: str) -> None:
    if name in broker.users.by_name:
        broker.users.forget_user(name)
    broker.user_limits.users.pop(name, None)


# Events


def _put_events(broker: Broker, row: UserRow) -> Iterator[ChangeEvent]:
    before = broker.users.by_name.get(row.name)
    named = {"name": row.name}
    if before is None:
        yield ChangeEvent("user.created", named)
    elif before.password_hash != row.password_hash:
        yield ChangeEvent("user.password.changed" if row.password_hash else "user.password.cleared", named)
    if row.tags != (() if before is None else before.tags):
        yield ChangeEvent("user.tags.set", {**named, "tags": list(row.tags)})


def _delete_events(broker: Broker, *, name: str) -> Iterator[ChangeEvent]:
    yield ChangeEvent("user.deleted", {"name": name})


USERS = DefinitionKind(UserRow, _put, _delete, _put_events, _delete_events)
