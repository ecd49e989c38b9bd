"""The two ends of a connection, and what TLS says of it."""

from __future__ import annotations

from typing import NamedTuple


class Secured(NamedTuple):
    """What TLS says of a connection. `certificate` is the client's (DER), checked, or None.

    `asked` says that clients are asked for one.
    """

    version: str
    cipher: str
    certificate: bytes | None
    asked: bool


class Peer(NamedTuple):
    """Both ends of a connection, as host and port; `secured` is None without TLS, and until its handshake is done.

    One within the broker has no hosts, and a number for its port.
    """

    host: str
    port: int
    local_host: str
    local_port: int
    loopback: bool
    secured: Secured | None = None

    @property
    def within(self) -> bool:
        """Both ends are in the broker itself."""
        return not self.host

    def __str__(self) -> str:
        if self.within:
            return f"<direct.{self.port}>"
        return f"{self.host}:{self.port} -> {self.local_host}:{self.local_port}"
