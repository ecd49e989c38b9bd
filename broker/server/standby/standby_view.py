"""The followed stores as a broker that serves no clients, for commands and the HTTP API: a *look*, made when asked for.

A look is what a start would recover from the stores at one moment. Another one is made for a request, if changes have
come since the last one and that is old enough. It reads the stores while requests use it, so they end before the
stores are closed for a new base.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio

from broker.admin.administration import StandbyControl
from broker.admin.protocol import AdministrationError
from broker.config import Config
from broker.management.application import application
from broker.management.management_api import ManagementApi
from broker.management.rows.node_rows import node_figures
from broker.management.segment_files import SegmentFiles
from broker.management.statistics.history import StatisticsHistory
from broker.server.engine import Wakeup
from broker.server.http.asgi_exchange import Application
from broker.server.http.http_services import management_settings
from broker.server.recovery import DEFINITIONS_FILE, Stores, recover_for_reading
from broker.server.server import Server
from broker.server.standby.follow_thread import FollowThread
from broker.server.stoppable_application import PROTOCOLS
from broker.server.store_copies import copy_stores
from storage.batch import LaneState
from storage.definitions.definition_store import DefinitionStore
from storage.messages.message_store import MessageStore
from storage.ship.standby.followed_store import FollowedStore
from storage.storage_errors import StoreError

FRESH_SECONDS, FRESH_SECONDS_MAX = 1.0, 10.0
"""Time for which a look is good, though changes have come: FRESH_FACTOR times as long as it took, within these."""
FRESH_FACTOR = 10.0
NO_LOCK = -1
_SCOPE = ContextVar[trio.CancelScope]("the scope of a request that looks at a standby")


class _Contents(NamedTuple):
    """The parts of a look: a copy of the definitions, None as long as they are the same, and the messages."""

    definitions: Path | None
    transaction: int
    messages: MessageStore
    lanes: Mapping[int, Mapping[int, LaneState]]
    position: tuple[int, int]


class Look:
    """One look. `position` is the boot and the position of the last change that it has."""

    def __init__(self, server: Server, position: tuple[int, int]) -> None:
        self.server = server
        self.position = position
        self.made = time.monotonic()
        self.api = _api(server)
        self.application: Application = application(self.api)


class StandbyView:
    """Gives looks to requests. `scratch` is a directory for copies of the definitions, which is emptied."""

    def __init__(self, config: Config, thread: FollowThread, control: StandbyControl, scratch: Path) -> None:
        self._config = config
        self._thread = thread
        self._control = control
        self._scratch = scratch
        self._look: Look | None = None
        self._fresh_seconds = FRESH_SECONDS
        self._retirements = 0
        self._making = trio.Lock()
        self._scopes: set[trio.CancelScope] = set()
        self._idle = trio.Event()
        self._definitions: list[DefinitionStore] = []
        """The copy of the present look, and the one before it, which requests may still read."""
        self._transaction = -1
        self._copies = 0
        self._nursery: trio.Nursery | None = None
        self.addresses: dict[str, list[tuple[str, int]]] = {protocol: [] for protocol in PROTOCOLS}
        """Addresses that are listened on, by protocol."""
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(mode=0o700)

    def attach(self, nursery: trio.Nursery) -> None:
        """Set the nursery that a look's parts are made with; none of them runs in it."""
        self._nursery = nursery

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[Look]:
        """Give a look to a request. The body is cancelled if the stores are closed meanwhile.

        Raises AdministrationError as long as there is nothing to be seen.
        """
        look = await self._present()
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            own = _SCOPE.set(scope)
            try:
                yield look
            finally:
                _SCOPE.reset(own)
                self._discard(scope)

    def leave(self) -> None:
        """Let the present request go on when the stores are closed: it uses them no more."""
        self._discard(_SCOPE.get())

    def _discard(self, scope: trio.CancelScope) -> None:
        self._scopes.discard(scope)
        if not self._scopes:
            self._idle.set()

    async def retire(self) -> None:
        """Return when no request uses the stores any more."""
        self._retirements += 1
        self._look = None
        for scope in self._scopes:
            scope.cancel()
        while self._scopes:
            self._idle = trio.Event()
            await self._idle.wait()

    def close(self) -> None:
        """Remove the copies."""
        for store in self._definitions:
            store.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    async def _present(self) -> Look:
        async with self._making:
            while self._look is None or await self._is_old(self._look):
                await self._make()
            return self._look

    async def _is_old(self, look: Look) -> bool:
        await trio.lowlevel.checkpoint()
        if time.monotonic() - look.made < self._fresh_seconds:
            return False
        look.made = time.monotonic()
        return self._thread.position != look.position

    async def _make(self) -> None:
        began, retirements = time.monotonic(), self._retirements
        copy = self._scratch / f"definitions-{self._copies}.sqlite"
        try:
            taken = await trio.to_thread.run_sync(self._thread.call, partial(_taken, self._transaction, copy))
        except StoreError as error:
            raise AdministrationError("failed", str(error)) from error
        if taken.definitions is not None:
            self._copies += 1
            await trio.to_thread.run_sync(self._open_definitions, taken.definitions)
            self._transaction = taken.transaction
        if retirements == self._retirements:  # else the stores are closed, and it begins again
            self._look = self._made(taken)
            taken_seconds = time.monotonic() - began  # on a busy machine, or while a base is read, that may be long
            self._fresh_seconds = min(max(FRESH_SECONDS, FRESH_FACTOR * taken_seconds), FRESH_SECONDS_MAX)

    def _open_definitions(self, copy: Path) -> None:
        self._definitions.append(DefinitionStore.open(copy, create=False))
        while len(self._definitions) > 2:
            old = self._definitions.pop(0)
            old.close()
            for path in self._scratch.glob(f"{old.path.name}*"):
                path.unlink(missing_ok=True)

    def _made(self, taken: _Contents) -> Look:
        assert self._nursery is not None, "attach comes first"
        stores = Stores(self._definitions[-1], taken.messages, NO_LOCK)
        wakeup = Wakeup()
        recovered = recover_for_reading(self._config, stores, taken.lanes, wakeup.pace)
        server = Server(self._config, stores, recovered, wakeup, self._nursery)
        server.application.addresses.update(self.addresses)
        server.administration.standby = self._control
        return Look(server, taken.position)


def _taken(known: int, copy: Path, followed: FollowedStore) -> _Contents:
    """Take what a look is made of; in the thread that follows. `known`: the transaction of the last copy."""
    if followed.store is None or followed.note is None:
        raise AdministrationError("failed", "this standby has nothing to show yet: its first base is not there")
    followed.commit()
    store, note = followed.store, followed.note
    changed = store.transaction != known
    if changed:
        with suppress(FileNotFoundError):
            copy.unlink()
        shutil.copyfile(store.messages.directory.with_name(DEFINITIONS_FILE), copy)
    position = note.boot, note.position
    return _Contents(copy if changed else None, store.transaction, store.messages, store.messages.lanes(), position)


def copied(scratch: Path, directory: Path, followed: FollowedStore) -> None:
    """Copy both stores into a new directory; in the thread that follows. Raises as `leveret backup` does."""
    taken = _taken(-1, scratch / "definitions-copied.sqlite", followed)
    assert taken.definitions is not None, "the first copy has all"
    with DefinitionStore.open(taken.definitions, create=False) as definitions:
        copy_stores(Stores(definitions, taken.messages, NO_LOCK), directory)


def _api(server: Server) -> ManagementApi:
    config, registry, administration = server.config, server.registry, server.administration
    settings = management_settings(config)
    segments = SegmentFiles(config.events_directory, config.http.reads_max)
    history = StatisticsHistory(registry, partial(node_figures, administration), rates_mode=settings.rates_mode)
    return ManagementApi(registry, administration, segments, settings, history)
