"""A memory with a size, as far as messages take it: what the broker holds of them is counted, body by body."""

from __future__ import annotations

import gc
from functools import cache
from types import FunctionType, ModuleType, NoneType
from typing import TYPE_CHECKING

from broker.entities.messages.message import Message
from broker.entities.queues.queue_background_work import CHUNK_BYTES
from tests.simulation.copies import Broken
from tests.simulation.world.small_world import READ_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulation.copies import Copy
    from tests.simulation.world.world import World

SIZE_BYTES = 1 << 20


class Memory:
    """The machine's memory. `others` take some of it for a while."""

    def __init__(self) -> None:
        self.others = 0

    def is_short(self, broker: object) -> bool:
        """True if the broker's messages do not fit."""
        return self.others > 0 and bytes_held(broker) > SIZE_BYTES - self.others


def bytes_held(broker: object) -> int:
    """The bodies of the messages that can be reached from a broker; what several share counts once."""
    bodies: dict[int, int] = {}
    seen: set[int] = set()
    found: list[object] = [broker]
    while found:
        new = [each for each in found if not _leads_nowhere(type(each)) and id(each) not in seen]
        seen.update(map(id, new))
        bodies.update((id(each.body), len(each.body)) for each in new if isinstance(each, Message))
        found = gc.get_referents(*new)
    return sum(bodies.values())


@cache
def _leads_nowhere(kind: type) -> bool:
    """Objects of this type are no messages, and none of the broker's can be reached by them alone."""
    plain = issubclass(kind, (type, ModuleType, FunctionType, str, bytes, int, float, NoneType))
    return plain or kind.__module__.startswith("tests.")


def check_memory(world: World) -> None:
    """The broker holds a window of each queue and reader, what is or was out, and what is on its way. Raises Broken."""
    process, promises = world.process, world.promises
    window = process.settings.limits.queue_window_bytes
    windows = sum(window + _largest(place.copies.values()) for place in promises.places.values() if place.there)
    readings = sum(len(channel.readings) for client in world.clients.values() for channel in client.channels.values())
    streamed = max((len(publication.body) for publication in promises.stream.sent.values()), default=0)
    windows += streamed + readings * (READ_BYTES + streamed)
    windows += _run_of_dead_letters([copy for copy in promises.mortal if copy.may_have_gone(promises.now)])
    given = [copy for client in world.clients.values() for c in client.channels.values() for copy in client.all_out(c)]
    seen = dict.fromkeys([*given, *(copy for copy in promises.copies() if copy.times_out)])
    out = sum(len(copy.publication.body) for copy in seen)
    waiting = process.broker.batches.unstored_bytes + process.registry.incomplete_bytes
    held = bytes_held(process.broker)
    if held > windows + out + waiting + len(world.clients) * process.settings.limits.held_bytes_max:
        raise Broken(f"the broker holds {held} bytes of messages: windows {windows}, out {out}, on their way {waiting}")


def _run_of_dead_letters(dead: Iterable[Copy]) -> int:
    """By how much dead letters that nobody has seen may pass a window: those of one step come into it together."""
    sizes = [len(copy.publication.body) for copy in dead]
    return min(sum(sizes), CHUNK_BYTES + max(sizes, default=0))


def _largest(copies: Iterable[Copy]) -> int:
    return max((len(copy.publication.body) for copy in copies), default=0)
