"""The delivery tags of a channel: what is out with the client, and how it comes back.

Tags count from 1 per channel and are never used again. An ack, nack or reject names a tag that must be
outstanding, or the channel ends with "unknown delivery tag"; `multiple` means every outstanding tag up to it,
and tag 0 with it means all there are, even none (0-9-1 specification, basic.ack; RabbitMQ for the rest). Tags
are kept in a dict in rising order, so "up to" is a walk from the front, or from the end to what stays.

A delivered message that is on disk need not stay in memory while the client thinks. Deliveries are counted in
chunks, so many messages or so many bytes each; whenever one is full, those of the chunk before it are asked
to let their content go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice, takewhile
from operator import attrgetter
from typing import Final

from broker.entities.messages.message import Entry, Holder, Receiver
from broker.entities.queues.queue import Queue
from broker.wire.amqp_errors import ChannelException
from broker.wire.constants import ReplyCode

CHUNK_MESSAGES: Final = 512
CHUNK_BYTES: Final = 2 << 20


class DeliveryLedger:
    """Unacknowledged deliveries of one channel, by tag."""

    __slots__ = ("_before", "_bytes", "_chunk", "consumed", "last", "unacked")

    def __init__(self) -> None:
        self.unacked: dict[int, Entry] = {}
        self.last = 0
        self.consumed = 0
        self._chunk: list[int] = []
        self._before: list[int] = []
        self._bytes = 0

    def add(self, entry: Entry) -> int:
        """A message goes out and wants an acknowledgement; its tag."""
        self.add_all((entry,), entry.size)
        return self.last

    def add_all(self, entries: Sequence[Entry], size: int) -> None:
        """Messages, all to one consumer or to none, go out with the next tags and want acknowledgements.

        `size` is what they take in bytes, roughly.
        """
        tags = range(self.last + 1, self.last + len(entries) + 1)
        self.last += len(entries)
        self.unacked.update(zip(tags, entries, strict=True))
        if entries[0].consumer is not None:
            self.consumed += len(entries)
        self._chunk.extend(tags)
        self._bytes += size
        if self._bytes >= CHUNK_BYTES or len(self._chunk) >= CHUNK_MESSAGES:
            self._end_chunk()

    def skip(self, count: int = 1) -> int:
        """Messages go out with the next tags and want no acknowledgement; the last of these tags."""
        self.last += count
        return self.last

    def take(self, tag: int, *, multiple: bool) -> dict[int, Entry]:
        """Strike tags out. Raises ChannelException 406 for one that is not outstanding."""
        if multiple and tag == 0:
            taken, self.unacked, self.consumed = self.unacked, {}, 0
            return taken
        if tag not in self.unacked:
            raise _unknown(tag)
        all_consumed, half = self.consumed == len(self.unacked), len(self.unacked) // 2
        tags = list(islice(takewhile(tag.__ge__, self.unacked), half + 1)) if multiple else [tag]
        if len(tags) <= half:
            taken = {number: self.unacked.pop(number) for number in tags}
        else:  # fewer stay: these are taken out instead
            later = list(takewhile(tag.__lt__, reversed(self.unacked))) if multiple else ()
            stay = {number: self.unacked.pop(number) for number in reversed(later)}
            taken, self.unacked = self.unacked, stay
        self.consumed -= len(taken) if all_consumed else sum(entry.consumer is not None for entry in taken.values())
        return taken

    def take_each(self, tags: Iterable[int], taken: list[Entry]) -> None:
        """Strike tags out one by one and add their messages to `taken`.

        Raises ChannelException 406 at the first that is not outstanding; those before it are taken.
        """
        try:
            for entry in map(self.unacked.pop, tags):
                taken.append(entry)
                if entry.consumer is not None:
                    self.consumed -= 1
        except KeyError as error:
            raise _unknown(error.args[0]) from None

    def put_back(self, entries: dict[int, Entry]) -> None:
        """Undo `take`: nothing has become of these deliveries."""
        self.unacked = dict(sorted({**self.unacked, **entries}.items()))
        self.consumed += sum(entry.consumer is not None for entry in entries.values())

    def of_queue(self, queue: Queue) -> Iterable[Entry]:
        """What is outstanding of one queue."""
        return (entry for entry in self.unacked.values() if entry.queue is queue)

    def check(self) -> None:
        """Raise AssertionError unless tags rise, none is later than the last, and consumers' deliveries are counted."""
        tags = list(self.unacked)
        assert tags == sorted(tags), f"delivery tags out of order: {tags}"
        assert not tags or 1 <= tags[0] <= tags[-1] <= self.last, (
            f"tags {tags[0]} to {tags[-1]}, the last is {self.last}"
        )
        entries = self.unacked.values()
        consumed = sum(entry.consumer is not None for entry in entries)
        assert self.consumed == consumed, f"{self.consumed} deliveries to consumers are counted, {consumed} are out"
        assert len(set(map(id, entries))) == len(tags), "one delivery has two tags"
        assert self._bytes < CHUNK_BYTES, f"a chunk of {self._bytes} bytes is not ended"
        assert len(self._chunk) < CHUNK_MESSAGES, f"a chunk of {len(self._chunk)} deliveries is not ended"

    def _end_chunk(self) -> None:
        on_their_way = []
        for tag in self._before:
            entry = self.unacked.get(tag)
            if entry is not None:
                entry.release()
                if entry.stored and entry.message is not None:
                    on_their_way.append(tag)  # to the disk: asked again next time
        self._before, self._chunk, self._bytes = on_their_way + self._chunk, [], 0


def _unknown(tag: int) -> ChannelException:
    return ChannelException(ReplyCode.PRECONDITION_FAILED, f"unknown delivery tag {tag}")


def acknowledge(entries: Iterable[Entry]) -> None:
    """The client has dealt with these messages."""
    _finish(entries, lambda queue, members: queue.settle(members))


def requeue(entries: Sequence[Entry], *, abandoned: bool = False) -> None:
    """These messages go back to their queues, to their places; `abandoned` where the client did not ask for it."""
    of_queues: dict[Holder, list[Entry]] = {}
    for queue, group in groupby(entries, _queue):
        of_queues.setdefault(queue, []).extend(group)
    for queue, members in of_queues.items():
        consumers = Counter(map(_consumer, members))
        queue.requeue(members, abandoned=abandoned)
        for consumer, count in consumers.items():
            if consumer is not None:
                consumer.settled(count)


def reject(entries: Iterable[Entry]) -> None:
    """The client wants these messages neither now nor later."""
    _finish(entries, lambda queue, members: queue.reject(members))


_queue: Final = attrgetter("queue")
_consumer: Final = attrgetter("consumer")


def _finish(entries: Iterable[Entry], how: Callable[[Holder, list[Entry]], None]) -> None:
    """Tell queues and consumers, once for all messages in a row that share both."""
    for members in _runs(entries):
        consumer = members[0].consumer
        how(members[0].queue, members)
        if consumer is not None:
            consumer.settled(len(members))


def _runs(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """The messages in a row that share queue and consumer: as `groupby`, which costs twice as much."""
    queue: Holder | None = None
    consumer: Receiver | None = None
    run: list[Entry] = []
    for entry in entries:
        if entry.queue is not queue or entry.consumer is not consumer:
            if run:
                yield run
            queue, consumer, run = entry.queue, entry.consumer, []
        run.append(entry)
    if run:
        yield run
