"""SASL mechanisms: PLAIN, RabbitMQ's AMQPLAIN, EXTERNAL (the name in the client's certificate), and HTTP's Basic."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterable
from typing import NamedTuple

from broker.entities.node.users import User
from broker.session.login import certificate_names, passwords
from broker.session.login.certificate_names import Naming
from broker.wire.amqp_errors import DecodeError
from broker.wire.field_tables import decode_table

EXTERNAL = "EXTERNAL"
INVALID = "invalid credentials"


class Login(NamedTuple):
    """A name and the password given for it; None: a certificate has proved the name."""

    user: str
    password: bytes | None

    def __repr__(self) -> str:
        """Without the password, wherever it is printed."""
        return f"Login(user={self.user!r})"


class Malformed(Exception):
    """A response that is not of its mechanism's form, or a mechanism that was not offered."""


class Unproved(Exception):
    """A certificate that proves no name; the message says why."""


def offered(mechanisms: Iterable[str], *, certificates_asked: bool) -> list[str]:
    """Those of the mechanisms that a client is offered: EXTERNAL only where a certificate can have been shown."""
    return [mechanism for mechanism in mechanisms if certificates_asked or mechanism != EXTERNAL]


def read(mechanism: str, response: bytes) -> Login:
    """Take a response with a password apart: PLAIN's, or else AMQPLAIN's. Raises Malformed."""
    return _plain(response) if mechanism == "PLAIN" else _amqplain(response)


def basic(credentials: bytes) -> Login:
    """Take the credentials of HTTP's scheme Basic apart (RFC 7617). Raises Malformed."""
    try:
        user, colon, password = base64.b64decode(credentials, validate=True).partition(b":")
    except binascii.Error:
        raise Malformed("credentials that are not base64") from None
    if not colon:
        raise Malformed("credentials without a password")
    return Login(_text(user), password)


def proved(certificate: bytes | None, naming: Naming) -> Login:
    """The login of a client by its certificate. Raises Unproved."""
    if certificate is None:
        raise Unproved("connection peer presented no TLS (x.509) certificate")
    try:
        name = certificate_names.login_name(certificate, naming)
    except DecodeError as error:
        raise Unproved("the certificate cannot be read") from error
    if not name:
        raise Unproved("no name found")
    return Login(name, None)


def refusal(user: User | None, login: Login, loopback_users: frozenset[str], *, loopback: bool) -> str | None:
    """Why a login is refused, for the log alone; None when it is not.

    An unknown name takes as long as a wrong password, so that names cannot be found by timing.
    """
    if login.password is not None:
        hashed = passwords.NOBODYS if user is None else (user.password_hash, user.hashing_algorithm)
        if not passwords.verify(login.password, *hashed):
            return INVALID
    if user is None:
        return INVALID
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
