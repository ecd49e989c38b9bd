"""Announces that the broker is ready, and that it stops: on standard output, and to systemd if that started it.

systemd's protocol is that of sd_notify(3): datagrams of VARIABLE=VALUE to the socket that NOTIFY_SOCKET names.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import trio

from broker.config import Address
from broker.server import resource_alarms

log = logging.getLogger("leveret.server")

Addresses = list[tuple[str, int]]


class Readiness:
    """Announces the broker's state. `also` is called when all of it is ready, HTTP too."""

    def __init__(
        self,
        environ: Mapping[str, str],
        also: Callable[[], None] | None = None,
        settings_files: Sequence[Path] = (),
    ) -> None:
        self.settings_files = settings_files
        """The files that the settings were read from."""
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._watchdog_seconds = _watchdog_seconds(environ) if address else 0.0
        self._also = also
        self._announced = False

    def accepting(self, plain: Addresses, secured: Addresses, data: Path) -> None:
        """Announce the addresses for AMQP clients, which are accepted from now on."""
        urls = [url("amqp", *address) for address in plain] + [url("amqps", *address) for address in secured]
        start = resource_alarms.process_age_seconds()
        if not self._announced:  # a start in the same process, after rabbitmqctl stop_app, has no further line
            self._announced = True
            took = f" start={start:.2f}s" if start else ""  # macOS does not tell
            sys.stdout.write(f"leveret ready: {','.join(urls)} data={data} pid={os.getpid()}{took}\n")
            sys.stdout.flush()
        self._notify(f"STATUS=listening on {' '.join(urls)}")

    def following(self, place: str, data: Path) -> None:
        """Announce that a standby follows a place, and can be asked and promoted from now on."""
        sys.stdout.write(f"leveret follows: {place} data={data} pid={os.getpid()}\n")
        sys.stdout.flush()
        self._notify(f"READY=1\nSTATUS=following {place}")

    def ready(self) -> None:
        """Announce that all listeners are open, HTTP too."""
        self._notify("READY=1")
        if self._also is not None:
            self._also()

    def stopping(self) -> None:
        """Announce that the broker is stopping."""
        self._notify("STOPPING=1\nSTATUS=stopping")

    async def feed_watchdog(self) -> None:
        """Tell systemd's watchdog at intervals that the event loop runs, until cancelled; return if it has none."""
        while self._watchdog_seconds:
            self._notify("WATCHDOG=1")
            await trio.sleep(self._watchdog_seconds / 2)

    def _notify(self, state: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                channel.setblocking(False)
                channel.sendto(state.encode(), self._address)
        except OSError as error:
            log.warning("systemd cannot be notified (NOTIFY_SOCKET): %s", error.strerror)


def _watchdog_seconds(environ: Mapping[str, str]) -> float:
    """Return the silence in seconds after which systemd takes this process for hung; 0: it never does."""
    microseconds, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not microseconds.isdecimal() or pid not in ("", str(os.getpid())):
        return 0.0
    return int(microseconds) / 1_000_000


def url(scheme: str, host: str, port: int) -> str:
    """Return the URL of an address."""
    return f"{scheme}://{Address(host, port)}"
