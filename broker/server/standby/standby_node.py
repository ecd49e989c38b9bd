"""`leveret follow`: a node that follows a second place, until it stops or is promoted.

It answers commands and HTTP from what it has, and refuses what would change that. AMQP is not listened to. A promotion
ends it; whoever has run it then runs the broker on its data directory, in the same process.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

from broker.admin.protocol import AdministrationError
from broker.config import Config
from broker.server import admin_socket, directory_lock, resource_alarms
from broker.server.net.bound_listeners import Listeners
from broker.server.serve import STOP_SIGNALS, bind_listeners, handle_signals, listen_http
from broker.server.shipping import shipping
from broker.server.shipping.second_place import open_place
from broker.server.shovels import shovel_host
from broker.server.standby.follow_thread import FollowThread
from broker.server.standby.follower import Promotion
from broker.server.standby.standby_http import StandbyHttp
from broker.server.standby.standby_view import StandbyView, copied
from broker.server.start.readiness import Readiness
from broker.wire.field_tables import Table
from storage.ship.standby.follow_note import read_note

log = logging.getLogger("leveret.standby")

SCRATCH = "standby.copies"
"""The directory of copies of the definitions, in the data directory."""
LAST_ANSWERS_SECONDS = 1.0
"""Time in which callers take their last answers, when a promotion ends the standby."""


class StandbyNode:
    """A standby as commands see it: `StandbyControl`."""

    def __init__(self, place: str, directory: Path) -> None:
        self.read_only = f"this is a standby that follows {place}: it changes by that alone, until `leveret promote`"
        self._place = place
        self.promoted: Promotion | None = None
        self.failure: Exception | None = None
        """An unforeseen exception that has ended the following."""
        self.ends = trio.Event()
        """Set once it was promoted, or has failed."""
        self._directory = directory
        self._token = trio.lowlevel.current_trio_token()
        self.view: StandbyView
        self.thread: FollowThread

    def connect(self, config: Config, thread: FollowThread) -> None:
        """Set the thread that follows, and make the view of what it has."""
        self._config = config
        self.thread = thread
        self.view = StandbyView(config, thread, self, self._directory / SCRATCH)

    def state(self) -> dict[str, Any]:
        """Return how far the place is followed."""
        return self.thread.state()

    async def promote(self, *, without_place: bool) -> dict[str, Any]:
        """Make this node the broker. Raises StoreError and OSError; then it follows on."""
        began = time.monotonic()
        self.view.leave()
        try:
            promotion = await trio.to_thread.run_sync(partial(self.thread.promote, without_place=without_place))
        except OSError as error:
            raise AdministrationError("failed", f"{self._place}: {error}") from error
        shown = promotion.shown()
        log.info("promoted at position %s, %s", shown["position"], shown["moment"])
        self.promoted = promotion
        self.ends.set()
        return {**shown, "took_seconds": round(time.monotonic() - began, 3)}

    async def copy_stores(self, directory: Path) -> None:
        """Copy both stores into a new directory. It does not follow meanwhile."""
        scratch = self._directory / SCRATCH
        self.view.leave()
        await trio.to_thread.run_sync(self.thread.call, partial(copied, scratch, directory))

    def before_close(self) -> None:
        """End what reads the stores; called by the thread that follows."""
        with suppress(trio.RunFinishedError, trio.Cancelled):
            trio.from_thread.run(self.view.retire, trio_token=self._token)

    def fail(self, error: Exception) -> None:
        """End the node, so that whoever supervises it starts it again; called by the thread that follows."""
        self.failure = error
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self.ends.set)


def follow(config: Config, place: str, settings_files: Sequence[Path] = ()) -> bool:
    """Follow a place into the data directory of the settings. True once it was promoted, or if it was before.

    Raises StoreError, ConfigError, ListenError and OSError if it cannot be followed, or not into this directory.
    """
    os.umask(0o077)
    resource_alarms.raise_open_files_limit()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    shovel_host.check(config.shovels)
    shipping.check(config)  # of the broker that it is to become
    directory = config.server.directory
    lock = directory_lock.lock(directory)
    try:
        note = read_note(directory)
        if note is not None and note.promoted:
            log.info("%s was promoted before: it is the broker's", directory)
            return True
        return trio.run(_follow, config, place, directory)
    finally:
        os.close(lock)


async def _follow(config: Config, place: str, directory: Path) -> bool:
    readiness = Readiness(os.environ)
    bound = bind_listeners(_without_amqp(config))
    try:
        with closing(open_place(config.ship, place)) as target:
            node = StandbyNode(place, directory)
            node.connect(_read_only(config), FollowThread(target, place, directory, node.before_close, node.fail))
            with (
                trio.open_signal_receiver(*STOP_SIGNALS, signal.SIGHUP, signal.SIGUSR1) as signals,
                closing(node.view),
                admin_socket.listening(directory) as operators,
            ):
                await trio.to_thread.run_sync(node.thread.start)
                try:
                    await _answer(config, node, bound, operators, readiness, signals)
                finally:
                    with trio.CancelScope(shield=True):
                        await trio.to_thread.run_sync(node.thread.stop)
            if node.failure is not None:
                raise AdministrationError("failed", f"following {place} ended: {node.failure!r}") from node.failure
            return node.promoted is not None
    finally:
        bound.close()


async def _answer(
    config: Config,
    node: StandbyNode,
    bound: Listeners,
    operators: trio.SocketListener,
    readiness: Readiness,
    signals: AsyncIterator[int],
) -> None:
    """Answer commands and HTTP until a signal to stop, or a promotion."""
    async with trio.open_nursery() as callers:
        async with trio.open_nursery() as nursery:
            node.view.attach(nursery)
            nursery.start_soon(_end_on_signal, signals, bound, readiness, nursery.cancel_scope)
            accept = partial(trio.serve_listeners, partial(_serve_caller, node), [operators], handler_nursery=callers)
            nursery.start_soon(accept)
            web = StandbyHttp(config, node.view, node.read_only, nursery)
            listen_http(web.sites, node.view.addresses, bound)
            readiness.following(node.state()["follows"], config.server.directory)
            nursery.start_soon(readiness.feed_watchdog)
            await node.ends.wait()
            bound.close()
            nursery.cancel_scope.cancel()
        seconds = LAST_ANSWERS_SECONDS if node.promoted is not None else 0.0
        callers.cancel_scope.deadline = trio.current_time() + seconds


async def _end_on_signal(
    signals: AsyncIterator[int], bound: Listeners, readiness: Readiness, running: trio.CancelScope
) -> None:
    await handle_signals(signals, bound, readiness)
    running.cancel()


async def _serve_caller(node: StandbyNode, stream: trio.SocketStream) -> None:
    try:
        async with node.view.looking() as look:
            await admin_socket.serve_caller(look.server.administration, _never, stream)
    except AdministrationError as error:
        await admin_socket.refuse_caller(stream, error)


def _never(_socket: object, _vhost: str, _properties: Table) -> None:
    raise AssertionError("a standby refuses AMQP before")


def _without_amqp(config: Config) -> Config:
    replace = msgspec.structs.replace
    return replace(config, server=replace(config.server, listen=()), tls=replace(config.tls, listen=()))


def _read_only(config: Config) -> Config:
    """Return the settings of a broker that only shows what is there: it ships nothing, and runs no shovels."""
    replace = msgspec.structs.replace
    events = replace(config.events, enabled=False)
    return replace(_without_amqp(config), ship=replace(config.ship, to=""), events=events, shovels={})
