"""Names in a client's certificate, of which one is the user that logs in, written as RabbitMQ writes them.

A distinguished name is the string of RFC 4514, last part first. Where that leaves a choice it is RabbitMQ's:
keywords for the attribute types that it knows and numbers for the others, all outside printable ASCII escaped.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from broker.wire import der
from broker.wire.amqp_errors import DecodeError
from broker.wire.der import Element

COMMON_NAME = "2.5.4.3"
ALTERNATIVE_NAMES = "2.5.29.17"
VERSION, EXTENSIONS = 0xA0, 0xA3
"""Tags of a certificate's optional fields."""

_KEYWORDS = {
    COMMON_NAME: "CN",
    "2.5.4.4": "SN",
    "2.5.4.5": "SERIALNUMBER",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.12": "TITLE",
    "2.5.4.42": "GIVENNAME",
    "2.5.4.43": "INITIALS",
    "2.5.4.44": "GENERATIONQUALIFIER",
    "2.5.4.65": "PSEUDONYM",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
    "1.2.840.113549.1.9.1": "EMAILADDRESS",
}
_SPECIAL = b'"+,;<>\\'


class Naming(NamedTuple):
    """The field of a certificate that names the user: `tls.login_from` and the settings behind it."""

    source: str = "distinguished_name"
    alternative_type: str = "dns"
    alternative_index: int = 0


class Attribute(NamedTuple):
    """One part of a distinguished name: the object identifier of its type, and its value."""

    type: str
    value: str


def login_name(certificate: bytes, naming: Naming) -> str | None:
    """Return the user that a certificate (DER) names; None if the field is missing. Raises DecodeError."""
    if naming.source == "distinguished_name":
        return subject(certificate)
    if naming.source == "common_name":
        with _readable():
            names = [part.value for parts in _subject(certificate) for part in parts if part.type == COMMON_NAME]
        return ",".join(names) or None
    names = alternative_names(certificate, naming.alternative_type)
    return names[naming.alternative_index] if naming.alternative_index < len(names) else None


def subject(certificate: bytes) -> str:
    """The distinguished name of the certificate's owner. Raises DecodeError."""
    with _readable():
        return _distinguished(_subject(certificate))


def issuer(certificate: bytes) -> str:
    """The distinguished name of the authority that signed it. Raises DecodeError."""
    with _readable():
        return _distinguished(_names(_fields(certificate)[2]))


def serial_number(certificate: bytes) -> str:
    """Return the number that the authority gave the certificate, in decimal digits. Raises DecodeError."""
    with _readable():
        return str(int.from_bytes(_fields(certificate)[0].content, signed=True))


def valid_from(certificate: bytes) -> datetime:
    """Return the start of the certificate's validity. Raises DecodeError."""
    with _readable():
        return _time(_fields(certificate)[3].inside[0])


def valid_until(certificate: bytes) -> datetime:
    """Return the end of the certificate's validity. Raises DecodeError."""
    with _readable():
        return _time(_fields(certificate)[3].inside[1])


def _time(element: Element) -> datetime:
    digits = element.content.decode("ascii", "replace").removesuffix("Z")
    if element.tag == der.UTC_TIME:
        digits = ("19" if digits >= "50" else "20") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def alternative_names(certificate: bytes, kind: str) -> list[str]:
    """Return the alternative names of one kind: dns, email, uri, ip or other_name. Raises DecodeError."""
    tag, read = _KINDS[kind]
    with _readable():
        return [read(name) for name in _alternative_names(certificate) if name.tag == tag]


def _alternative_names(certificate: bytes) -> Iterator[Element]:
    for extensions in (field for field in _fields(certificate) if field.tag == EXTENSIONS):
        for extension in extensions.inside[0].inside:
            parts = extension.inside
            if der.object_identifier(parts[0].content) == ALTERNATIVE_NAMES:
                yield from der.elements(parts[-1].content)[0].inside


@contextmanager
def _readable() -> Iterator[None]:
    """Turn the errors of reading a malformed certificate into DecodeError."""
    try:
        yield
    except (IndexError, ValueError) as error:
        raise DecodeError("not a certificate") from error


def _fields(certificate: bytes) -> list[Element]:
    """Return serial number, algorithm, issuer, validity, subject, key and extensions; the version is left out."""
    fields = [field for field in der.elements(certificate)[0].inside[0].inside if field.tag != VERSION]
    if len(fields) < 6:
        raise DecodeError("not a certificate")
    return fields


def _subject(certificate: bytes) -> list[list[Attribute]]:
    return _names(_fields(certificate)[4])


def _names(element: Element) -> list[list[Attribute]]:
    return [[_attribute(part) for part in parts.inside] for parts in element.inside]


def _distinguished(names: list[list[Attribute]]) -> str:
    parts = [[f"{_keyword(part)}={_escaped(part.value)}" for part in some] for some in names]
    return ",".join("+".join(some) for some in reversed(parts))


def _attribute(part: Element) -> Attribute:
    kind, value = part.inside
    return Attribute(der.object_identifier(kind.content), der.text(value))


def _keyword(part: Attribute) -> str:
    return _KEYWORDS.get(part.type, part.type)


def _escaped(value: str) -> str:
    raw = value.encode("utf-8", "surrogateescape")
    return "".join(_escaped_byte(byte, first=at == 0, last=at == len(raw) - 1) for at, byte in enumerate(raw))


def _escaped_byte(byte: int, *, first: bool, last: bool) -> str:
    if byte in _SPECIAL or (first and byte in b" #") or (last and byte in b" "):
        return "\\" + chr(byte)
    return chr(byte) if 32 <= byte < 126 else f"\\{byte:02X}"


def _plain(name: Element) -> str:
    return name.content.decode("utf-8", "surrogateescape")


def _address(name: Element) -> str:
    return str(ipaddress.ip_address(name.content))


def _other(name: Element) -> str:
    """Return the value of an otherName, which is nested in an element of its own."""
    return der.text(name.inside[1].inside[0])


_KINDS: dict[str, tuple[int, Callable[[Element], str]]] = {
    "other_name": (0xA0, _other),
    "email": (0x81, _plain),
    "dns": (0x82, _plain),
    "uri": (0x86, _plain),
    "ip": (0x87, _address),
}
"""Kinds of alternative names as in `tls.login_san_type`: tag, and the function that reads the name."""
