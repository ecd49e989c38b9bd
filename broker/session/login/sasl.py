"""SASL mechanisms: PLAIN, RabbitMQ's AMQPLAIN, EXTERNAL (the name in a certificate), ANONYMOUS; HTTP's Basic."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterable
from typing import NamedTuple

from broker.session.login import certificate_names
from broker.session.login.certificate_names import Naming
from broker.wire.amqp_errors import DecodeError
from broker.wire.field_tables import decode_table

EXTERNAL = "EXTERNAL"
ANONYMOUS = "ANONYMOUS"


class Login(NamedTuple):
    """A user's name and password. The password is None if a certificate has proved the name."""

    user: str
    password: bytes | None

    def __repr__(self) -> str:
        """Leave the password out of logs and tracebacks."""
        return f"Login(user={self.user!r})"


class Malformed(Exception):
    """A malformed SASL response, or a mechanism that was not offered."""


class Unproved(Exception):
    """A certificate that proves no name; the message says why."""


def offered(mechanisms: Iterable[str], *, certificates_asked: bool) -> list[str]:
    """Return the mechanisms that a client is offered: EXTERNAL only if clients are asked for a certificate."""
    return [mechanism for mechanism in mechanisms if certificates_asked or mechanism != EXTERNAL]


def read(mechanism: str, response: bytes) -> Login:
    """Parse a response of PLAIN or AMQPLAIN; any response of ANONYMOUS is a login of RabbitMQ's default user.

    Raises Malformed.
    """
    if mechanism == ANONYMOUS:
        return Login("guest", b"guest")
    return _plain(response) if mechanism == "PLAIN" else _amqplain(response)


def basic(credentials: bytes) -> Login:
    """Parse the credentials of HTTP's scheme Basic (RFC 7617). Raises Malformed."""
    try:
        user, colon, password = base64.b64decode(credentials, validate=True).partition(b":")
    except binascii.Error:
        raise Malformed("credentials that are not base64") from None
    if not colon:
        raise Malformed("credentials without a password")
    return Login(_text(user), password)


def proved(certificate: bytes | None, naming: Naming) -> Login:
    """Return the login of a client by its certificate (DER; None if it has none). Raises Unproved."""
    if certificate is None:
        raise Unproved("connection peer presented no TLS (x.509) certificate")
    try:
        name = certificate_names.login_name(certificate, naming)
    except DecodeError as error:
        raise Unproved("the certificate cannot be read") from error
    if not name:
        raise Unproved("no name found")
    return Login(name, None)


def _plain(response: bytes) -> Login:
    """Parse PLAIN (RFC 4616): authorization identity, which RabbitMQ ignores, user, password, separated by NUL."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise Malformed("malformed PLAIN response")
    return Login(_text(parts[1]), parts[2])


def _amqplain(response: bytes) -> Login:
    """Parse AMQPLAIN: a field table without its length, with the fields LOGIN and PASSWORD."""
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
