"""Topology of one world: its queues and exchanges, different with each seed."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

DEAD_LETTERS, LATE_QUEUE, STREAM = "dead", "late", "stream"
CONSUMER_TIMEOUT = 1_800_000


class Recipe(NamedTuple):
    """A queue's declaration, and the rules to which it is held. Times are milliseconds."""

    name: str
    kind: str = "classic"
    durable: bool = True
    ttl: int = 0
    limit: int = 0
    overflow: str = ""
    dead_letters_to: str = ""
    expires: int = 0
    single_active: bool = False
    delivery_limit: int = 0
    auto_delete: bool = False
    levels: int = 0
    fixed: bool = False
    """Nobody deletes or purges it."""

    def arguments(self) -> dict[str, Any]:
        """The arguments of its declaration."""
        said: dict[str, Any] = {
            "x-queue-type": self.kind,
            "x-message-ttl": self.ttl,
            "x-max-length": self.limit,
            "x-overflow": self.overflow,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": self.dead_letters_to,
            "x-expires": self.expires,
            "x-single-active-consumer": self.single_active,
            "x-delivery-limit": self.delivery_limit,
            "x-max-priority": self.levels,
        }
        wanted = {key: value for key, value in said.items() if value}
        if self.dead_letters_to:
            wanted["x-dead-letter-exchange"] = ""
        return wanted


def build(chance: Random) -> dict[str, Recipe]:
    """The queues of a world: some that are always there, and as many again of any kind."""
    recipes = [
        Recipe(DEAD_LETTERS, fixed=True),
        Recipe("plain"),
        Recipe("rejects", dead_letters_to=DEAD_LETTERS),
        Recipe("quorum", kind="quorum", dead_letters_to=DEAD_LETTERS, delivery_limit=chance.choice((0, 3))),
        Recipe("transient", durable=False),
        Recipe(LATE_QUEUE, fixed=True),
        Recipe(STREAM, kind="stream", fixed=True),
    ]
    recipes += chance.sample(
        [
            Recipe("short", ttl=chance.choice((50, 3_000, 600_000)), dead_letters_to=DEAD_LETTERS),
            Recipe("fading", ttl=chance.choice((500, 60_000))),
            Recipe("narrow", limit=chance.choice((2, 9)), dead_letters_to=DEAD_LETTERS),
            Recipe("closed", limit=chance.choice((3, 12)), overflow="reject-publish"),
            Recipe("unused", expires=chance.choice((20_000, 1_200_000))),
            Recipe("alone", single_active=True),
            Recipe("urgent", levels=4),
            Recipe("brief", auto_delete=True),
            Recipe("second", dead_letters_to=DEAD_LETTERS),
        ],
        k=6,
    )
    return {recipe.name: recipe for recipe in recipes}
