"""A broker's process from its start to its end: all of it but sockets, threads and real time.

The core, both stores, the recovery and the log of definitions are the real ones. What the server's shell does
between them - ending turns, handing batches to the disk, telling of them - is done here, step by step as in
broker/server/engine.py and committer.py, but at moments that the world chooses: a commit may take long, be refused
by a full disk for a while, fail, or be cut off by the end of the process before or after its batch is on disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import trio

from broker.config import Config, Debug, Identity, Limits, Server, Store
from broker.entities.scheduling.alarms import DISK
from broker.entities.vhosts import broker as entities
from broker.entities.vhosts.broker import Pace
from broker.server.recovery import open_stores, recover
from broker.server.serve import session_settings
from broker.session.consumer_timeout import Overdue
from broker.session.registry import Registry
from storage.batch import SealedBatch

if TYPE_CHECKING:
    from tests.simulation.world.virtual_time import Agenda

LAZY_FLUSH = 10
HOUR_SECONDS = 3600.0
"""A turn is never cut short by real time, of which a run must not know."""
RETRY = 1000
TURNS_MAX = 10_000


class Disk:
    """How the disk behaves. `slow` stretches commits, while `full` they are refused, a `failing` one ends the process.

    `deadly` names the store, messages or definitions, during whose next commit the process dies.
    """

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.slow = 1
        self.full = False
        self.failing = False
        self.deadly = ""

    def commit_milliseconds(self) -> int:
        """How long the next commit takes."""
        return self.chance.randint(1, 6) * self.slow

    def kills(self, store: str) -> bool:
        """The process is to die during the commit that begins now."""
        kills = self.deadly == store
        if kills:
            self.deadly = ""
        return kills


@contextmanager
def _chance_from(seed: str) -> Iterator[None]:
    """Whatever the broker leaves to chance comes from a seed, in the core that is made now."""
    real, entities.Random = entities.Random, lambda: Random(seed)  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        entities.Random = real  # type: ignore[misc]


class Process:
    """One life of a broker. `on_crash` is called when it dies of a commit."""

    check_invariants = True

    def __init__(self, directory: Path, agenda: Agenda, disk: Disk, seed: str, on_crash: Callable[[], None]) -> None:
        self.agenda = agenda
        self.disk = disk
        self.alive = False
        """Its broker has been recovered, and has not died since."""
        self.committed = 0
        """Every batch up to this one is on disk."""
        self.on_crash = on_crash
        self.short: set[str] = set()
        self._flying: SealedBatch | None = None
        self._flying_is_stored = False
        self._lazily_at: int | None = None
        self._timers_at: int | None = None
        self._writing = False
        config = Config(
            server=Server(data_dir=str(directory)),
            identity=Identity(cluster_name="simulation"),
            limits=Limits(
                queue_window_messages=6, queue_window_bytes=4096, output_bytes_max=8192, held_bytes_max=16384
            ),
            store=Store(batch_bytes_max=16384, lazy_bytes_max=8192),
            debug=Debug(self.check_invariants),
        )
        self.stores = open_stores(directory)
        with _chance_from(seed):
            recovered = recover(config, self.stores, Pace(self._watch_timers))
        self.broker = recovered.broker
        self.log = recovered.definition_log
        self.deleted = set(recovered.tombstones)
        self.registry = Registry(self.broker, session_settings(config)._replace(turn_seconds=HOUR_SECONDS))
        self.broker.alarms.observe(self._unblock)
        self.alive = True
        Overdue(self.registry).watch()
        self.end_turn()

    @property
    def behind(self) -> int:
        """How many full batches wait for the disk."""
        return len(self.broker.batches.sealed)

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
        self._start_commit()
        self._start_writing()
        if self._lazily_at is None and not self.broker.batches.current.empty:
            self._lazily_at = self.agenda.times.now + LAZY_FLUSH
            self._later(LAZY_FLUSH, self._flush_lazily)
        self._watch_timers()

    def _later(self, milliseconds: int, action: Callable[[], None]) -> None:
        self.agenda.after(milliseconds, lambda: action() if self.alive else None)

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
            self._later(at - now, self._run_timers)

    def _run_timers(self) -> None:
        self._timers_at = None
        self.broker.timers.run(self.broker.clock.now())
        self.end_turn()

    def alarm(self, resource: str, *, short: bool) -> None:
        """Memory or disk have run short, or are plentiful again."""
        (self.short.add if short else self.short.discard)(resource)
        self.broker.alarms.set(resource, short=short)

    def _unblock(self) -> None:
        if not self.broker.alarms.raised:
            for connection in list(self.registry.connections):
                connection.unblock()
            self.end_turn()

    # Messages to disk

    def _flush_lazily(self) -> None:
        self._lazily_at = None
        self._start_commit(lazily=True)
        self.end_turn()

    def _start_commit(self, *, lazily: bool = False) -> None:
        if self._flying is not None:
            return
        self._flying = self.broker.batches.next(lazily=lazily)
        if self._flying is not None:
            if not self.disk.full and self.disk.chance.random() < 0.5:
                self._store()
            takes = self.disk.commit_milliseconds()
            if self.disk.kills("messages"):
                self._later(self.disk.chance.randint(0, takes), self.on_crash)
            self._later(takes, self._land)

    def _store(self) -> None:
        """Write the batch in flight, for good; nobody has been told yet."""
        assert self._flying is not None
        self.stores.messages.commit(self._flying)
        self.committed = self._flying.number
        self._flying_is_stored = True

    def _land(self) -> None:
        assert self._flying is not None
        if self.disk.failing:
            self.on_crash()
            return
        if not self._flying_is_stored:
            if self.disk.full:
                self.alarm(DISK, short=True)
                self.stores.messages.release_ballast()
                self._later(RETRY, self._land)
                return
            self._store()
        batch, self._flying, self._flying_is_stored = self._flying, None, False
        if DISK in self.short and not self.disk.full:
            self.alarm(DISK, short=False)
        self.deleted.update(batch.deleted_queues)
        self.broker.stored(batch)
        if not self.behind:
            self._reclaim()
        self.end_turn()

    def _reclaim(self) -> None:
        """Clear away some of what is dead, as the committer's thread does while nothing else is to be done."""
        if self.disk.chance.random() < 0.5:
            return
        if not self.stores.messages.reclaim(self.disk.chance.choice((4, 256))) and self.deleted:
            self.log.drop_tombstones(sorted(self.deleted))
            self.deleted.clear()

    # Definitions to disk

    def _start_writing(self) -> None:
        if not self._writing and self.log._waiting:
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
        lost = self._flying is None or self._flying_is_stored or self.disk.full
        if not lost and self.disk.chance.random() < 0.5:
            self._store()
        self.end()

    def stop(self) -> None:
        """End in order: everything in memory goes to disk first."""
        self.registry.close_connections("broker forced connection closure with reason 'shutdown'")
        self.end_turn()
        for connection in list(self.registry.connections):
            connection.release()
        self.end_turn()
        self._everything_to_disk()
        self.end()

    def _everything_to_disk(self) -> None:
        while True:
            trio.run(self.log.flush)
            if self._flying is None:
                self._flying = self.broker.batches.next(lazily=True)
            if self._flying is None:
                break
            if not self._flying_is_stored:
                self._store()
            batch, self._flying, self._flying_is_stored = self._flying, None, False
            self.broker.stored(batch)
            self.broker.turn.end()

    def end(self) -> None:
        """Let go of the stores, with whatever is not in them."""
        self.alive = False
        self.stores.definitions.close()
        self.stores.messages.close()
        os.close(self.stores.lock)
