"""The messages of one queue: which have to be there after a promotion, which may be, and which must not come again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class MessageAccounts:
    """Numbers of messages, by what is known of them. Publishers add them in ascending order."""

    def __init__(self) -> None:
        self._next = 0
        self._unsure: set[int] = set()
        """Published, and not known to have arrived."""
        self._confirmed: set[int] = set()
        """Confirmed, and not known to be at the place."""
        self._sure: set[int] = set()
        """Confirmed, at the place, and not acknowledged."""
        self._leaving: set[int] = set()
        """Acknowledged, and not known to be so at the place."""
        self.checked = 0
        """Messages that were there as they had to be."""

    def publish(self, count: int) -> list[bytes]:
        """Return bodies to be published."""
        numbers = range(self._next, self._next + count)
        self._next += count
        self._unsure.update(numbers)
        return [b"%d" % number for number in numbers]

    def confirmed(self, bodies: Iterable[bytes], *, shipped: bool) -> None:
        """Note that these are confirmed; `shipped`: which says that they are at the place."""
        numbers = set(map(int, bodies)) & self._unsure
        self._unsure -= numbers
        (self._sure if shipped else self._confirmed).update(numbers)

    def acknowledged(self, bodies: Iterable[bytes]) -> None:
        """Note that these are acknowledged."""
        numbers = set(map(int, bodies))
        for each in (self._unsure, self._confirmed, self._sure):
            each -= numbers
        self._leaving |= numbers

    def all_shipped(self) -> None:
        """Note that all that was confirmed or acknowledged so far is at the place."""
        self._sure |= self._confirmed
        self._confirmed.clear()
        self._leaving.clear()

    def check(self, found: Sequence[bytes]) -> None:
        """Compare with all that a promoted broker has, which is then taken off. Raises AssertionError."""
        numbers = list(map(int, found))
        missing = self._sure - set(numbers)
        assert not missing, f"confirmed, shipped, and not there: {sorted(missing)[:10]}"
        assert len(numbers) == len(set(numbers)), (
            f"twice: {sorted(n for n in set(numbers) if numbers.count(n) > 1)[:10]}"
        )
        again = set(numbers) - self._sure - self._confirmed - self._unsure - self._leaving
        assert not again, f"acknowledged and shipped so, and there again: {sorted(again)[:10]}"
        assert numbers == sorted(numbers), f"not in their order: {numbers[:20]}"
        self.checked += len(numbers)
        for each in (self._sure, self._confirmed, self._unsure, self._leaving):
            each.clear()
