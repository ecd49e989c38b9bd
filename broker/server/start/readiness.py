"""Announces that the broker is ready, and that it stops: on standard output, and to systemd where that started it.

To systemd it speaks the protocol of sd_notify(3): datagrams of VARIABLE=VALUE to the socket that NOTIFY_SOCKET names.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import trio

from broker.server import resource_alarms

log = logging.getLogger("leveret.server")

Addresses = list[tuple[str, int]]


class Readiness:
    """What hears how the broker is. `also` is called when all of it is ready."""

    def __init__(
        self,
        environ: Mapping[str, str],
        also: Callable[[], None] | None = None,
        settings_files: Sequence[Path] = (),
    ) -> None:
        self.settings_files = settings_files
        """Where the settings were read from."""
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._watchdog_seconds = _watchdog_seconds(environ) if address else 0.0
        self._also = also

    def accepting(self, plain: Addresses, secured: Addresses, data: Path) -> None:
        """AMQP clients can connect, at these addresses."""
        urls = [url("amqp", *address) for address in plain] + [url("amqps", *address) for address in secured]
        start = resource_alarms.process_age_seconds()
        sys.stdout.write(f"leveret ready: {','.join(urls)} data={data} pid={os.getpid()} start={start:.2f}s\n")
        sys.stdout.flush()
        self._notify(f"STATUS=listening on {' '.join(urls)}")

    def ready(self) -> None:
        """Everything is open, HTTP too."""
        self._notify("READY=1")
        if self._also is not None:
            self._also()

    def stopping(self) -> None:
        """The broker has begun to stop."""
        self._notify("STOPPING=1\nSTATUS=stopping")

    async def feed_watchdog(self) -> None:
        """Say again and again that the event loop turns, until cancelled; nothing where systemd does not ask for it."""
        while self._watchdog_seconds:
            self._notify("WATCHDOG=1")
            await trio.sleep(self._watchdog_seconds / 2)

    def _notify(self, state: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.setblocking(False)
                channel.sendto(state.encode(), self._address)
        except OSError as error:
            log.warning("systemd cannot be notified (NOTIFY_SOCKET): %s", error.strerror)


def _watchdog_seconds(environ: Mapping[str, str]) -> float:
    """After what silence systemd takes this process for hung; 0: never."""
    microseconds, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not microseconds.isdecimal() or pid not in ("", str(os.getpid())):
        return 0.0
    return int(microseconds) / 1_000_000


def url(scheme: str, host: str, port: int) -> str:
    """An address as it is written in a URL."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
