"""The two ends of a connection, and its TLS session."""

from __future__ import annotations

from typing import NamedTuple

from broker.wire.field_tables import Table


class Secured(NamedTuple):
    """A TLS session: `certificate` is the client's (DER), verified, or None; `asked`: clients are asked for one."""

    version: str
    cipher: str
    certificate: bytes | None
    asked: bool


class Peer(NamedTuple):
    """Both ends of a connection, as host and port; `secured` is None without TLS, and until its handshake is done.

    A connection within the broker has empty hosts, and a number as its port.
    """

    host: str
    port: int
    local_host: str
    local_port: int
    loopback: bool
    secured: Secured | None = None

    @property
    def within(self) -> bool:
        """True if both ends are in the broker itself."""
        return not self.host

    def __str__(self) -> str:
        if self.within:
            return f"<direct.{self.port}>"
        return f"{_bracketed(self.host)}:{self.port} -> {_bracketed(self.local_host)}:{self.local_port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def client_name(properties: Table, peer: Peer) -> str:
    """Return the name that a client has given its connection; without one its product and host."""
    given = _text(properties, "connection_name")
    return given or f"{_text(properties, 'product') or 'a client'} from {peer.host or 'the broker itself'}"


def _text(properties: Table, name: str) -> str:
    field = properties.get(name)
    return field.value.decode("utf-8", "replace") if field is not None and field.kind == "S" else ""
