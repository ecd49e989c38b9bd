"""The older deliveries of a channel, packed into 34 bytes each.

A client may have millions of unacknowledged messages. A `QueuedMessage` with its tag takes 220 to 290 bytes. Once its
content has left memory, it is a few numbers, and deliveries of the same kind (queue, consumer, flags) differ in four of
them: those are kept in columns. The entry is made again when its delivery is settled or requeued.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, pairwise, takewhile

from broker.entities.messages.message import OriginQueue, QueuedMessage


class Pack:
    """Deliveries with ascending tags up to `last`. Those whose content is still in memory are not packed."""

    __slots__ = ("_columns", "_kinds", "_resident", "last", "queues")

    def __init__(self, deliveries: dict[int, QueuedMessage]) -> None:
        self.last = max(deliveries)
        self._resident = {tag: entry for tag, entry in deliveries.items() if entry.message is not None}
        packed = {tag: entry for tag, entry in deliveries.items() if entry.message is None}
        self.queues = {entry.queue for entry in deliveries.values()}
        """The queues of these deliveries, and of those that were taken out."""
        entries = packed.values()
        self._kinds, numbers = _by_kind(entries)
        """One entry of each kind; the last column has an index into it."""
        self._columns = (
            array("Q", packed),
            array("Q", [entry.position for entry in entries]),
            array("Q", [entry.size for entry in entries]),
            array("Q", [entry.expires_at for entry in entries]),
            numbers,
        )

    def __len__(self) -> int:
        return len(self._columns[0]) + len(self._resident)

    @property
    def consumed(self) -> int:
        """Number of the deliveries that went to consumers, not to basic.get."""
        consumed = [kind.consumer is not None for kind in self._kinds]
        packed = sum(consumed[kind] for kind in self._columns[-1])
        return packed + sum(entry.consumer is not None for entry in self._resident.values())

    def items(self) -> Iterator[tuple[int, QueuedMessage]]:
        """Return tags and entries in the order of tags; entries of packed deliveries are made on each call."""
        packed = self._unpacked()
        return iter(sorted(chain(packed, self._resident.items()), key=_tag)) if self._resident else packed

    def values(self) -> Iterator[QueuedMessage]:
        """Return the entries in the order of tags."""
        return (entry for _, entry in self.items())

    def get(self, tag: int) -> QueuedMessage | None:
        """Return the delivery with this tag, or None."""
        at = self._find(tag)
        if at is None:
            return self._resident.get(tag)
        _, positions, sizes, expiries, kinds = self._columns
        return self._kinds[kinds[at]].another(positions[at], sizes[at], expiries[at])

    def pop(self, tag: int) -> QueuedMessage | None:
        """Remove and return the delivery with this tag; None if there is none."""
        entry, at = self.get(tag), self._find(tag)
        if at is None:
            self._resident.pop(tag, None)
        else:
            self._drop(at, at + 1)
        return entry

    def take_up_to(self, tag: int) -> dict[int, QueuedMessage]:
        """Remove and return the deliveries up to this tag."""
        taken = dict(takewhile(lambda item: item[0] <= tag, self.items()))
        self._drop(0, bisect_right(self._columns[0], tag))
        self._resident = {number: entry for number, entry in self._resident.items() if number > tag}
        return taken

    def put_back(self, tag: int, entry: QueuedMessage) -> None:
        """Add a delivery again that was taken out."""
        self._resident[tag] = entry
        self.queues.add(entry.queue)

    def _find(self, tag: int) -> int | None:
        tags = self._columns[0]
        at = bisect_left(tags, tag)
        return at if at < len(tags) and tags[at] == tag else None

    def _unpacked(self) -> Iterator[tuple[int, QueuedMessage]]:
        kinds = self._kinds
        for tag, position, size, expires_at, kind in zip(*self._columns, strict=True):
            yield tag, kinds[kind].another(position, size, expires_at)

    def _drop(self, start: int, end: int) -> None:
        for column in self._columns:
            del column[start:end]


class PackedDeliveries:
    """Packs, oldest first. `count` is the number of deliveries in them, `last` the highest tag."""

    __slots__ = ("_lasts", "_packs", "count", "last")

    def __init__(self) -> None:
        self._packs: list[Pack] = []
        self._lasts: list[int] = []
        self.count = self.last = 0

    def append(self, deliveries: dict[int, QueuedMessage]) -> None:
        """Add deliveries with later tags."""
        pack = Pack(deliveries)
        self._packs.append(pack)
        self._lasts.append(pack.last)
        self.count += len(pack)
        self.last = pack.last

    def items(self) -> Iterator[tuple[int, QueuedMessage]]:
        """Return tags and entries in the order of tags."""
        return chain.from_iterable(pack.items() for pack in self._packs)

    def get(self, tag: int) -> QueuedMessage | None:
        """Return the delivery with this tag, or None."""
        return self._packs[bisect_left(self._lasts, tag)].get(tag) if 0 < tag <= self.last else None

    def pop(self, tag: int) -> QueuedMessage:
        """Remove and return the delivery with this tag, which is at most `last`. Raises KeyError if there is none."""
        at = bisect_left(self._lasts, tag)
        entry = self._packs[at].pop(tag)
        if entry is None:
            raise KeyError(tag)
        self.count -= 1
        if not self._packs[at]:
            self._forget(at, at + 1)
        return entry

    def take_up_to(self, tag: int) -> list[Pack]:
        """Remove and return the deliveries up to this tag."""
        whole = bisect_right(self._lasts, tag)
        taken = self._packs[:whole]
        self._forget(0, whole)
        if self._packs and (some := self._packs[0].take_up_to(tag)):
            taken.append(Pack(some))
            if not self._packs[0]:
                self._forget(0, 1)
        self.count -= sum(map(len, taken))
        return taken

    def put_back(self, tag: int, entry: QueuedMessage) -> None:
        """Add a delivery again that was taken out; its tag is at most `last`."""
        self._packs[bisect_left(self._lasts, tag)].put_back(tag, entry)
        self.count += 1

    def check(self) -> None:
        """Raise AssertionError unless tags ascend from pack to pack, and `count` is right."""
        tags = [tag for tag, _ in self.items()]
        assert all(before < after for before, after in pairwise(tags)), f"packed delivery tags out of order: {tags}"
        assert self.count == len(tags), f"{self.count} packed deliveries are counted, there are {len(tags)}"
        for (before, last), pack in zip(pairwise([0, *self._lasts]), self._packs, strict=True):
            found = [tag for tag, _ in pack.items()]
            assert before < found[0] <= found[-1] <= last, (
                f"tags {found[0]} to {found[-1]} are not in ({before}, {last}]"
            )

    def _forget(self, start: int, end: int) -> None:
        del self._packs[start:end], self._lasts[start:end]
        self.last = self._lasts[-1] if self._lasts else 0


class Taken:
    """Deliveries taken out of the ledger, in the order of tags. Packed ones are unpacked when `first` takes them."""

    __slots__ = ("_next", "_packs", "_recent")

    def __init__(self, recent: dict[int, QueuedMessage], packs: Sequence[Pack] = ()) -> None:
        self._packs = deque(packs)
        self._recent = recent
        self._next: deque[QueuedMessage] = deque()

    def __len__(self) -> int:
        return len(self._next) + sum(map(len, self._packs)) + len(self._recent)

    def __bool__(self) -> bool:
        return bool(self._next or self._packs or self._recent)

    @property
    def consumed(self) -> int:
        """Number of the deliveries that went to consumers, not to basic.get."""
        recent = sum(entry.consumer is not None for entry in self._recent.values())
        return recent + sum(pack.consumed for pack in self._packs)

    @property
    def queues(self) -> Iterator[OriginQueue]:
        """The queues of the deliveries, some of them several times. Only before the first call of `first`."""
        packed = chain.from_iterable(pack.queues for pack in self._packs)
        return chain(packed, (entry.queue for entry in self._recent.values()))

    def items(self) -> Iterator[tuple[int, QueuedMessage]]:
        """Return tags and entries. Only before the first call of `first`."""
        return chain(chain.from_iterable(pack.items() for pack in self._packs), self._recent.items())

    def values(self) -> Iterator[QueuedMessage]:
        """Return the entries that are left."""
        packed = chain.from_iterable(pack.values() for pack in self._packs)
        return chain(self._next, packed, self._recent.values())

    def first(self, messages: int) -> list[QueuedMessage]:
        """Remove and return the first of the entries that are left, at most `messages`."""
        coming = self._next
        while len(coming) < messages and self._packs:
            coming.extend(self._packs.popleft().values())
        if len(coming) < messages and self._recent:
            coming.extend(self._recent.values())
            self._recent = {}
        return [coming.popleft() for _ in range(min(messages, len(coming)))]


def _by_kind(entries: Collection[QueuedMessage]) -> tuple[list[QueuedMessage], array[int]]:
    """Return one entry of each kind, and for each entry the index of its kind in that list."""
    kinds = [entry.kind for entry in entries]
    if kinds and kinds.count(kinds[0]) == len(kinds):  # one kind, the usual case: quicker than a look-up for each
        return list(entries)[:1], array("H", bytes(2 * len(kinds)))
    examples = dict(zip(kinds, entries, strict=True))
    numbers = {kind: number for number, kind in enumerate(examples)}
    return list(examples.values()), array("H", [numbers[kind] for kind in kinds])


def _tag(item: tuple[int, QueuedMessage]) -> int:
    return item[0]
