"""What a broker finds on its disk when it is started again, without its sockets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from broker.config import Config
from broker.entities.backlog import Window
from broker.entities.delays import DelayQueue
from broker.entities.queue import Queue
from broker.entities.quorum import QuorumEntry, QuorumQueue
from broker.entities.stream import Stream
from broker.server.recovery import open_stores, recover
from storage.messages import MessageStore
from tests.faults.promised import LATE, LETTERS, number_of
from tests.storage.writing import END

EVERYTHING = Window(1 << 30, 1 << 40)


def recovered(data: Path) -> tuple[dict[str, list[int]], dict[int, int]]:
    """The numbers of the messages in every queue after a start, as a consumer would get them.

    And how often those of the quorum queue say that they were handed out.
    """
    stores = open_stores(data)
    try:
        broker = recover(Config(), stores).broker
        held: dict[str, list[int]] = {}
        counts: dict[int, int] = {}
        for vhost in broker.vhosts.values():
            for name, queue in vhost.queues.items():
                ready = queue.ready
                held[name] = [number_of(body) for body in bodies(queue, counts)]
                assert len(held[name]) == ready, f"{name} counts {ready} and holds {held[name]}"
                if isinstance(queue, QuorumQueue):
                    held[LETTERS] = letters_of(queue)
            for exchange in vhost.exchanges.values():
                if exchange.delays is not None:
                    held.setdefault(LATE, []).extend(waiting(stores.messages, exchange.delays))
        return held, counts
    finally:
        stores.definitions.close()
        stores.messages.close()
        os.close(stores.lock)


def waiting(store: MessageStore, delays: DelayQueue) -> list[int]:
    """The numbers of the messages that have not left a delaying exchange yet: the delay is the same for all."""
    stored = store.read(delays.lane.queue_id, 0, 0, 1 << 64, 1 << 30, 1 << 40)
    assert len(stored) == delays.messages, f"the exchange counts {delays.messages} and holds {len(stored)}"
    found = store.waiting(delays.lane.queue_id, 0, 0, 1 << 64, 1 << 30)
    assert [place.position for place in found] == [message.position for message in stored]
    return [number_of(message.body) for message in stored]


def bodies(queue: Queue, counts: dict[int, int]) -> Iterator[bytes]:
    """What a queue holds, taken out of it, and a stream, as it is read; offsets must begin at 0 and have no holes.

    How often messages of a quorum queue were handed out is added to the counts.
    """
    if isinstance(queue, Stream):
        found, end = queue.log.read(0, Window(1 << 20, 1 << 30))
        assert [message.offset for message in found] == list(range(end))
        yield from (message.message.body for message in found)
        return
    while (entry := queue.pop()) is not None and entry.message is not None:
        if isinstance(entry, QuorumEntry):
            counts[number_of(entry.message.body)] = entry.deliveries
        yield entry.message.body


def letters_of(queue: QuorumQueue) -> list[int]:
    """The numbers of the dead letters that wait in a queue."""
    found = queue.lane.letters.read(queue, 0, END, EVERYTHING)
    assert len(found) == len(queue.letters), f"{len(queue.letters)} letters are counted, {len(found)} are there"
    return [number_of(letter.message.body) for letter in found if letter.message is not None]
