"""The event log's place in the running broker: beginning, end, and what was there before.

Each boot begins with a record of what is known of the one before: how far its log goes, how far it is known to have
gone, and whether it ended in order. Then, beside everything else and in small steps, the places of all messages that
were there at the start are recorded; at the end of an orderly stop once more. Between those two, what is recorded is
what happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from broker.config import Config
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
from broker.entities.queues.queue import Queue
from broker.entities.queues.streams.stream_queue import Stream
from storage.batch import COUNTER_BITS
from storage.events.event_log_writer import EventLog, EventLogSettings, Part
from storage.messages.message_store import MessageStore
from storage.messages.records import NumberInBoot

FLUSH_SECONDS = 0.1
SNAPSHOT_MESSAGES = 4096
"""How many places are read from the disk at a time: a few milliseconds."""
STEP_SECONDS = 0.005
"""How long everything else has its turn in between."""


class Events:
    """Records events from the start of a broker to its end."""

    def __init__(self, config: Config, store: MessageStore) -> None:
        settings = EventLogSettings(
            config.events.segment_bytes, config.events.segment_seconds, config.events.kept_bytes
        )
        self.node = config.identity.shown_cluster_name
        self._log, last = EventLog.open(config.events_directory, self.node, store.boot, settings)
        self._gathering = trio.Event()
        self.recorder = Recorder(store.boot, self._hand_over, self._wake_up)
        self._store = store
        self._record_boot(last, store.last_event)
        self.recorder.flush()

    def _record_boot(self, logged: NumberInBoot | None, committed: NumberInBoot | None) -> None:
        """Record the boot before, and what was lost and accepted since: batches, by number in their boot.

        `idle` says that boots behind the last logged one, if there were any, have left nothing on disk.
        """
        before = logged or NumberInBoot(0, 0)
        known = committed.number if committed is not None and committed.boot == before.boot else 0
        idle = committed is not None and committed.boot <= before.boot
        self.recorder.add(BOOT, 1, name_bytes(self.node), before.boot, before.number, known, int(idle))
        for boot, loss in self._store.accepted.items():
            if boot > before.boot:
                self.recorder.add(LOSS, 1, loss.first, loss.last)

    async def run(self, broker: Broker) -> None:
        """Record what is queued, and hand over what gathers, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._snapshot, broker)
            while True:
                await self._gathering.wait()
                await trio.sleep(FLUSH_SECONDS)
                self._gathering = trio.Event()
                self.recorder.flush()

    def record_stop(self, broker: Broker, seconds: float) -> None:
        """Record what is queued at the end, as far as time allows, and that this was the end.

        Nothing else goes on any more, and everything is on disk.
        """
        deadline, complete = time.monotonic() + seconds, True
        for _ in self._queued(broker, 1 << 64, _never):
            if time.monotonic() > deadline:
                complete = False
                break
        self.recorder.add(STOP, 1, int(complete))

    async def seal(self) -> None:
        """Have readers see what has happened so far."""
        self.recorder.flush()
        await trio.to_thread.run_sync(self._log.seal)

    def close(self) -> None:
        """Write what has gathered, and seal it."""
        self.recorder.flush()
        self._log.close()

    async def _snapshot(self, broker: Broker) -> None:
        """Report nothing that a purge has taken behind the purge, even where it is still on disk."""
        for _ in self._queued(broker, self.recorder.boot << COUNTER_BITS, _was_purged):
            await trio.sleep(STEP_SECONDS)
        self.recorder.add(SNAPSHOT, 1)

    def _queued(self, broker: Broker, before: int, gone: Callable[[Queue], bool]) -> Iterator[None]:
        """Record the places of all stored messages before a position, some at each step; none of queues that are
        `gone`. Streams keep theirs.
        """
        queues = [
            (vhost.name, queue)
            for vhost in broker.vhosts.values()
            for queue in (*vhost.queues.values(), *(e.delays for e in vhost.exchanges.values() if e.delays is not None))
            if queue.durable and not isinstance(queue, Stream)
        ]
        lanes = self._store.lanes()
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

    def _hand_over(self, records: list[object], first: int, events: int) -> None:
        self._log.append(Part(records, first, events))

    def _wake_up(self) -> None:
        self._gathering.set()


def _was_purged(queue: Queue) -> bool:
    return queue.events is not None and queue.events.was_purged


def _never(queue: Queue) -> bool:
    return False


@contextmanager
def closing_log(events: Events | None) -> Iterator[None]:
    """Have the event log, if there is one, closed in any case: in order, or because something has gone wrong."""
    try:
        yield
    finally:
        if events is not None:
            events.close()
