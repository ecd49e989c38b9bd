"""AMQP URIs, parsed as by RabbitMQ's client (`amqp_uri`), with its texts for malformed ones.

`amqp://user:password@host:port/vhost?heartbeat=10`, `amqps://...?cacertfile=...`. Without a host it is the broker
itself.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from broker.credentials import without_credentials

AMQP_PORT, AMQPS_PORT = 5672, 5671
HEARTBEAT_SECONDS = 10
CONNECT_SECONDS = 60.0
_PARTS = re.compile(
    r"(?P<scheme>[^:/?#]+):(//((?P<user>[^@/?#]*)@)?(?P<host>\[[^]]*\]|[^:/?#]*)(:(?P<port>[0-9]*))?)?"
    r"(?P<path>/[^?#]*)?(\?(?P<query>[^#]*))?.*",
    re.DOTALL,
)
_ESCAPE = re.compile("%(..?)?", re.DOTALL)
_FILES = ("cacertfile", "certfile", "keyfile")
_VERIFY = ("verify_peer", "verify_none")


class UriError(Exception):
    """A malformed AMQP URI; the message is RabbitMQ's, in Erlang's notation, without credentials."""


class ClientTls(NamedTuple):
    """TLS parameters: files in PEM. Without `verify` any certificate is accepted; `name` is the host it must name."""

    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    key_password: str = ""
    verify: bool = True
    name: str | None = None

    def __repr__(self) -> str:
        """Leave the key's password out of logs and tracebacks."""
        return f"ClientTls(name={self.name!r}, verify={self.verify})"


class AmqpEndpoint(NamedTuple):
    """A parsed URI: broker, user, virtual host, parameters. Times are seconds; `host` is None for the broker itself."""

    uri: str
    """The URI without credentials and parameters, for messages."""
    host: str | None
    port: int
    user: str | None
    password: str | None
    vhost: str
    tls: ClientTls | None = None
    heartbeat: int = HEARTBEAT_SECONDS
    frame_max: int = 0
    connect_seconds: float = CONNECT_SECONDS
    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN")

    def __repr__(self) -> str:
        """Leave the password out of logs and tracebacks."""
        return f"AmqpEndpoint(uri={self.uri!r})"


def parse(uri: str) -> AmqpEndpoint:
    """Parse a URI. Raises UriError."""
    try:
        return _parse(uri)
    except UriError as error:
        raise UriError(f'{{{error},"{without_credentials(uri)}"}}') from None


def _parse(uri: str) -> AmqpEndpoint:
    parts = _PARTS.fullmatch(uri)
    if parts is None:
        raise UriError("{unable_to_parse_uri,no_scheme}")
    scheme = parts["scheme"].lower()
    if scheme not in ("amqp", "amqps"):
        raise UriError(f'{{unexpected_uri_scheme,"{scheme}"}}')
    secure = scheme == "amqps"
    host = _unescaped(parts["host"] or "").strip("[]")
    if parts["port"] and not host:
        raise UriError("port_requires_host")
    user, _, password = (parts["user"] or "").partition(":")
    query = _query(parts["query"] or "")
    return AmqpEndpoint(
        f"{parts['scheme']}://{parts['host'] or ''}{':' + parts['port'] if parts['port'] else ''}{parts['path'] or ''}",
        host or None,
        _port(parts["port"], AMQPS_PORT if secure else AMQP_PORT),
        _unescaped(user) if user else None,
        _unescaped(password) if password else None,
        _vhost(parts["path"]),
        _tls(query, host) if secure else None,
        _number(query, "heartbeat", HEARTBEAT_SECONDS),
        _number(query, "frame_max", 0),
        _number(query, "connection_timeout", int(CONNECT_SECONDS * 1000)) / 1000,
        tuple(value.upper() for name, value in query if name == "auth_mechanism") or ("PLAIN", "AMQPLAIN"),
    )


def _port(text: str | None, default: int) -> int:
    port = int(text) if text else default
    if not 0 < port <= 65535:
        raise UriError(f"{{port_out_of_range,{port}}}")
    return port


def _vhost(path: str | None) -> str:
    if path is None:
        return "/"
    if "/" in path[1:]:
        raise UriError(f'{{invalid_vhost,"{path[1:].rpartition("@")[2]}"}}')
    return _unescaped(path[1:])


def _query(text: str) -> list[tuple[str, str]]:
    pairs = [part.partition("=") for part in text.split("&") if part]
    return [(name, _unescaped(value)) for name, _, value in pairs]


def _number(query: list[tuple[str, str]], wanted: str, default: int) -> int:
    value = dict(query).get(wanted)
    if value is None:
        return default
    try:
        return int(value)
    except ValueError:
        hidden = without_credentials([{name: given} for name, given in query])
        shown = ",".join(f'{{"{name}","{given}"}}' for pair in hidden for name, given in pair.items())
        reason = f'{{not_an_integer,"{value}"}}'
        raise UriError(f'{{invalid_amqp_params_parameter,{wanted},"{value}",[{shown}],{reason}}}') from None


def _tls(query: list[tuple[str, str]], host: str) -> ClientTls:
    given = dict(query)
    verify = given.get("verify", "verify_peer")
    if verify not in _VERIFY:
        raise UriError(f'{{invalid_ssl_parameter,verify,"{verify}"}}')
    name = given.get("server_name_indication", host)
    authority, certificate, key, password = (given.get(each, "") for each in (*_FILES, "password"))
    return ClientTls(
        authority, certificate, key, password, verify == "verify_peer", None if name == "disable" else name
    )


def _unescaped(text: str) -> str:
    raw = bytearray()
    at = 0
    for found in _ESCAPE.finditer(text):
        raw += text[at : found.start()].encode("utf-8", "surrogateescape")
        raw.append(_byte(found[1] or ""))
        at = found.end()
    return (raw + text[at:].encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _byte(digits: str) -> int:
    try:
        if len(digits) == 2:
            return int(digits, 16)
    except ValueError:
        raise UriError(f"{{invalid_entitiy,['%',{','.join(str(ord(digit)) for digit in digits)}]}}") from None
    shown = ",".join(map(str, (37, *map(ord, digits))))
    raise UriError(f"{{unterminated_entity,[{shown}]}}")
