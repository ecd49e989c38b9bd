"""Dead letters: what is written into x-death, whatever publishers have written there before.

What becomes one, in full, and where it goes is asserted on the wire (tests/conformance/queues/test_dead_letters.py).
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.entities.queues.queue import Queue
from broker.wire.field_tables import Field, Table
from broker.wire.properties import decode_properties
from harness.brokers.broker_core import Core


def dead_lettered(core: Core, **properties: Any) -> Table:
    """The headers of a message that was too much for the queue `one` and then for `two`."""
    core.queue("dl")
    for name, key in (("two", "dl"), ("one", "two")):
        core.queue(name, max_length=0, dead_letter_exchange="", dead_letter_routing_key=key)
    core.deposit(core.queue_named("one"), b"x", **properties)
    (entry,) = core.queue_named("dl").ready_messages.resident()
    assert entry.message is not None
    return decode_properties(entry.message.header).headers or {}


def test_the_last_death_is_named_and_the_first_remembered(core: Core) -> None:
    """RabbitMQ 3.13 documentation, Dead Letter Exchanges: x-last-death-* changes, x-first-death-* never does.

    A routing key that is too long for a short string breaks nothing: queue.declare takes any, as in RabbitMQ.
    """
    said = {name: field.value for name, field in dead_lettered(core).items() if "-death-" in name}
    last = {"x-last-death-exchange": b"", "x-last-death-queue": b"two", "x-last-death-reason": b"maxlen"}
    first = {"x-first-death-exchange": b"", "x-first-death-queue": b"one", "x-first-death-reason": b"maxlen"}
    assert said == first | last
    queue: Queue = core.queue("q", dead_letter_exchange="", dead_letter_routing_key="k" * 300, message_ttl=10)
    core.deposit(queue, b"x")
    core.advance(20)
    assert len(queue.ready_messages) == 0


@pytest.mark.parametrize(
    ("written", "counts"),
    [
        pytest.param({"queue": "one", "reason": "maxlen", "count": 5}, [1, 6], id="a count"),
        pytest.param({"queue": "one", "reason": "maxlen"}, [1, 1], id="no count"),
        pytest.param({"queue": "one", "reason": "maxlen", "count": "many"}, None, id="a count that is text"),
        pytest.param({"queue": "one", "reason": "maxlen", "count": True}, None, id="a count that is a bool"),
        pytest.param({"queue": "one", "reason": "maxlen", "count": (1 << 63) - 1}, None, id="the highest count"),
        pytest.param({"queue": 1, "reason": 2}, [1, 1], id="names that are numbers"),
    ],
)
def test_what_publishers_write_into_x_death_breaks_nothing(
    core: Core, written: dict[str, Any], counts: list[int] | None
) -> None:
    deaths = [entry.value for entry in dead_lettered(core, headers={"x-death": [written]})["x-death"].value]
    assert [death["queue"] for death in deaths[:2]] == [Field("S", b"two"), Field("S", b"one")]
    if counts is not None:
        assert [death["count"].value for death in deaths[:2]] == counts
