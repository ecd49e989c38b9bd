"""What a recorded workload promised, told by its marks: what the store must hold whenever it is asked.

Every mark is one line of JSON. A batch is announced before it is committed and confirmed afterwards; in between the
store may hold the one state or the other, each whole, and nothing else.

So this ledger does not use the oracle of the queues (`tests/durability/ledgers/oracle.py`), which judges message by
message where clients and broker are told of each other's doings late: one thread drives the store, what it may hold is
one of two contents, and bodies, delivery counts and closed segments are compared with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from storage.batch import TRANSIENT_QUEUE

Key = tuple[int, int, int]
"""Queue, lane, position."""


class Held(NamedTuple):
    """A message in a store: the text its body must have, and how often it was handed out. No text: transient."""

    text: str
    deliveries: int = 0


Contents = dict[Key, Held]
"""The messages of a store, and the closed segments of its streams."""


CLOSED = 255
"""In place of a lane: under the position where a closed segment of a stream begins, what is known of it."""


def body_of(key: Key, size: int, body_id: int) -> str:
    """The body of the message at a place: nobody else's, and of a known length."""
    text = f"shared {body_id}" if body_id else "/".join(map(str, key))
    return text + "." * size


class Ledger:
    """Follows marks; knows what may be in the store."""

    def __init__(self) -> None:
        self.confirmed: Contents = {}
        self.announced: Contents | None = None
        self.boot = 0
        self.store_promised = False

    def follow(self, mark: bytes) -> None:
        """Take in what was promised next."""
        for line in mark.splitlines():
            self._take(json.loads(line))

    def _take(self, said: dict[str, Any]) -> None:
        if said["mark"] == "open":
            self.boot, self.store_promised = said["boot"], True
        elif said["mark"] == "sealed":
            self.announced = after(self.confirmed, said)
        elif said["mark"] == "stored":
            assert self.announced is not None
            self.confirmed, self.announced = self.announced, None

    def allowed(self) -> list[Contents]:
        """What the store may hold after a restart."""
        return [after_restart(contents) for contents in (self.confirmed, self.announced) if contents is not None]


def after(contents: Contents, batch: dict[str, Any]) -> Contents:
    """What a batch makes of a store's contents."""
    held = dict(contents)
    for queue_id, lane, position, size, body_id, persistent in batch["puts"]:
        text = body_of((queue_id, lane, position), size, body_id)
        held[(queue_id, lane, position)] = Held(text if persistent else "")
    for key in batch["settled"]:
        held.pop(tuple(key), None)
    for queue_id, lane, position, deliveries in batch["counted"]:
        if (queue_id, lane, position) in held:
            held[(queue_id, lane, position)] = held[(queue_id, lane, position)]._replace(deliveries=deliveries)
    for queue_id, _lane, first, *known in batch["closed"]:
        held[(queue_id, CLOSED, first)] = Held(str(known))
    for queue_id, lane, floor, survivors in batch["purges"]:
        kept = set(survivors)
        dead = [k for k in held if k[0] == queue_id and k[1] in (lane, CLOSED) and k[2] < floor and k[2] not in kept]
        _forget(held, dead)
    _forget(held, [key for key in held if key[0] in batch["deleted"]])
    return held


def _forget(held: Contents, keys: Iterable[Key]) -> None:
    for key in keys:
        del held[key]


def after_restart(contents: Contents) -> Contents:
    """What outlives the process: persistent messages of durable queues."""
    return {key: held for key, held in contents.items() if held.text and key[0] < TRANSIENT_QUEUE}
