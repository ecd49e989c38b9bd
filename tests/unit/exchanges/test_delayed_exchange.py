"""Messages that wait in an x-delayed-message exchange, in virtual time.

What is expected of headers, delays and routing is what RabbitMQ's plugin rabbitmq_delayed_message_exchange says in its
README and does in its source, in the versions before 3.13. docs/protocol.md lists what is different.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.entities.exchanges.exchange import Exchange
from broker.entities.messages.delay_header import DELAY_MAX_MILLISECONDS, delay_of
from broker.entities.messages.message import Message
from broker.entities.queues import delay_queue
from broker.entities.queues.delay_queue import DelayQueue
from broker.entities.queues.queue import Queue
from broker.entities.queues.queue_store import QueueStore
from broker.wire.amqp_errors import ChannelException, ConnectionException
from broker.wire.field_tables import Field, from_python
from broker.wire.properties import decode_properties
from harness.brokers.broker_core import Core, Reader, message
from storage.batch import PERSISTENT


def declared(
    core: Core, name: str = "later", type_: str = "fanout", *, durable: bool = True, **arguments: Any
) -> Exchange:
    arguments = {key.replace("_", "-"): value for key, value in arguments.items()}
    return core.exchange(name, "x-delayed-message", durable=durable, arguments={"x-delayed-type": type_, **arguments})


def waiting(exchange: Exchange) -> DelayQueue:
    assert exchange.delays is not None
    return exchange.delays


def publish(
    core: Core, exchange: Exchange, body: bytes, delay: Any = None, *, key: str = "", **properties: Any
) -> bool:
    """As basic.publish does; True if a confirm would have to wait for the disk."""
    headers = properties.pop("headers", {}) | ({} if delay is None else {"x-delay": delay})
    made = message(body, exchange=exchange.name, key=key, headers=headers, **properties)
    queues = core.vhost.route(exchange, (key,), from_python(headers), made).queues
    if len(queues) > 1:
        core.vhost.share_body(made, queues)
    held = [queue.publish(made) for queue in queues]
    core.end_turn()
    return any(held)


def taken(queue: Queue) -> list[bytes]:
    """The bodies of what is in a queue, which is empty then."""
    reader, found = Reader(), []
    while (body := reader.get(queue, no_ack=True)) is not None:
        found.append(body)
    return found


def first(queue: Queue) -> Message:
    """The first message in a queue, which is taken out."""
    entry = queue.get(Reader(), no_ack=True)
    assert entry is not None
    assert entry.message is not None
    return entry.message


@pytest.fixture
def later(core: Core) -> Exchange:
    """A delayed fanout that leads to the queue q."""
    exchange = declared(core)
    core.bind(exchange, core.queue("q"))
    return exchange


# When


def test_messages_leave_in_the_order_of_their_times(core: Core, later: Exchange) -> None:
    for delay in (500, 100, 300, 200, 100, 400):
        publish(core, later, b"%d" % delay, delay)
    assert waiting(later).messages == 6
    assert taken(core.queue_named("q")) == []
    core.advance(99)
    assert taken(core.queue_named("q")) == []
    core.advance(1)
    assert taken(core.queue_named("q")) == [b"100", b"100"]
    core.advance(400)
    assert taken(core.queue_named("q")) == [b"200", b"300", b"400", b"500"]
    assert waiting(later).messages == 0


def test_of_those_due_together_the_first_published_leaves_first(core: Core, later: Exchange) -> None:
    publish(core, later, b"a", 100)
    core.advance(40)
    publish(core, later, b"b", 60)
    publish(core, later, b"c", 60)
    core.advance(60)
    assert taken(core.queue_named("q")) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("field", "delay"),
    [
        *((Field(kind, 100), 100) for kind in "bBsuIilL"),
        (Field("l", DELAY_MAX_MILLISECONDS), DELAY_MAX_MILLISECONDS),
        (Field("l", DELAY_MAX_MILLISECONDS + 1), 0),
        (Field("I", 0), 0),
        (Field("I", -5), 0),
        (Field("S", b"100"), 100),
        (Field("S", b"+100"), 100),
        (Field("S", b"soon"), 0),
        (Field("S", b" 100"), 0),
        (Field("S", b"9" * 5000), 0),
        (Field("d", 100.9), 100),
        (Field("f", float("nan")), 0),
        (Field("d", float("inf")), 0),
        (Field("T", 100), 0),
        (Field("t", True), 0),
        (Field("x", b"100"), 0),
        (Field("V", None), 0),
    ],
)
def test_what_counts_as_a_delay(field: Field, delay: int) -> None:
    assert delay_of({"x-delay": field}) == delay


def test_without_a_delay_a_message_goes_at_once_and_unchanged(core: Core, later: Exchange) -> None:
    for delay in (None, 0, -1, DELAY_MAX_MILLISECONDS + 1, "soon"):
        publish(core, later, b"now", delay)
        headers = decode_properties(first(core.queue_named("q")).header).headers
        assert headers == from_python({} if delay is None else {"x-delay": delay})
    assert waiting(later).messages == 0


def test_the_header_says_how_long_a_message_has_waited(core: Core, later: Exchange) -> None:
    publish(core, later, b"", 100, headers={"z": 1, "a": 2}, message_id="m")
    core.advance(100)
    delivered = first(core.queue_named("q"))
    properties = decode_properties(delivered.header)
    assert properties.message_id == "m"
    assert list((properties.headers or {}).items()) == [
        ("a", from_python({"a": 2})["a"]),
        ("x-delay", Field("I", -100)),
        ("z", from_python({"z": 1})["z"]),
    ]
    assert delivered.flags == PERSISTENT
    assert delivered.exchange == "later"


def test_the_longest_delay(core: Core, later: Exchange) -> None:
    publish(core, later, b"", Field("l", DELAY_MAX_MILLISECONDS))
    core.advance(DELAY_MAX_MILLISECONDS - 1)
    assert len(core.queue_named("q").ready_messages) == 0
    core.advance(1)
    headers = decode_properties(first(core.queue_named("q")).header).headers or {}
    assert headers["x-delay"] == Field("l", -DELAY_MAX_MILLISECONDS)


# Where to


def test_bindings_count_when_the_time_has_come(core: Core) -> None:
    exchange = declared(core, type_="topic")
    core.bind(exchange, core.queue("before"), "a.*")
    publish(core, exchange, b"1", 100, key="a.b")
    core.unbind(exchange, core.queue_named("before"), "a.*")
    core.bind(exchange, core.queue("after"), "#.b")
    core.advance(100)
    assert taken(core.queue_named("before")) == []
    assert taken(core.queue_named("after")) == [b"1"]


@pytest.mark.parametrize(
    ("type_", "key"),
    [
        ("direct", "k"),
        ("fanout", ""),
        ("topic", "*"),
        ("headers", ""),
        ("x-consistent-hash", "1"),
        ("x-modulus-hash", ""),
        ("x-random", ""),
        ("x-recent-history", ""),
    ],
)
def test_every_type_can_be_underneath(core: Core, type_: str, key: str) -> None:
    exchange = declared(core, type_=type_)
    core.bind(exchange, core.queue("q"), key, {"x-match": "all", "colour": "red"} if type_ == "headers" else None)
    publish(core, exchange, b"1", 100, key="k", headers={"colour": "red"})
    core.advance(100)
    assert taken(core.queue_named("q")) == [b"1"]


def test_a_history_begins_when_the_time_has_come(core: Core) -> None:
    exchange = declared(core, type_="x-recent-history")
    publish(core, exchange, b"1", 100)
    core.bind(exchange, core.queue("before"))
    assert taken(core.queue_named("before")) == []
    core.advance(100)
    core.bind(exchange, core.queue("after"))
    assert taken(core.queue_named("before")) == taken(core.queue_named("after")) == [b"1"]


def test_the_alternate_exchange_is_asked_when_the_time_has_come(core: Core) -> None:
    exchange = declared(core, type_="direct", alternate_exchange="amq.fanout")
    core.bind(core.vhost.exchange("amq.fanout"), core.queue("lost"))
    publish(core, exchange, b"1", 100, key="k")
    assert taken(core.queue_named("lost")) == []
    core.advance(100)
    assert taken(core.queue_named("lost")) == [b"1"]


def test_exchanges_before_and_behind(core: Core, later: Exchange) -> None:
    """Every queue gets what reaches it; a second delayed exchange does not delay again."""
    core.bind(core.vhost.exchange("amq.fanout"), later)
    core.bind(core.vhost.exchange("amq.fanout"), core.queue("at once"))
    second = declared(core, "second")
    core.bind(later, second)
    core.bind(second, core.queue("behind"))
    publish(core, core.vhost.exchange("amq.fanout"), b"1" * 5000, 100)
    assert taken(core.queue_named("at once")) == [b"1" * 5000]
    core.commit()
    core.advance(100)
    assert waiting(second).messages == 0
    assert taken(core.queue_named("q")) == taken(core.queue_named("behind")) == [b"1" * 5000]
    core.restart()
    assert core.store.statistics().live_bytes < 64 * 1024


def test_a_full_queue_turns_it_away(core: Core, later: Exchange) -> None:
    core.bind(later, core.queue("full", max_length=1, overflow="reject-publish"))
    publish(core, later, b"1", 100)
    publish(core, later, b"2", 100)
    core.advance(100)
    assert taken(core.queue_named("full")) == [b"1"]
    assert taken(core.queue_named("q")) == [b"1", b"2"]


def test_time_to_live_begins_when_the_delay_has_ended(core: Core, later: Exchange) -> None:
    publish(core, later, b"1", 100, expiration="50")
    core.advance(100)
    core.advance(49)
    assert len(core.queue_named("q").ready_messages) == 1
    core.advance(1)
    assert len(core.queue_named("q").ready_messages) == 0


def test_dead_letters_are_delayed_too(core: Core, later: Exchange) -> None:
    """Also those from a queue they go back to, and whatever the queues are called."""
    name = waiting(later).name
    core.bind(later, core.queue(name, dead_letter_exchange="later"))
    core.deposit(core.queue_named(name), b"1", headers={"x-delay": 100})
    reader = Reader()
    reader.consume(core.queue_named(name), prefetch=1)
    core.queue_named(name).touch()
    core.end_turn()
    reader.reject()
    core.end_turn()
    assert waiting(later).messages == 1
    core.advance(100)
    assert taken(core.queue_named("q")) == [b"1"]


# Declared, deleted


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({}, ChannelException, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        (
            {"x-delayed-type": 5},
            ChannelException,
            "Invalid argument, 'x-delayed-type' must be an existing exchange type",
        ),
        (
            {"x-delayed-type": "x-delayed-message"},
            ChannelException,
            "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'",
        ),
        ({"x-delayed-type": "x-not-valid-type"}, ConnectionException, "unknown exchange type 'x-not-valid-type'"),
    ],
)
def test_refused(core: Core, arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        core.exchange("x", "x-delayed-message", arguments=arguments)
    assert "x" not in core.vhost.exchanges


@pytest.mark.parametrize("durable", [True, False])
def test_deleting_the_exchange_deletes_what_waits(core: Core, *, durable: bool) -> None:
    exchange = declared(core, durable=durable)
    core.bind(exchange, core.queue("q"))
    for _ in range(10):
        publish(core, exchange, b"1", 100)
    core.commit()
    core.vhost.delete_exchange(exchange).result()
    assert waiting(exchange).messages == 0
    declared(core, durable=durable)
    core.bind(core.vhost.exchange("later"), core.queue_named("q"))
    core.restart()
    core.advance(1000)
    assert taken(core.queue_named("q")) == []
    while core.store.reclaim():
        pass
    assert not core.store.lanes().get(waiting(exchange).store.queue_id)


def test_an_auto_delete_exchange_goes_with_what_waits(core: Core) -> None:
    exchange = core.exchange("x", "x-delayed-message", auto_delete=True, arguments={"x-delayed-type": "fanout"})
    core.bind(exchange, core.queue("q"))
    publish(core, exchange, b"1", 100)
    core.unbind(exchange, core.queue_named("q"))
    core.advance(100)
    assert core.broker.queues_by_id.keys() == {core.queue_named("q").store.queue_id}
    assert taken(core.queue_named("q")) == []


def test_the_virtual_hosts_end_is_theirs(core: Core, later: Exchange) -> None:
    publish(core, later, b"1", 100)
    core.broker.remove_vhost("/")
    core.advance(100)
    assert core.broker.queues_by_id == {}


# Kept


def test_only_persistent_messages_of_durable_exchanges_wait_for_the_disk(core: Core, later: Exchange) -> None:
    transient = declared(core, "transient", durable=False)
    core.bind(transient, core.queue("q"))
    assert publish(core, later, b"1", 100)
    assert not publish(core, later, b"2", 100, persistent=False)
    assert not publish(core, transient, b"3", 100)
    core.restart()
    core.advance(100)
    assert taken(core.queue_named("q")) == [b"1"]


def test_time_goes_on_while_the_broker_is_down(core: Core, later: Exchange) -> None:
    for delay in (300, 100, 200):
        publish(core, later, b"%d" % delay, delay)
    core.commit()
    core.clock.time += 250
    core.crash()
    assert waiting(core.vhost.exchange("later")).messages == 3
    publish(core, core.vhost.exchange("later"), b"new", 20)
    core.advance(0)
    assert taken(core.queue_named("q")) == [b"100", b"200"]
    core.advance(50)
    assert taken(core.queue_named("q")) == [b"new", b"300"]


def test_times_are_read_back_in_pieces_and_nothing_leaves_before(
    core: Core, later: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_queue, "INDEX_MESSAGES", 2)
    for delay in (500, 400, 300, 200, 100):
        publish(core, later, b"%d" % delay, delay)
        core.commit()
    core.clock.time += 600
    core.crash()
    for _ in range(2):
        publish(core, core.vhost.exchange("later"), b"new", 1)
        core.advance(1)
        assert waiting(core.vhost.exchange("later")).messages >= 5
    core.advance(1)
    assert taken(core.queue_named("q")) == [b"100", b"200", b"300", b"400", b"500", b"new", b"new"]


def test_a_crash_before_the_move_is_on_disk_undoes_it_whole(core: Core, later: Exchange) -> None:
    core.bind(later, core.queue("p"))
    publish(core, later, b"1", 100)
    core.commit()
    core.advance(100)
    assert len(core.queue_named("q").ready_messages) == len(core.queue_named("p").ready_messages) == 1
    core.crash()
    assert len(core.queue_named("q").ready_messages) == len(core.queue_named("p").ready_messages) == 0
    assert waiting(core.vhost.exchange("later")).messages == 1
    core.advance(1)
    core.commit()
    core.crash()
    assert taken(core.queue_named("q")) == taken(core.queue_named("p")) == [b"1"]
    assert waiting(core.vhost.exchange("later")).messages == 0


def test_beyond_the_window_messages_are_on_disk_only(core: Core, later: Exchange) -> None:
    """The window of these tests is four messages."""
    bodies = [b"%d" % number for number in range(50)]
    for number, body in enumerate(bodies):
        publish(core, later, body, 1000 + number, persistent=number % 2 == 0)
    core.commit()
    assert len(waiting(later)._held) == 4
    core.advance(2000)
    assert waiting(later)._held_bytes == 0
    assert taken(core.queue_named("q")) == bodies
    core.restart()
    assert waiting(core.vhost.exchange("later")).messages == 0


def test_much_that_is_due_at_once_leaves_in_turns(core: Core, later: Exchange) -> None:
    for number in range(1000):
        publish(core, later, b"%d" % number, 100)
    core.advance(100)
    assert 0 < waiting(later).messages < 1000
    while waiting(later).messages:
        core.advance(1)
    assert taken(core.queue_named("q")) == [b"%d" % number for number in range(1000)]


def test_while_the_disk_is_behind_nothing_leaves(core: Core, later: Exchange) -> None:
    publish(core, later, b"1", 100)
    for _ in range(6):
        core.broker.batches.seal()
    core.advance(100)
    assert waiting(later).messages == 1
    core.commit()
    core.advance(10)
    assert waiting(later).messages == 0


# What goes wrong


class Stumbling:
    """Publishes to a queue raise so many times."""

    def __init__(self, queue: Queue, patch: pytest.MonkeyPatch, times: int) -> None:
        self.left = times
        self._publish = queue.publish
        patch.setattr(queue, "publish", self._maybe)

    def _maybe(self, message: Message) -> bool:
        if self.left:
            self.left -= 1
            raise RuntimeError("a mistake")
        return self._publish(message)


def test_a_message_that_could_not_be_published_is_tried_again(
    core: Core, later: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others go their way, and a queue that has it does not get it again."""
    core.bind(later, core.queue("also"))
    stumbling = Stumbling(core.vhost.queues["also"], monkeypatch, 2)
    publish(core, later, b"first", 100)
    publish(core, later, b"second", 200)
    core.advance(250)
    assert stumbling.left == 0
    assert waiting(later).messages == 2
    core.advance(1100)
    assert taken(core.vhost.queues["q"]) == [b"first", b"second"]
    assert taken(core.vhost.queues["also"]) == [b"first", b"second"]
    assert waiting(later).messages == 0
    core.commit()
    assert waiting(later).store.state.messages == 0


def test_messages_that_could_not_be_read_back_are_tried_again(
    core: Core, later: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(core, later, b"kept", 100)
    core.restart()
    with monkeypatch.context() as broken:
        broken.setattr(QueueStore, "load", lambda lane, entries: 1 // 0)
        core.advance(200)
        assert core.vhost.queues["q"].ready == 0
    core.advance(1100)
    assert taken(core.vhost.queues["q"]) == [b"kept"]
