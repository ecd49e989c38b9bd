"""The older deliveries of a channel, in few bytes each.

A client may have millions of messages out. As a `QueuedMessage` with its tag each takes 220 to 290 bytes. When its
content has been let go, a few numbers are left, and deliveries of the same kind differ in four of them: those are
packed, in 34 bytes each. An entry is made again when its delivery is settled or given back.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, pairwise, takewhile

from broker.entities.messages.message import OriginQueue, QueuedMessage


class Pack:
    """Some deliveries with rising tags, none later than `last`. Those whose content is in memory stay as they are."""

    __slots__ = ("_columns", "_kinds", "_resident", "last", "queues")

    def __init__(self, deliveries: dict[int, QueuedMessage]) -> None:
        self.last = max(deliveries)
        self._resident = {tag: entry for tag, entry in deliveries.items() if entry.message is not None}
        packed = {tag: entry for tag, entry in deliveries.items() if entry.message is None}
        self.queues = {entry.queue for entry in deliveries.values()}
        """The queues that they are, or were, from."""
        entries = packed.values()
        self._kinds, numbers = _by_kind(entries)
        """An entry of each kind."""
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
        """How many of them went to consumers."""
        consumed = [kind.consumer is not None for kind in self._kinds]
        packed = sum(consumed[kind] for kind in self._columns[-1])
        return packed + sum(entry.consumer is not None for entry in self._resident.values())

    def items(self) -> Iterator[tuple[int, QueuedMessage]]:
        """Tags and entries; those that are packed are made anew each time."""
        packed = self._unpacked()
        return iter(sorted(chain(packed, self._resident.items()), key=_tag)) if self._resident else packed

    def values(self) -> Iterator[QueuedMessage]:
        """The entries, in the order of their tags."""
        return (entry for _, entry in self.items())

    def get(self, tag: int) -> QueuedMessage | None:
        """The delivery with a tag."""
        at = self._find(tag)
        if at is None:
            return self._resident.get(tag)
        _, positions, sizes, expiries, kinds = self._columns
        return self._kinds[kinds[at]].another(positions[at], sizes[at], expiries[at])

    def pop(self, tag: int) -> QueuedMessage | None:
        """Take the delivery with a tag out."""
        entry, at = self.get(tag), self._find(tag)
        if at is None:
            self._resident.pop(tag, None)
        else:
            self._drop(at, at + 1)
        return entry

    def take_up_to(self, tag: int) -> dict[int, QueuedMessage]:
        """Take out the deliveries up to a tag."""
        taken = dict(takewhile(lambda item: item[0] <= tag, self.items()))
        self._drop(0, bisect_right(self._columns[0], tag))
        self._resident = {number: entry for number, entry in self._resident.items() if number > tag}
        return taken

    def put_back(self, tag: int, entry: QueuedMessage) -> None:
        """A delivery that was taken out is outstanding again."""
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


class OldDeliveries:
    """Packs, the oldest first. `count` says how many deliveries they have, `last` how far their tags go."""

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
        """Tags and entries, in order."""
        return chain.from_iterable(pack.items() for pack in self._packs)

    def get(self, tag: int) -> QueuedMessage | None:
        """The delivery with a tag, if it is one of them."""
        return self._packs[bisect_left(self._lasts, tag)].get(tag) if 0 < tag <= self.last else None

    def pop(self, tag: int) -> QueuedMessage:
        """Take the delivery with a tag, which is not later than `last`, out. Raises KeyError when there is none."""
        at = bisect_left(self._lasts, tag)
        entry = self._packs[at].pop(tag)
        if entry is None:
            raise KeyError(tag)
        self.count -= 1
        if not self._packs[at]:
            self._forget(at, at + 1)
        return entry

    def take_up_to(self, tag: int) -> list[Pack]:
        """Take out the deliveries up to a tag."""
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
        """A delivery that was taken out, with a tag that is not later than `last`, is outstanding again."""
        self._packs[bisect_left(self._lasts, tag)].put_back(tag, entry)
        self.count += 1

    def check(self) -> None:
        """Raise AssertionError unless tags rise from pack to pack, and deliveries are counted."""
        tags = [tag for tag, _ in self.items()]
        assert all(before < after for before, after in pairwise(tags)), f"old delivery tags out of order: {tags}"
        assert self.count == len(tags), f"{self.count} old deliveries are counted, {len(tags)} are out"
        for (before, last), pack in zip(pairwise([0, *self._lasts]), self._packs, strict=True):
            found = [tag for tag, _ in pack.items()]
            assert before < found[0] <= found[-1] <= last, (
                f"tags {found[0]} to {found[-1]} are not in ({before}, {last}]"
            )

    def _forget(self, start: int, end: int) -> None:
        del self._packs[start:end], self._lasts[start:end]
        self.last = self._lasts[-1] if self._lasts else 0


class Taken:
    """Deliveries that were struck out, in the order of their tags. Packed ones stay so until they are needed."""

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
        """How many of them went to consumers."""
        recent = sum(entry.consumer is not None for entry in self._recent.values())
        return recent + sum(pack.consumed for pack in self._packs)

    @property
    def queues(self) -> Iterator[OriginQueue]:
        """The queues that they are from, before any were taken with `first`; one may come several times."""
        packed = chain.from_iterable(pack.queues for pack in self._packs)
        return chain(packed, (entry.queue for entry in self._recent.values()))

    def items(self) -> Iterator[tuple[int, QueuedMessage]]:
        """Tags and entries, before any were taken with `first`."""
        return chain(chain.from_iterable(pack.items() for pack in self._packs), self._recent.items())

    def values(self) -> Iterator[QueuedMessage]:
        """The entries that are left."""
        packed = chain.from_iterable(pack.values() for pack in self._packs)
        return chain(self._next, packed, self._recent.values())

    def first(self, messages: int) -> list[QueuedMessage]:
        """Take so many of them away, the first that are left."""
        coming = self._next
        while len(coming) < messages and self._packs:
            coming.extend(self._packs.popleft().values())
        if len(coming) < messages and self._recent:
            coming.extend(self._recent.values())
            self._recent = {}
        return [coming.popleft() for _ in range(min(messages, len(coming)))]


def _by_kind(entries: Collection[QueuedMessage]) -> tuple[list[QueuedMessage], array[int]]:
    """An entry of each kind, and the number of each entry's kind in this list."""
    kinds = [entry.kind for entry in entries]
    if kinds and kinds.count(kinds[0]) == len(kinds):  # which is quicker than to look each of them up
        return list(entries)[:1], array("H", bytes(2 * len(kinds)))
    examples = dict(zip(kinds, entries, strict=True))
    numbers = {kind: number for number, kind in enumerate(examples)}
    return list(examples.values()), array("H", [numbers[kind] for kind in kinds])


def _tag(item: tuple[int, QueuedMessage]) -> int:
    return item[0]
