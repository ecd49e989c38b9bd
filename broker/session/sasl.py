"""Who a client says it is: PLAIN and RabbitMQ's AMQPLAIN."""

from __future__ import annotations

import struct
from typing import NamedTuple

from broker.entities.users import User
from broker.session import passwords
from broker.wire.errors import DecodeError
from broker.wire.tables import decode_table

MECHANISMS = b"PLAIN AMQPLAIN"


class Login(NamedTuple):
    """A name and the password given for it."""

    user: str
    password: bytes


class Malformed(Exception):
    """A response that is not of its mechanism's form, or a mechanism nobody offered."""


def read(mechanism: str, response: bytes) -> Login:
    """Take a mechanism's response apart. Raises Malformed."""
    if mechanism == "PLAIN":
        return _plain(response)
    if mechanism == "AMQPLAIN":
        return _amqplain(response)
    raise Malformed(f"unknown authentication mechanism '{mechanism}'")


def refusal(user: User | None, login: Login, loopback_users: frozenset[str], *, loopback: bool) -> str | None:
    """Why a login is refused, for the log alone; None when it is not."""
    if user is None or not passwords.verify(login.password, user.password_hash, user.hashing_algorithm):
        return "invalid credentials"
    if login.user in loopback_users and not loopback:
        return "can only connect via localhost"
    return None


def _plain(response: bytes) -> Login:
    """RFC 4616: authorization identity, which RabbitMQ ignores, user and password, apart by NUL."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise Malformed("malformed PLAIN response")
    return Login(_text(parts[1]), parts[2])


def _amqplain(response: bytes) -> Login:
    """A field table without its length, with LOGIN and PASSWORD in it."""
    try:
        table, _ = decode_table(struct.pack(">I", len(response)) + response, 0)
    except DecodeError as error:
        raise Malformed("malformed AMQPLAIN response") from error
    user, password = table.get("LOGIN"), table.get("PASSWORD")
    if user is None or password is None or user.kind != "S" or password.kind != "S":
        raise Malformed("AMQPLAIN response without LOGIN and PASSWORD")
    return Login(_text(user.value), password.value)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
