"""Delayed messages over a stop and over SIGKILL: what was confirmed waits on, and arrives once."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from broker.wire.field_tables import Field
from broker.wire.methods import QueueDeclareOk
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import with_headers
from harness.clients.queue_steps import deposit, drain, drain_messages
from harness.clients.shorthand import exchange_declare, exchange_delete, queue_bind, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually, pass_by
from tests.durability.restart.conftest import expect_sound_store

Dial = Callable[[], Client]

pytestmark = pytest.mark.slow


def declare(client: Client) -> None:
    """A durable delayed direct exchange, and the queue that its messages arrive in."""
    arguments = {"x-delayed-type": "direct"}
    client.ask(exchange_declare("later", "x-delayed-message", durable=True, arguments=arguments))
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_bind("q", "later", "k"))


def delay(client: Client, milliseconds: int, *bodies: bytes, persistent: bool = True, key: str = "k") -> None:
    """Publish, and wait for the confirms."""
    properties = with_headers({"x-delay": milliseconds}, delivery_mode=2 if persistent else 1)
    deposit(client, *bodies, key=key, exchange="later", properties=properties)


def arrived(client: Client, *expected: bytes) -> None:
    """Wait until exactly these messages have come, in this order."""
    found: list[bytes] = []
    eventually(lambda: found.extend(drain(client, "q")) or len(found) >= len(expected), "the messages to arrive")
    assert tuple(found) == expected


def test_messages_wait_on_and_come_in_order(dial: Dial, reborn: Dial) -> None:
    client = dial()
    declare(client)
    delay(client, 600_000, b"much later")
    delay(client, 3000, b"third")
    delay(client, 1500, b"second" * 1000)
    delay(client, 1000, b"first")
    delay(client, 1000, b"gone", persistent=False)
    client = reborn()
    delay(client, 3000, b"fourth")
    arrived(client, b"first", b"second" * 1000, b"third", b"fourth")
    delay(client, 600_000, b"whose confirm says that what was taken is settled on disk")
    client = reborn()
    assert drain(client, "q") == []


def test_what_fell_due_meanwhile_comes_after_the_start(fresh_broker: BrokerProcess, dial: Dial) -> None:
    """0.3 s are over before the broker is there again; the header says how long the message was to wait."""
    client = dial()
    declare(client)
    delay(client, 300, b"1", b"2")
    due = time.monotonic() + 0.3
    fresh_broker.kill()
    pass_by(due)
    fresh_broker.start()
    client = dial()
    found = eventually(lambda: drain_messages(client, "q"), "the messages to arrive")
    found += drain_messages(client, "q")
    assert [message.body for message in found] == [b"1", b"2"]
    assert {message.properties.headers["x-delay"] for message in found} == {Field("I", -300)}


def test_copies_keep_their_keys(dial: Dial, reborn: Dial) -> None:
    client = dial()
    declare(client)
    client.ask(queue_bind("q", "later", "blind"))
    headers = {"x-delay": 1000, "CC": ["open"], "BCC": ["blind"]}
    deposit(client, b"1", key="nowhere", exchange="later", properties=with_headers(headers))
    client = reborn()
    (message,) = eventually(lambda: drain_messages(client, "q"), "the copy")
    assert message.properties.headers.keys() == {"x-delay", "CC"}


def test_what_has_moved_into_its_queue_stays_there_alone(dial: Dial, reborn: Dial) -> None:
    client = dial()
    declare(client)
    client.ask(queue_declare("p", durable=True))
    client.ask(queue_bind("p", "later", "k"))
    delay(client, 50, b"moved" * 2000)
    eventually(lambda: client.ask(queue_declare("q", passive=True)).message_count, "the move")
    delay(client, 600_000, b"confirmed after the move")
    client = reborn()
    for queue in ("p", "q"):
        assert client.ask(queue_declare(queue, passive=True)) == QueueDeclareOk(queue, 1, 0)
        assert drain(client, queue) == [b"moved" * 2000]


def test_a_deleted_exchange_stays_deleted_with_its_messages(dial: Dial, reborn: Dial) -> None:
    client = dial()
    declare(client)
    delay(client, 600_000, *[b"waits"] * 100)
    client.ask(exchange_delete("later"))
    declare(client)
    client.ask(queue_declare("new", durable=True))
    client = reborn()
    declare(client)
    client.ask(queue_declare("newer", durable=True))
    delay(client, 10, b"1")
    arrived(client, b"1")
    for queue in ("new", "newer"):
        assert client.ask(queue_declare(queue, passive=True)) == QueueDeclareOk(queue, 0, 0)


def test_ids_of_exchanges_are_not_given_to_queues(dial: Dial, reborn: Dial) -> None:
    """The exchange has the highest id, and has left nothing in the message store before the restart."""
    client = dial()
    declare(client)
    arguments = {"x-delayed-type": "fanout"}
    client.ask(exchange_declare("last", "x-delayed-message", durable=True, arguments=arguments))
    client = reborn()
    client.ask(queue_declare("next", durable=True))
    client.ask(queue_bind("next", "last"))
    properties = with_headers({"x-delay": 600_000})
    deposit(client, b"1", key="", exchange="last", properties=properties)
    client = reborn()
    assert client.ask(queue_declare("next", passive=True)) == QueueDeclareOk("next", 0, 0)


def test_killed_again_and_again_while_messages_move(fresh_broker: BrokerProcess, dial: Dial) -> None:
    """Each message is in the exchange or in the queue after each crash: in the end all have come, each once."""
    client = dial()
    declare(client)
    bodies = [b"%05d" % number for number in range(3000)]
    for start in range(0, len(bodies), 500):
        delay(client, 600, *bodies[start : start + 500])
    for _ in range(4):
        client = dial()
        eventually(lambda client=client: client.ask(queue_declare("q", passive=True)).message_count, "some to move")
        fresh_broker.kill()
        fresh_broker.start()
    client = dial()
    eventually(lambda: client.ask(queue_declare("q", passive=True)).message_count >= len(bodies), "all to move")
    assert drain(client, "q") == bodies
    client.close()
    fresh_broker.stop()
    expect_sound_store(fresh_broker)
