"""A broker's process from its start to its end: all of it but sockets, threads and real time.

The core, both stores, the recovery, the log of definitions, the committer with its steps and the watch over the disk
are the real ones. The work of the server's shell between them, above all ending turns, is done here as in
broker/server/engine.py, but at moments that the world chooses: a commit may take long, find no room, fail, or be cut
off by the end of the process before or after its batch is on disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import trio

from broker.admin.apply_changes import take_effect
from broker.config import (
    Config,
    DebugSettings,
    DiskSettings,
    EventsSettings,
    IdentitySettings,
    LimitsSettings,
    ServerSettings,
    StoreSettings,
)
from broker.entities.node import broker as entities
from broker.entities.node.broker import Pace
from broker.entities.scheduling.alarms import DISK, MEMORY
from broker.entities.scheduling.future import Future
from broker.server import directory_lock
from broker.server.commits.commit_policy import CommitLimits, CommitPolicy
from broker.server.commits.commit_thread import Progress
from broker.server.commits.committer import Committer
from broker.server.recovery import Stores, logged_boot, open_stores, recover
from broker.server.resource_alarms import ResourceWatch
from broker.server.start.configured_sessions import session_settings
from broker.session.registry import Registry
from storage.definitions.definition_rows import Change
from storage.definitions.definition_store import DefinitionsFull
from storage.messages.message_store import MessageStore
from storage.space.free_pages import listed_pages
from storage.storage_errors import StoreFull, StoreIncomplete
from tests.simulation.copies import Broken
from tests.simulation.world.disk import FREE_LIMIT_BYTES, JOURNAL_BYTES, PAGE_BYTES, Disk
from tests.simulation.world.logged_life import LoggedLife
from tests.simulation.world.memory import Memory
from tests.simulation.world.writer import SimulatedWriter

if TYPE_CHECKING:
    from tests.simulation.world.virtual_time import Agenda
    from tests.simulation.world.wire import SimulatedSocket

LAZY_FLUSH = 10
OUTPUT_BYTES = 8192
LOOK = 60_000
"""Milliseconds between looks at the disk and at silent clients."""
HOUR_SECONDS = 3600.0
"""A turn is never cut short by real time, of which a run must not know."""
TURNS_MAX = 10_000


def _open(directory: Path, disk: Disk, settings: Config) -> Stores:
    """Open the stores. Raises StoreFull or DefinitionsFull where there is no room, not even the ballast's."""
    lock = directory_lock.lock(directory)
    try:
        try:
            stores = _open_within(directory, disk, lock, settings)
        except (StoreFull, DefinitionsFull):  # the ballast is gone now, which a limit set before does not know
            stores = _open_within(directory, disk, lock, settings)
    except (StoreFull, DefinitionsFull):
        os.close(lock)
        raise
    if disk.others and not disk.free:
        stores.messages.space.release_ballast()  # it did not fit
    _check_end(stores.messages, disk)
    return stores


def _check_end(store: MessageStore, disk: Disk) -> None:
    """Nothing of a commit that a kill has cut short takes room, and no page in use is missing.

    The file may end before the last page that LMDB has given a number: it does not write those that the same
    transaction took and freed.
    """
    pages, last = disk.store_bytes // PAGE_BYTES, store._environment.info()["last_pgno"]
    if pages > last + 1:
        raise Broken(f"the store's file has {pages} pages after a start, {last + 1} are in use")
    with disk.store_file() as file:
        missing = set(range(pages, last + 1)) - listed_pages(file)
    if missing:
        raise Broken(f"the store's file has {pages} pages after a start, {sorted(missing)} of those in use lie behind")


def _open_within(directory: Path, disk: Disk, lock: int, settings: Config) -> Stores:
    known_boot, recorded = logged_boot(settings), settings.events.enabled
    with disk.held_to_its_size():
        try:
            return open_stores(directory, lock, JOURNAL_BYTES, recorded=recorded, known_boot=known_boot)
        except StoreIncomplete as error:
            raise Broken(f"a start is refused, and nobody but the broker has touched its files: {error}") from error


@contextmanager
def _chance_from(seed: str) -> Iterator[None]:
    """Randomness of the broker comes from a seed, in the core that is made now."""
    real, entities.Random = entities.Random, lambda: Random(seed)  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        entities.Random = real  # type: ignore[misc]


def _settings(directory: Path, events: Path | None, *, check_invariants: bool) -> Config:
    return Config(
        server=ServerSettings(data_dir=str(directory)),
        identity=IdentitySettings(cluster_name="simulation"),
        limits=LimitsSettings(
            queue_window_messages=6, queue_window_bytes=4096, output_bytes_max=OUTPUT_BYTES, held_bytes_max=16384
        ),
        store=StoreSettings(batch_bytes_max=16384, lazy_bytes_max=8192),
        disk=DiskSettings(FREE_LIMIT_BYTES),
        debug=DebugSettings(check_invariants),
        events=EventsSettings(events is not None, "" if events is None else str(events), kept_bytes=0),
    )


class Process:
    """One life of a broker. `on_crash` is called when it dies of a commit."""

    check_invariants = True

    def __init__(
        self,
        directory: Path,
        agenda: Agenda,
        disk: Disk,
        memory: Memory,
        seed: str,
        on_crash: Callable[[], None],
        events: Path | None = None,
    ) -> None:
        """`events`: the directory of the event log, if there is to be one."""
        self.agenda = agenda
        self.disk = disk
        self.memory = memory
        self.alive = False
        """Its broker has been recovered, and has not died since."""
        self.on_crash = on_crash
        self.paused = False
        """It does nothing for a while: stopped, or frozen with its machine."""
        self.sockets: dict[SimulatedSocket, None] = {}
        self._for_later: list[Callable[[], None]] = []
        self._looked_at = agenda.times.monotonic()
        self._lazily_at: int | None = None
        self._timers_at: int | None = None
        self._writing = False
        settings = _settings(directory, events, check_invariants=self.check_invariants)
        self.settings = settings
        self.stores = _open(directory, disk, settings)
        self.life = None if events is None else LoggedLife(settings, self.stores.messages)
        with _chance_from(seed):
            recorder = None if self.life is None else self.life.events.recorder
            recovered = recover(settings, self.stores, Pace(self._watch_timers), recorder=recorder)
        self.broker = recovered.broker
        self.log = recovered.definition_log
        self.registry = Registry(self.broker, session_settings(settings)._replace(turn_seconds=HOUR_SECONDS))
        self.broker.alarms.observe(self._unblock)
        self.resources = ResourceWatch(
            settings, self.broker.alarms, self.stores.messages.space, lambda: self.registry.held_bytes
        )
        self.committer = Committer(
            self.broker,
            self.stores.messages,
            CommitLimits(settings.store.backlog_batches_max, settings.store.lazy_bytes_max),
            on_stored=self.end_turn,
            on_full=self.resources.disk_full,
            on_reclaimed=lambda queue_ids: self.log.drop_tombstones(sorted(queue_ids)),
            writer=self._make_writer,
        )
        self.alive = True
        if self.life is not None:
            self.life.begin(self.broker, self._later)
        self.committer.start(recovered.tombstones)
        self._later(LOOK, self.look_around)
        self.end_turn()

    def _make_writer(
        self, store: MessageStore, progress: Progress, deleted: dict[int, None], policy: CommitPolicy
    ) -> SimulatedWriter:
        self.writer = SimulatedWriter(
            store,
            progress,
            deleted,
            policy,
            disk=self.disk,
            later=self._later,
            now=self.agenda.times.monotonic,
            on_crash=self.on_crash,
        )
        return self.writer

    @property
    def short(self) -> bool:
        """Publishers have to wait."""
        return self.broker.alarms.is_raised(MEMORY) or self.broker.alarms.is_raised(DISK)

    @property
    def batch(self) -> int:
        """The batch that takes what is done now."""
        return self.broker.batches.current.number

    # Turns

    def end_turn(self) -> None:
        """Deliver, send, and see to the disk."""
        turn = self.broker.turn
        for _ in range(TURNS_MAX):
            turn.end()
            if not turn.pending:
                break
        else:
            raise AssertionError("a turn without end")
        assert not self.stores.messages.corrupt, self.stores.messages.corrupt
        self.broker.batches.seal_if_full()
        self.committer.start_commit()
        self._start_writing()
        if self._lazily_at is None and not self.broker.batches.current.empty:
            self._lazily_at = self.agenda.times.now + LAZY_FLUSH
            self._later(LAZY_FLUSH, self._flush_lazily)
        if self.life is not None:
            self.life.write_soon(self._later)
        self._watch_timers()

    def _later(self, milliseconds: int, action: Callable[[], None]) -> None:
        self.agenda.after(milliseconds, lambda: self.when_running(action))

    def when_running(self, action: Callable[[], None]) -> None:
        """Do something now, or at the end of a pause; never, if the process dies before."""
        if self.alive and self.paused:
            self._for_later.append(action)
        elif self.alive:
            action()

    def go_on(self) -> None:
        """The pause is over, and everything is due at once, in any order."""
        self.paused = False
        late, self._for_later = self._for_later, []
        self.disk.chance.shuffle(late)
        for action in late:
            self.when_running(action)

    def _watch_timers(self) -> None:
        if not self.alive:
            return
        due = self.broker.timers.next_due()
        if due is None:
            return
        now = self.agenda.times.now
        at = now + max(1, due - self.broker.clock.now())
        if self._timers_at is None or at < self._timers_at or self._timers_at < now:
            self._timers_at = at
            self._later(at - now, lambda: self._run_timers(at))

    def _run_timers(self, at: int) -> None:
        if at != self._timers_at:
            return  # something else was due earlier, and what is due next is on the agenda
        self._timers_at = None
        self.broker.timers.run(self.broker.clock.now())
        self.end_turn()

    def look_at_memory(self) -> None:
        """Raise the memory alarm, or clear it."""
        self.broker.alarms.set(MEMORY, short=self.memory.is_short(self.broker))
        self.end_turn()

    @property
    def no_room(self) -> bool:
        """A batch does not fit on the disk, and what writes waits."""
        return self.broker.batches.disk_full or self.writer.waits_for_room

    def look_around(self) -> None:
        """Do the server's periodic tasks: those of `ResourceWatch`, and heartbeats."""
        now = self.agenda.times.monotonic()
        late, self._looked_at = now - self._looked_at - LOOK / 1000, now
        for line in list(self.sockets):
            line.beat(now, late)
        self.resources.look_at_disk(self.committer)
        self.look_at_memory()
        self._later(LOOK, self.look_around)

    def _unblock(self) -> None:
        if not self.broker.alarms.raised:
            for connection in list(self.registry.connections):
                connection.unblock()
            self.end_turn()

    def _flush_lazily(self) -> None:
        self._lazily_at = None
        self.committer.start_commit(lazily=True)
        self.end_turn()

    # Definitions to disk

    def change(self, change: Change, answered: Callable[[], None]) -> None:
        """Have a change written and take effect, as an administrator's command does."""

        def written(_: Future[None]) -> None:
            take_effect(self.broker, change)
            answered()

        self.log.write(change).then(written)
        self.end_turn()

    def _start_writing(self) -> None:
        if not self._writing and self.log.waiting:
            self._writing = True
            takes = self.disk.commit_milliseconds()
            if self.disk.kills("definitions"):
                self._later(self.disk.chance.randint(0, takes - 1), self.on_crash)
            self._later(takes, self._write)

    def _write(self) -> None:
        self._writing = False
        trio.run(self.log.flush)
        self.end_turn()

    # The end

    def kill(self) -> None:
        """The process is gone; what is in flight may have reached the disk, or not."""
        self.writer.end()
        self.end()

    def stop(self) -> bool:
        """End in order: everything in memory goes to disk first. False if it has no room there."""
        self.registry.close_connections("broker forced connection closure with reason 'shutdown'")
        self.end_turn()
        for connection in list(self.registry.connections):
            connection.release()
        self.end_turn()
        everything = self._everything_to_disk()
        if self.life is not None and everything:
            self.life.stop(self.broker)
        self.end()
        return everything

    def _everything_to_disk(self) -> bool:
        batches = self.broker.batches
        while not self.writer.waits_for_room:
            trio.run(self.log.flush)
            self.committer.start_commit(lazily=True)
            if not self.committer.busy and not batches.sealed and batches.current.empty:
                return True
            self.writer.finish_step()
        return False

    def end(self) -> None:
        """Let go of the stores, with whatever is not in them."""
        self.alive = False
        if self.life is not None:
            self.life.close()
        self.stores.definitions.close()
        self.stores.messages.close()
        os.close(self.stores.lock)
