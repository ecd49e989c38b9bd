"""The event log of a running broker: start, stop, and the messages that existed before.

Each boot begins with a record about the boot before: the end of its log, the last event that is known to have
happened, and whether it stopped in order. Then the positions of all messages that existed at the start are recorded,
in small steps beside all other work; and once more at the end of an orderly stop. Records between the two are events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import trio

from broker.config import Config, EventsSettings
from broker.entities.node.broker import Broker
from broker.entities.queues.events.event_recording import (
    BOOT,
    LOSS,
    QUEUED,
    SNAPSHOT,
    STOP,
    Recorder,
    name_bytes,
    steps,
)
from broker.entities.queues.events.message_labels import MessageLabels
from broker.entities.queues.queue import Queue
from broker.entities.queues.streams.stream_queue import Stream
from storage.batch import COUNTER_BITS
from storage.events.event_log_writer import EventLog, EventLogSettings, Part
from storage.messages.message_store import MessageStore
from storage.messages.small_records import NumberInBoot

FLUSH_SECONDS = 0.1
SNAPSHOT_MESSAGES = 4096
"""Positions read from the disk in one step: a few milliseconds."""
STEP_SECONDS = 0.005
"""Pause for all other work between two steps."""


class Log(Protocol):
    """The log of a boot, as `EventLog` is one."""

    def append(self, part: Part) -> None: ...

    def seal(self) -> None: ...

    def close(self) -> None: ...


OpenLog = Callable[[Path, str, int, EventLogSettings], tuple[Log, NumberInBoot | None]]
"""Opens the log of a boot in a directory, for a node; returns the last event before it, too."""


class Events:
    """The event log of one boot, from the start to the end of the broker."""

    def __init__(self, config: Config, store: MessageStore, open_log: OpenLog = EventLog.open) -> None:
        settings = EventLogSettings(
            config.events.segment_bytes, config.events.segment_seconds, config.events.kept_bytes
        )
        self.node = config.identity.shown_cluster_name
        self._log, last = open_log(config.events_directory, self.node, store.boot, settings)
        self._gathering = trio.Event()
        self.recorder = Recorder(store.boot, self._hand_over, self._wake_up, _labels(config.events))
        self._store = store
        assert last is None or last.boot < store.boot, f"boot {store.boot} begins behind the log of boot {last}"
        self._record_boot(last, store.last_event)
        self.recorder.flush()

    def _record_boot(self, logged: NumberInBoot | None, committed: NumberInBoot | None) -> None:
        """Record the boot before, and the batches lost since whose loss was accepted, by number in their boot.

        `idle` means that boots after the last logged one, if any, have left nothing on disk.
        """
        before = logged or NumberInBoot(0, 0)
        known = committed.number if committed is not None and committed.boot == before.boot else 0
        idle = committed is not None and committed.boot <= before.boot
        self.recorder.add(BOOT, 1, name_bytes(self.node), before.boot, before.number, known, int(idle))
        for boot, loss in self._store.accepted.items():
            if boot > before.boot:
                self.recorder.add(LOSS, 1, loss.first, loss.last)

    @property
    def gathering(self) -> bool:
        """True if events have been recorded that are to be written soon."""
        return self._gathering.is_set()

    def flush(self) -> None:
        """Write what has gathered."""
        self._gathering = trio.Event()
        self.recorder.flush()

    async def run(self, broker: Broker) -> None:
        """Record the queued messages, and write recorded events every FLUSH_SECONDS, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._snapshot, broker)
            while True:
                await self._gathering.wait()
                await trio.sleep(FLUSH_SECONDS)
                self.flush()

    def record_stop(self, broker: Broker, seconds: float) -> None:
        """Record the messages queued at the end, within `seconds`, and an orderly stop.

        To be called when nothing else runs and everything is on disk.
        """
        deadline, complete = time.monotonic() + seconds, True
        for _ in self._queued(broker, 1 << 64, _never):
            if time.monotonic() > deadline:
                complete = False
                break
        self.recorder.add(STOP, 1, int(complete))

    async def seal(self) -> None:
        """Make all events so far visible to readers."""
        self.recorder.flush()
        await trio.to_thread.run_sync(self._log.seal)

    def close(self) -> None:
        """Write the events recorded so far, and seal them."""
        self.recorder.flush()
        self._log.close()

    async def _snapshot(self, broker: Broker) -> None:
        for _ in self.snapshot(broker):
            await trio.sleep(STEP_SECONDS)

    def snapshot(self, broker: Broker) -> Iterator[None]:
        """Record the messages of earlier boots, some in each step, without those of purged queues, which may be on disk
        still.
        """
        yield from self._queued(broker, self.recorder.boot << COUNTER_BITS, _was_purged)
        self.recorder.add(SNAPSHOT, 1)

    def _queued(self, broker: Broker, before: int, gone: Callable[[Queue], bool]) -> Iterator[None]:
        """Record the positions below `before` of all stored messages, some in each step, except of queues that are
        `gone`, and of streams.
        """
        queues = [
            (vhost.name, queue)
            for vhost in broker.vhosts.values()
            for queue in (*vhost.queues.values(), *(e.delays for e in vhost.exchanges.values() if e.delays is not None))
            if queue.durable and not isinstance(queue, Stream)
        ]
        lanes = self._lanes()
        for vhost, queue in queues:
            queue_id = queue.store.queue_id
            place = name_bytes(vhost), name_bytes(queue.name)
            for lane in lanes.get(queue_id, ()):
                after = 0
                while not (queue.deleted or gone(queue)) and (
                    found := self._store.waiting(queue_id, lane, after, before, SNAPSHOT_MESSAGES)
                ):
                    after = found[-1].position
                    self.recorder.add(QUEUED, len(found), *place, steps([message.position for message in found]))
                    yield

    def _lanes(self) -> dict[int, set[int]]:
        """Read the lanes of each queue in which messages may be on disk, in LMDB or only in the journal."""
        ahead = self._store.journal.places()  # first, see `Journal.view`
        lanes = {queue_id: set(found) for queue_id, found in self._store.lanes().items()}
        for queue_id, lane in ahead:
            lanes.setdefault(queue_id, set()).add(lane)
        return lanes

    def _hand_over(self, records: list[object], first: int, events: int) -> None:
        self._log.append(Part(records, first, events))

    def _wake_up(self) -> None:
        self._gathering.set()


def _labels(settings: EventsSettings) -> MessageLabels | None:
    chosen = settings.message_properties
    return MessageLabels(chosen, settings.message_property_bytes) if chosen else None


def _was_purged(queue: Queue) -> bool:
    return queue.events is not None and queue.events.was_purged


def _never(queue: Queue) -> bool:
    return False


@contextmanager
def closing_log(events: Events | None) -> Iterator[None]:
    """Close the event log, if there is one, in any case."""
    try:
        yield
    finally:
        if events is not None:
            events.close()
