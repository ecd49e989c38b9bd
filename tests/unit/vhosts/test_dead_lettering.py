"""Dead letters: what is written into them, and where they go.

Fields, their order and the treatment of what clients write into x-death were recorded from RabbitMQ 3.10.8 on the wire.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.entities.queues.queue import Queue
from broker.wire.field_tables import Field, Table
from broker.wire.properties import BasicProperties, decode_properties
from harness.brokers.broker_core import START, Core, Reader


def letters(queue: Queue) -> list[BasicProperties]:
    """Properties of every ready message, which are left in the queue."""
    return [decode_properties(entry.message.header) for entry in queue.ready_messages.resident() if entry.message]


def deaths(properties: BasicProperties) -> list[Table]:
    """The tables of the x-death header, latest first."""
    assert properties.headers is not None
    field = properties.headers["x-death"]
    assert field.kind == "A"
    return [entry.value for entry in field.value]


def reject_all(core: Core, queue: Queue) -> None:
    """Consume whatever is ready, reject it, and go."""
    reader = Reader()
    consumer = reader.consume(queue)
    core.end_turn()
    queue.consumers.remove(consumer)
    reader.reject()
    core.end_turn()


@pytest.fixture
def graveyard(core: Core) -> Queue:
    return core.queue("dl")


def dying(core: Core, name: str = "q", **arguments: Any) -> Queue:
    """A queue whose dead letters go to the queue `dl`."""
    return core.queue(name, dead_letter_exchange="", dead_letter_routing_key="dl", **arguments)


def test_the_first_death_in_full(core: Core, graveyard: Queue) -> None:
    core.deposit(dying(core), b"x", headers={"z": 1}, message_id="m")
    reject_all(core, core.queue_named("q"))
    (dead_letter,) = letters(graveyard)
    assert list(dead_letter.headers or {}) == [
        "x-death",
        "x-first-death-exchange",
        "x-first-death-queue",
        "x-first-death-reason",
        "x-last-death-exchange",
        "x-last-death-queue",
        "x-last-death-reason",
        "z",
    ]
    assert list(deaths(dead_letter)[0].items()) == [
        ("count", Field("l", 1)),
        ("reason", Field("S", b"rejected")),
        ("queue", Field("S", b"q")),
        ("time", Field("T", START // 1000)),
        ("exchange", Field("S", b"")),
        ("routing-keys", Field("A", [Field("S", b"q")])),
    ]
    assert dead_letter.message_id == "m"


@pytest.mark.parametrize("reason", ["rejected", "expired", "maxlen"])
def test_the_time_to_live_goes_into_the_death(core: Core, graveyard: Queue, reason: str) -> None:
    """Whatever it died of, or it would die of it again (3.10.8 on the wire)."""
    limit: dict[str, Any] = {"max_length": 0} if reason == "maxlen" else {}
    queue = dying(core, **limit)
    core.deposit(queue, b"x", expiration="1000")
    if reason == "rejected":
        reject_all(core, queue)
    core.advance(1000)
    (dead_letter,) = letters(graveyard)
    assert dead_letter.expiration is None
    (death,) = deaths(dead_letter)
    assert death["reason"] == Field("S", reason.encode())
    assert list(death)[-1] == "original-expiration"
    assert death["original-expiration"] == Field("S", b"1000")


def test_a_second_death_of_the_same_kind_counts_on_and_comes_first(core: Core, graveyard: Queue) -> None:
    first = {"queue": "q", "reason": "rejected", "count": 5}
    other = {"queue": "elsewhere", "reason": "expired", "count": 2}
    core.deposit(dying(core), b"x", headers={"x-death": [other, first]})
    reject_all(core, core.queue_named("q"))
    (dead_letter,) = letters(graveyard)
    latest, earlier = deaths(dead_letter)
    assert latest["count"].value == 6
    assert latest["queue"].value == b"q"
    assert (earlier["queue"].value, earlier["count"].value) == (b"elsewhere", 2)


def test_the_last_death_is_named_and_the_first_remembered(core: Core, graveyard: Queue) -> None:
    """RabbitMQ 3.13 documentation, Dead Letter Exchanges: `x-last-death-*` changes, `x-first-death-*` never
    does."""
    first, second = dying(core, "one", max_length=0), dying(core, "two")
    first.arguments = first.arguments._replace(dead_letter_routing_key="two")
    core.deposit(first, b"x")
    reject_all(core, second)
    (dead_letter,) = letters(graveyard)
    said = {name: field.value for name, field in (dead_letter.headers or {}).items() if "-death-" in name}
    assert said == {
        "x-first-death-exchange": b"",
        "x-first-death-queue": b"one",
        "x-first-death-reason": b"maxlen",
        "x-last-death-exchange": b"",
        "x-last-death-queue": b"two",
        "x-last-death-reason": b"rejected",
    }


def test_a_later_death_has_its_fields_in_alphabetical_order(core: Core, graveyard: Queue) -> None:
    """As RabbitMQ 3.10.8 writes every death but a message's first."""
    core.deposit(dying(core), b"x", headers={"x-death": [{"queue": "elsewhere", "reason": "expired", "count": 1}]})
    reject_all(core, core.queue_named("q"))
    (dead_letter,) = letters(graveyard)
    assert list(deaths(dead_letter)[0]) == ["count", "exchange", "queue", "reason", "routing-keys", "time"]
    assert "x-first-death-queue" not in (dead_letter.headers or {}), "it was not the first"


@pytest.mark.parametrize(
    ("written", "counted"),
    [
        pytest.param({"queue": "q", "reason": "rejected"}, 1, id="no count"),
        pytest.param({"queue": "q", "reason": "rejected", "count": "many"}, None, id="a count that is text"),
        pytest.param({"queue": "q", "reason": "rejected", "count": True}, None, id="a count that is a bool"),
        pytest.param({"queue": "q", "reason": "rejected", "count": (1 << 63) - 1}, None, id="the highest count"),
        pytest.param({}, 1, id="an empty table"),
        pytest.param({"queue": 1, "reason": 2}, 1, id="names that are numbers"),
    ],
)
def test_what_publishers_write_into_x_death_breaks_nothing(
    core: Core, graveyard: Queue, written: dict[str, Any], counted: int | None
) -> None:
    core.deposit(dying(core), b"x", headers={"x-death": [written]})
    reject_all(core, core.queue_named("q"))
    (dead_letter,) = letters(graveyard)
    if counted is not None:
        assert deaths(dead_letter)[0]["count"] == Field("l", counted)


@pytest.mark.parametrize("written", ["text", 1, [1], [], {"a": 1}, None])
def test_an_x_death_that_is_no_array_of_tables_breaks_nothing(core: Core, graveyard: Queue, written: object) -> None:
    core.deposit(dying(core), b"x", headers={"x-death": written})
    reject_all(core, core.queue_named("q"))
    (dead_letter,) = letters(graveyard)
    assert deaths(dead_letter)[0]["queue"] == Field("S", b"q")


def test_a_routing_key_too_long_for_a_short_string_breaks_nothing(core: Core) -> None:
    """queue.declare takes any long string for x-dead-letter-routing-key, as RabbitMQ does."""
    queue = core.queue("q", dead_letter_exchange="", dead_letter_routing_key="k" * 300, message_ttl=10)
    core.deposit(queue, b"x")
    core.advance(20)
    assert len(queue.ready_messages) == 0


def test_without_a_key_of_its_own_a_letter_keeps_its_keys(core: Core) -> None:
    exchange = core.exchange("dlx", "direct")
    queue = core.queue("q", dead_letter_exchange="dlx")
    for key in ("q", "k2", "other"):
        core.bind(exchange, core.queue("from-" + key), key)
    core.deposit(queue, b"x", headers={"CC": ["k2"]})
    reject_all(core, queue)
    assert [len(core.queue_named(name).ready_messages) for name in ("from-q", "from-k2", "from-other")] == [1, 1, 0]
    (dead_letter,) = letters(core.queue_named("from-k2"))
    assert deaths(dead_letter)[0]["routing-keys"] == Field("A", [Field("S", b"q"), Field("S", b"k2")])
    assert "CC" in (dead_letter.headers or {})


def test_with_a_key_of_its_own_copies_are_forgotten(core: Core, graveyard: Queue) -> None:
    core.queue("k2")
    core.deposit(dying(core), b"x", headers={"CC": ["k2"]})
    reject_all(core, core.queue_named("q"))
    (dead_letter,) = letters(graveyard)
    assert "CC" not in (dead_letter.headers or {})
    assert len(core.queue_named("k2").ready_messages) == 0
    (entry,) = graveyard.ready_messages.resident()
    assert entry.message is not None
    assert (entry.message.exchange, entry.message.routing_key) == ("", "dl")


def test_an_exchange_that_is_not_there_takes_the_letter_away(core: Core) -> None:
    queue = core.queue("q", dead_letter_exchange="nowhere")
    core.deposit(queue, b"x")
    reject_all(core, queue)
    assert (len(queue.ready_messages), queue.unacked) == (0, 0)


def test_a_circle_without_rejection_ends(core: Core) -> None:
    """RabbitMQ drops what would come back to a queue that it died in, if nobody on the way rejected it."""
    one = core.queue("one", dead_letter_exchange="", dead_letter_routing_key="two", message_ttl=10)
    two = core.queue("two", dead_letter_exchange="", dead_letter_routing_key="one", message_ttl=10)
    core.deposit(one, b"x")
    core.advance(10)
    assert (len(one.ready_messages), len(two.ready_messages)) == (0, 1)
    core.advance(10)
    assert (len(one.ready_messages), len(two.ready_messages)) == (0, 0)


def test_a_circle_with_a_rejection_goes_on(core: Core) -> None:
    one = core.queue("one", dead_letter_exchange="", dead_letter_routing_key="two", message_ttl=10)
    two = core.queue("two", dead_letter_exchange="", dead_letter_routing_key="one")
    core.deposit(one, b"x")
    for round_ in (1, 2, 3):
        core.advance(10)
        reject_all(core, two)
        (dead_letter,) = letters(one)
        assert [death["count"].value for death in deaths(dead_letter)] == [round_, round_]


def test_a_queue_may_be_its_own_graveyard_for_rejected_messages(core: Core) -> None:
    queue = core.queue("q", dead_letter_exchange="", dead_letter_routing_key="q")
    core.deposit(queue, b"x")
    reader = Reader()
    reader.consume(queue)
    core.end_turn()
    for _ in range(3):
        reader.reject()
        core.end_turn()
    (entry,) = reader.held
    assert entry.message is not None
    assert deaths(decode_properties(entry.message.header))[0]["count"].value == 3


def test_a_letter_survives_a_crash_and_its_original_does_not(core: Core, graveyard: Queue) -> None:
    queue = dying(core, message_ttl=1000)
    core.deposit(queue, b"x")
    core.commit()
    core.advance(1000)
    core.commit()
    core.crash()
    assert (len(core.queue_named("q").ready_messages), len(core.queue_named("dl").ready_messages)) == (0, 1)
    assert Reader().get(core.queue_named("dl")) == b"x"


def test_a_letter_that_a_crash_undid_is_written_again(core: Core, graveyard: Queue) -> None:
    """Death and dead letter are one write: neither without the other."""
    core.deposit(dying(core, message_ttl=1000), b"x")
    core.commit()
    core.advance(1000)
    core.crash()
    assert (len(core.queue_named("q").ready_messages), len(core.queue_named("dl").ready_messages)) == (1, 0)
    core.advance(1)
    assert (len(core.queue_named("q").ready_messages), len(core.queue_named("dl").ready_messages)) == (0, 1)


def test_a_letter_of_a_message_that_is_on_disk_only(core: Core, graveyard: Queue) -> None:
    queue = dying(core, message_ttl=1000)
    core.deposit(queue, *(b"%d" % number for number in range(12)))
    core.commit()
    assert len(queue.ready_messages.resident()) < 12
    core.advance(1000)
    core.commit()
    reader = Reader()
    reader.consume(graveyard, no_ack=True)
    core.end_turn()
    assert reader.bodies == [b"%d" % number for number in range(12)]
