"""The name that a misspelt one is most like, by the measure of RabbitMQ's command lines."""

from __future__ import annotations

from collections.abc import Iterable

ALIKE = 0.77
"""The least similarity of a name that is suggested."""


def most_like(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like this one, or None if none is much like it."""
    similarity, found = max(((_jaro(each, name), each) for each in known), key=lambda pair: pair[0])
    return found if similarity >= ALIKE else None


def _jaro(one: str, other: str) -> float:
    """Return the similarity of two texts, from 0 to 1: Jaro's."""
    reach = max(len(one), len(other)) // 2 - 1
    taken: dict[int, str] = {}
    for place, sign in enumerate(one):
        nearby = range(max(0, place - reach), min(len(other), place + reach + 1))
        found = next((at for at in nearby if at not in taken and other[at] == sign), None)
        if found is not None:
            taken[found] = sign
    if not taken:
        return 0.0
    common, moved = len(taken), sum(sign != other[at] for sign, at in zip(taken.values(), sorted(taken), strict=True))
    return (common / len(one) + common / len(other) + (common - moved / 2) / common) / 3
