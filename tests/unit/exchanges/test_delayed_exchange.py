"""Messages that wait in an x-delayed-message exchange, in virtual time.

The expectations on headers, delays and routing are from the README and the source of RabbitMQ's plugin
rabbitmq_delayed_message_exchange, in the versions before 3.13. docs/protocol.md lists what is different.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.entities.exchanges.exchange import Exchange
from broker.entities.messages.delay_header import DELAY_MAX_MILLISECONDS, delay_of
from broker.entities.messages.message import Message
from broker.entities.node.users import Permission
from broker.entities.queues import due_messages
from broker.entities.queues.delay_queue import FULL_MILLISECONDS, DelayQueue
from broker.entities.queues.queue import Queue
from broker.entities.queues.queue_store import QueueStore
from broker.entities.scheduling.alarms import DISK
from broker.wire.field_tables import Field, from_python
from broker.wire.methods import BasicAck
from broker.wire.properties import decode_properties
from harness.brokers.broker_core import START, Core, Reader, message
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import exchange_declare, queue_bind, queue_declare
from storage.batch import PERSISTENT


def declared(core: Core, type_: str = "fanout", **flags: bool) -> Exchange:
    return core.exchange("later", "x-delayed-message", arguments={"x-delayed-type": type_}, **flags)


def waiting(exchange: Exchange) -> DelayQueue:
    assert exchange.delays is not None
    return exchange.delays


def publish(core: Core, exchange: Exchange, body: bytes, delay: Any, *, key: str = "", **properties: Any) -> bool:
    """Publish as basic.publish does; True if a confirm would have to wait for the disk."""
    headers = properties.pop("headers", {}) | {"x-delay": delay}
    made = message(body, exchange=exchange.name, key=key, headers=headers, **properties)
    held = [queue.publish(made) for queue in core.vhost.route(exchange, (key,), from_python(headers), made).queues]
    core.end_turn()
    return any(held)


def taken(queue: Queue) -> list[bytes]:
    """The bodies of what is in a queue, which is empty then."""
    return Reader().drain(queue)


@pytest.fixture
def later(core: Core) -> Exchange:
    """A delayed fanout that leads to the queue q."""
    exchange = declared(core)
    core.bind(exchange, core.queue("q"))
    return exchange


# When


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


@pytest.mark.parametrize(("delay", "kind"), [(100, "I"), (DELAY_MAX_MILLISECONDS, "l")], ids=["short", "longest"])
def test_the_header_says_how_long_a_message_has_waited(core: Core, later: Exchange, delay: int, kind: str) -> None:
    publish(core, later, b"", Field(kind, delay), headers={"z": 1, "a": 2}, message_id="m")
    core.advance(delay - 1)
    assert len(core.queue_named("q").ready_messages) == 0
    core.advance(1)
    (entry,) = core.queue_named("q").ready_messages.resident()
    delivered = entry.message
    assert delivered is not None
    properties = decode_properties(delivered.header)
    assert properties.message_id == "m"
    assert list((properties.headers or {}).items()) == [
        ("a", Field("I", 2)),
        ("x-delay", Field(kind, -delay)),
        ("z", Field("I", 1)),
    ]
    assert (delivered.flags, delivered.exchange) == (PERSISTENT, "later")


# Where to


@pytest.mark.parametrize(
    "type_",
    [
        *("direct", "fanout", "topic", "headers"),
        *("x-consistent-hash", "x-modulus-hash", "x-random", "x-recent-history"),
    ],
)
def test_bindings_of_every_type_count_when_the_time_has_come(core: Core, type_: str) -> None:
    exchange = declared(core, type_)
    key = {"topic": "*", "x-consistent-hash": "1"}.get(type_, "k")
    arguments = {"x-match": "all", "colour": "red"} if type_ == "headers" else None
    core.bind(exchange, core.queue("before"), key, arguments)
    publish(core, exchange, b"1", 100, key="k", headers={"colour": "red"})
    core.unbind(exchange, core.queue_named("before"), key, arguments)
    core.bind(exchange, core.queue("after"), key, arguments)
    assert taken(core.queue_named("after")) == [], "a history begins later too"
    core.advance(100)
    assert (taken(core.queue_named("before")), taken(core.queue_named("after"))) == ([], [b"1"])


def test_the_limits_of_a_queue_count_when_the_delay_has_ended(core: Core, later: Exchange) -> None:
    """Room in it, and the time to live of a message."""
    core.bind(later, core.queue("full", max_length=1, overflow="reject-publish"))
    publish(core, later, b"1", 100, expiration="50")
    publish(core, later, b"2", 100)
    core.advance(100)
    assert taken(core.queue_named("full")) == [b"1"]
    core.advance(49)
    assert len(core.queue_named("q").ready_messages) == 2
    core.advance(1)
    assert taken(core.queue_named("q")) == [b"2"]


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


# Until when


@pytest.mark.parametrize("durable", [True, False])
def test_what_waits_goes_with_its_exchange(core: Core, *, durable: bool) -> None:
    """Deleted by itself, with its last binding or with its virtual host, which goes last."""
    for end in ("deleted", "unbound", "its virtual host"):
        exchange = declared(core, durable=durable, auto_delete=True)
        core.bind(exchange, core.queue("q"))
        assert publish(core, exchange, b"1", 100) is durable
        core.commit()
        if end == "deleted":
            core.vhost.delete_exchange(exchange).result()
        elif end == "unbound":
            core.unbind(exchange, core.queue_named("q"))
        else:
            core.broker.remove_vhost("/")
        core.commit()
        core.advance(100)
        assert waiting(exchange).messages == 0
        assert waiting(exchange).store.queue_id not in core.broker.queues_by_id
        while core.store.reclaim():
            pass
        assert not core.store.lanes().get(waiting(exchange).store.queue_id)
        if end != "its virtual host":
            core.vhost.delete_queue(core.queue_named("q"))


def test_times_are_read_back_in_pieces_and_nothing_leaves_before(
    core: Core, later: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_messages, "INDEX_MESSAGES", 2)
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


def test_much_that_is_due_at_once_leaves_in_turns(core: Core, later: Exchange) -> None:
    """Nothing is published while the disk is behind."""
    for number in range(600):
        publish(core, later, b"%d" % number, 100)
    for _ in range(6):
        core.broker.batches.seal()
    core.advance(100)
    assert waiting(later).messages == 600
    core.commit()
    core.advance(10)
    assert 0 < waiting(later).messages < 600
    while waiting(later).messages:
        core.advance(1)
    assert taken(core.queue_named("q")) == [b"%d" % number for number in range(600)]


def test_a_full_disk_is_looked_at_once_a_second_however_much_is_due(core: Core, later: Exchange) -> None:
    for delay in (50, 40, 30, 20, 10):
        publish(core, later, b"%d" % delay, delay)
    core.broker.batches.disk_full = True
    core.advance(100)
    for _ in range(4):
        due = core.broker.timers.next_due()
        assert due is not None
        core.advance(due - core.clock.now())
    assert core.clock.now() == START + 100 + 4 * FULL_MILLISECONDS
    assert waiting(later).messages == 5
    core.broker.batches.disk_full = False
    core.advance(1000)
    assert taken(core.queue_named("q")) == [b"10", b"20", b"30", b"40", b"50"]


# What goes wrong


@pytest.mark.pure_core("it has methods fail")
def test_what_could_not_be_published_or_read_back_is_tried_again(
    core: Core, later: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others go their way, and a queue that has it does not get it again."""
    also, failures = core.queue("also"), iter([RuntimeError("a mistake")] * 2)
    core.bind(later, also)

    def stumble(made: Message, publish: Callable[[Message], bool] = also.publish) -> bool:
        for failure in failures:
            raise failure
        return publish(made)

    with monkeypatch.context() as broken:
        broken.setattr(also, "publish", stumble)
        publish(core, later, b"first", 100)
        publish(core, later, b"second", 200)
        core.advance(250)
        assert list(failures) == []
        assert waiting(later).messages == 2
        core.advance(1100)
    assert taken(core.vhost.queues["q"]) == taken(also) == [b"first", b"second"]
    core.commit()
    assert waiting(later).messages == waiting(later).store.state.messages == 0
    publish(core, later, b"kept", 100)
    core.restart()
    with monkeypatch.context() as broken:
        broken.setattr(QueueStore, "load", lambda lane, entries: 1 // 0)
        core.advance(200)
        assert core.vhost.queues["q"].ready == 0
    core.advance(1100)
    assert taken(core.vhost.queues["q"]) == [b"kept"]


# Publishers


@pytest.fixture
def owner(sessions: SessionLayer) -> SessionClient:
    """Somebody with a durable delayed exchange that leads to the durable queue q, in confirm mode."""
    owner = sessions.connect()
    owner.ask(exchange_declare("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"}))
    owner.ask(queue_declare("q", durable=True))
    owner.ask(queue_bind("q", "later", "k"))
    owner.confirm()
    return owner


def delay(owner: SessionClient, *, delivery_mode: int = 2) -> None:
    owner.publish(b"x", exchange="later", key="k", headers={"x-delay": 1000}, delivery_mode=delivery_mode)


def test_permission_and_confirm_are_those_of_the_exchange(sessions: SessionLayer, owner: SessionClient) -> None:
    """The permission for the queue does not count, nor is any asked for again when the message is due.

    A confirm comes when the exchange has the message on disk. Then it goes out even under an alarm: as in RabbitMQ,
    that holds publishing clients and nobody else.
    """
    core, users = sessions.core, sessions.core.broker.users
    users.permissions["/", "guest"] = Permission("^$", "^later$", "^$")
    users.changed()
    delay(owner)
    assert owner.received() == []
    core.commit()
    assert owner.expect_one() == BasicAck(1, False)
    delay(owner, delivery_mode=1)
    assert owner.expect_one() == BasicAck(2, False)
    core.broker.alarms.set(DISK, short=True)
    users.permissions["/", "guest"] = Permission("^$", "^q$", "^$")
    users.changed()
    core.advance(1000)
    core.commit()
    assert owner.received() == []
    assert len(core.queue_named("q").ready_messages) == 2
    core.broker.alarms.set(DISK, short=False)
    delay(owner)
    refused = "ACCESS_REFUSED - access to exchange 'later' in vhost '/' refused for user 'guest'"
    assert owner.expect_one().reply_text == refused
