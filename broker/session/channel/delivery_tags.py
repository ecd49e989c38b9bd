"""The delivery tags of a channel: its unacknowledged deliveries, and how they are settled or requeued.

Tags count from 1 per channel and are never used again. An ack, nack or reject names a tag that must be
unacknowledged, or the channel is closed with "unknown delivery tag"; `multiple` means every such tag up to it,
and tag 0 with it means all of them, even none (0-9-1 specification, basic.ack; RabbitMQ for the rest). Tags
are kept in a dict in ascending order, so "up to" is a walk from the front, or from the end to the ones that stay.

A delivered message that is on disk need not stay in memory until it is acknowledged. Deliveries are counted in
chunks of CHUNK_MESSAGES or CHUNK_BYTES; when one is full, the deliveries of the chunk before it release their content.
Beyond RECENT deliveries the older ones are packed: see `packed_deliveries`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice, takewhile
from operator import attrgetter
from typing import Final

from broker.entities.messages.message import OriginQueue, QueuedMessage, Receiver
from broker.entities.queues.queue import Queue
from broker.session.channel.packed_deliveries import PackedDeliveries, Taken
from broker.wire.amqp_errors import ChannelException
from broker.wire.constants import ReplyCode

CHUNK_MESSAGES: Final = 512
CHUNK_BYTES: Final = 2 << 20
RECENT: Final = 8192
"""Deliveries kept as objects, more than most clients ever have unacknowledged; older ones are packed."""


class DeliveryLedger:
    """Unacknowledged deliveries of one channel, by tag. `consumed` counts those to consumers, not to basic.get."""

    __slots__ = ("_before", "_bytes", "_chunk", "_chunked", "_ignored", "_old", "_recent", "consumed", "last")

    def __init__(self) -> None:
        self._old = PackedDeliveries()
        self._recent: dict[int, QueuedMessage] = {}
        self.last = 0
        self.consumed = 0
        self._chunk: list[range] = []
        """Ranges of tags of the chunk being filled; `_chunked` is their number, `_bytes` the size of their messages."""
        self._chunked = 0
        self._before: list[Sequence[int]] = []
        """Tags of the chunk before, and older ones whose messages were not on disk when it ended."""
        self._bytes = 0
        self._ignored: set[int] = set()
        """Tags of deliveries that were taken back: acknowledgements of them are on their way, and no error."""

    def __len__(self) -> int:
        return self._old.count + len(self._recent)

    def items(self) -> Iterator[tuple[int, QueuedMessage]]:
        """Return tags and deliveries, in the order of tags."""
        return chain(self._old.items(), self._recent.items())

    def get(self, tag: int) -> QueuedMessage | None:
        """Return the unacknowledged delivery with this tag, or None."""
        return self._recent.get(tag) or self._old.get(tag)

    def add(self, entry: QueuedMessage) -> int:
        """Add a delivery and return its tag."""
        self.add_all((entry,), entry.size)
        return self.last

    def add_all(self, entries: Sequence[QueuedMessage], size: int) -> None:
        """Add deliveries to one consumer, or to none, with the next tags; `size`: their approximate bytes."""
        tag, recent, chunk = self.last, self._recent, self._chunk
        # The ranges of a chunk are joined unless deliveries without acknowledgement came between.
        first = chunk.pop().start if chunk and chunk[-1].stop == tag + 1 else tag + 1
        for entry in entries:
            tag += 1
            recent[tag] = entry
        chunk.append(range(first, tag + 1))
        self.last = tag
        if entries[0].consumer is not None:
            self.consumed += len(entries)
        self._chunked += len(entries)
        self._bytes += size
        if self._bytes >= CHUNK_BYTES or self._chunked >= CHUNK_MESSAGES:
            self._end_chunk()

    def skip(self, count: int = 1) -> int:
        """Use up the next tags for deliveries without acknowledgement; return the last of them."""
        self.last += count
        return self.last

    def take(self, tag: int, *, multiple: bool) -> Taken:
        """Remove and return the deliveries with this tag, or up to it. Raises ChannelException 406 if it is unknown."""
        if multiple and tag == 0:
            taken = Taken(self._recent, self._old.take_up_to(self.last))
            self._recent, self.consumed = {}, 0
            return taken
        if self.get(tag) is None:
            if tag not in self._ignored:
                raise _unknown(tag)
            if not multiple:
                return Taken({})
        all_consumed = self.consumed == len(self)
        if multiple:
            packs = self._old.take_up_to(tag) if self._old.count else ()
            taken = Taken(self._take_recent(tag), packs)
        else:
            taken = Taken({tag: self._pop(tag)})
        self.consumed -= len(taken) if all_consumed else taken.consumed
        return taken

    def _take_recent(self, tag: int) -> dict[int, QueuedMessage]:
        recent, half = self._recent, len(self._recent) // 2
        tags = list(islice(takewhile(tag.__ge__, recent), half + 1))
        if len(tags) <= half:
            return {number: recent.pop(number) for number in tags}
        # Fewer stay than go: take out those that stay, and hand over the rest of the dict.
        later = list(takewhile(tag.__lt__, reversed(recent)))
        self._recent = {number: recent.pop(number) for number in reversed(later)}
        return recent

    def _pop(self, tag: int) -> QueuedMessage:
        return self._old.pop(tag) if tag <= self._old.last else self._recent.pop(tag)

    def take_each(self, tags: Iterable[int], taken: list[QueuedMessage]) -> None:
        """Remove the deliveries with these tags and append them to `taken`.

        Raises ChannelException 406 at the first unknown tag; those before it are taken.
        """
        if self._ignored:
            tags = [tag for tag in tags if tag not in self._ignored]
        consumed = 0
        try:
            for entry in map(self._pop if self._old.count else self._recent.pop, tags):
                taken.append(entry)
                if entry.consumer is not None:
                    consumed += 1
        except KeyError as error:
            raise _unknown(error.args[0]) from None
        finally:
            self.consumed -= consumed

    def take_of(self, consumer: Receiver | None) -> Taken:
        """Remove and return the deliveries to a consumer; None: by basic.get, of queues whose deliveries time out.

        Acknowledgements of them are no error from now on.
        """
        every = consumer is not None
        tags = [
            tag for tag, entry in self.items() if entry.consumer is consumer and (every or entry.queue.may_time_out)
        ]
        taken = Taken({tag: self._pop(tag) for tag in tags})
        self.consumed -= len(tags) if every else 0
        self._ignored.update(tags)
        return taken

    def put_back(self, entries: Iterable[tuple[int, QueuedMessage]]) -> None:
        """Undo `take`."""
        recent = self._recent
        for tag, entry in entries:
            self.consumed += entry.consumer is not None
            if tag <= self._old.last:
                self._old.put_back(tag, entry)
            else:
                recent[tag] = entry
        self._recent = dict(sorted(recent.items()))

    def of_queue(self, queue: Queue) -> Iterable[QueuedMessage]:
        """Return the unacknowledged deliveries of one queue."""
        return (entry for _, entry in self.items() if entry.queue is queue)

    def check(self) -> None:
        """Raise AssertionError unless tags ascend up to `last` at most, and `consumed` and the chunks are right."""
        if not self._recent and not self._old.count:
            assert not self.consumed, f"{self.consumed} deliveries to consumers are counted, none is out"
            return
        self._old.check()
        deliveries = dict(self.items())
        tags, entries = list(deliveries), deliveries.values()
        assert tags == sorted(tags), f"delivery tags out of order: {tags}"
        assert not tags or 1 <= tags[0] <= tags[-1] <= self.last, (
            f"tags {tags[0]} to {tags[-1]}, the last is {self.last}"
        )
        consumed = sum(entry.consumer is not None for entry in entries)
        assert self.consumed == consumed, f"{self.consumed} deliveries to consumers are counted, {consumed} are out"
        assert len(set(map(id, entries))) == len(tags) == len(self), "one delivery has two tags"
        assert self._bytes < CHUNK_BYTES, f"a chunk of {self._bytes} bytes is not ended"
        assert sum(map(len, self._chunk)) == self._chunked, f"{self._chunked} tags are counted in {self._chunk}"
        assert self._chunked < CHUNK_MESSAGES, f"a chunk of {self._chunked} deliveries is not ended"

    def _end_chunk(self) -> None:
        """Release the content of the chunk before, begin a new chunk, and pack what exceeds RECENT."""
        on_their_way = self._release_before()
        self._before = [on_their_way, *self._chunk] if on_their_way else [*self._chunk]
        self._chunk, self._chunked, self._bytes = [], 0, 0
        while len(self._recent) >= RECENT + CHUNK_MESSAGES:
            tags = list(islice(self._recent, CHUNK_MESSAGES))
            if on_their_way and on_their_way[0] <= tags[-1]:
                break  # packed later: an entry whose content is in memory saves nothing
            self._old.append({tag: self._recent.pop(tag) for tag in tags})

    def _release_before(self) -> list[int]:
        """Release the content of the chunk before; return the tags of messages not on disk yet, to be tried again."""
        on_their_way: list[int] = []
        oldest = next(iter(self._recent), 0)
        for tags in self._before:
            if oldest > tags[-1]:
                continue  # all of them are settled
            for tag in tags:
                entry = self._recent.get(tag)
                if entry is not None:
                    entry.release()
                    if entry.stored and entry.message is not None:
                        on_their_way.append(tag)
        return on_their_way


def _unknown(tag: int) -> ChannelException:
    return ChannelException(ReplyCode.PRECONDITION_FAILED, f"unknown delivery tag {tag}")


def acknowledge(entries: Iterable[QueuedMessage]) -> None:
    """Settle acknowledged messages in their queues, and give their consumers credit."""
    _finish(entries, lambda queue, members: queue.settle(members))


def requeue_rejected(entries: Sequence[QueuedMessage]) -> None:
    """Put back messages that basic.reject returns."""
    requeue(entries, rejected=True)


def requeue(entries: Sequence[QueuedMessage], *, abandoned: bool = False, rejected: bool = False) -> None:
    """Put messages back into their queues, at their positions; `abandoned` unless the client asked for it."""
    of_queues: dict[OriginQueue, list[QueuedMessage]] = {}
    for queue, group in groupby(entries, _queue):
        of_queues.setdefault(queue, []).extend(group)
    for queue, members in of_queues.items():
        consumers = Counter(map(_consumer, members))
        queue.requeue(members, abandoned=abandoned, rejected=rejected)
        for consumer, count in consumers.items():
            if consumer is not None:
                consumer.settled(count)


def reject(entries: Iterable[QueuedMessage]) -> None:
    """Reject messages without requeueing: their queues dead-letter or drop them."""
    _finish(entries, lambda queue, members: queue.reject(members))


_queue: Final = attrgetter("queue")
_consumer: Final = attrgetter("consumer")


def _finish(entries: Iterable[QueuedMessage], how: Callable[[OriginQueue, list[QueuedMessage]], None]) -> None:
    """Tell queues and consumers, once for each run of messages that share both."""
    for members in _runs(entries):
        consumer = members[0].consumer
        how(members[0].queue, members)
        if consumer is not None:
            consumer.settled(len(members))


def _runs(entries: Iterable[QueuedMessage]) -> Iterator[list[QueuedMessage]]:
    """Yield runs of messages that share queue and consumer. `groupby` takes twice as long."""
    queue: OriginQueue | None = None
    consumer: Receiver | None = None
    run: list[QueuedMessage] = []
    for entry in entries:
        if entry.queue is not queue or entry.consumer is not consumer:
            if run:
                yield run
            queue, consumer, run = entry.queue, entry.consumer, []
        run.append(entry)
    if run:
        yield run
