"""What is shown of a connection's TLS, in Erlang's words, which RabbitMQ's tools know."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

from broker.session.login import certificate_names
from broker.session.peer import Secured
from broker.wire.amqp_errors import DecodeError


class Suite(NamedTuple):
    """The parts of a cipher suite, such as `ecdhe_rsa`, `aes_256_gcm` and `aead`."""

    key_exchange: str
    cipher: str
    hash: str


def suite(name: str) -> Suite:
    """A cipher suite by OpenSSL's name for it."""
    return _suites().get(name) or Suite("", name, "")


@cache
def _suites() -> dict[str, Suite]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL")
    return {each["name"]: _suite(each) for each in context.get_ciphers()}


def _suite(described: Mapping[str, Any]) -> Suite:
    exchange, proof = described["kea"].removeprefix("kx-"), described["auth"].removeprefix("auth-")
    both = exchange if proof in (exchange, "any", "null") else f"{exchange}_{proof}"
    cipher, mac = described["symmetric"] or "", "aead" if described["aead"] else described["digest"]
    return Suite(both.replace("-", "_"), cipher.replace("-", "_"), mac or "")


def _of_certificate(read: Callable[[bytes], str], secured: Secured) -> str:
    try:
        return "" if secured.certificate is None else read(secured.certificate)
    except DecodeError:
        return ""


def _validity(certificate: bytes) -> str:
    first, last = certificate_names.valid_from(certificate), certificate_names.valid_until(certificate)
    return f"{first:%Y-%m-%dT%H:%M:%SZ} - {last:%Y-%m-%dT%H:%M:%SZ}"


TLS_COLUMNS: dict[str, Callable[[Secured], str]] = {
    "ssl_protocol": lambda secured: secured.version.lower(),
    "ssl_key_exchange": lambda secured: suite(secured.cipher).key_exchange,
    "ssl_cipher": lambda secured: suite(secured.cipher).cipher,
    "ssl_hash": lambda secured: suite(secured.cipher).hash,
    "peer_cert_subject": partial(_of_certificate, certificate_names.subject),
    "peer_cert_issuer": partial(_of_certificate, certificate_names.issuer),
    "peer_cert_validity": partial(_of_certificate, _validity),
}
"""Columns of a connection with TLS."""
