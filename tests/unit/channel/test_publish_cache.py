"""basic.publish inside the session: remembered routes, queues that refuse, transactions, broken arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.entities.vhosts.users import Permission
from broker.session.session_settings import SessionSettings
from broker.wire.methods import BasicAck, BasicNack, ChannelClose, TxCommit, TxCommitOk, TxSelect
from harness.brokers.broker_core import Core
from harness.clients.amqp_peer import Message, publish_frames
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import (
    consume,
    exchange_bind,
    exchange_declare,
    exchange_delete,
    get,
    queue_bind,
    queue_declare,
    queue_delete,
    queue_unbind,
)


@pytest.fixture
def client(sessions: SessionLayer) -> SessionClient:
    return sessions.connect()


def drained(client: SessionClient, queue: str) -> list[bytes]:
    """Take everything out of a queue."""
    taken = []
    while isinstance(item := client.ask(get(queue, no_ack=True)), Message):
        taken.append(item.body)
    return taken


# Remembered routes


def test_a_binding_made_later_counts(client: SessionClient) -> None:
    client.ask(queue_declare("q"))
    client.publish(b"before", exchange="amq.direct", key="k")
    client.ask(queue_bind("q", "amq.direct", "k"))
    client.publish(b"after", exchange="amq.direct", key="k")
    client.ask(queue_unbind("q", "amq.direct", "k"))
    client.publish(b"too late", exchange="amq.direct", key="k")
    assert drained(client, "q") == [b"after"]


def test_a_binding_two_exchanges_away_counts(client: SessionClient) -> None:
    client.ask(queue_declare("q"))
    for name in ("one", "two", "three"):
        client.ask(exchange_declare(name, "fanout"))
    client.ask(exchange_bind("two", "one"))
    client.ask(exchange_bind("three", "two"))
    client.publish(b"before", exchange="one")
    client.ask(queue_bind("q", "three"))
    client.publish(b"after", exchange="one")
    client.ask(exchange_delete("two"))
    client.publish(b"too late", exchange="one")
    assert drained(client, "q") == [b"after"]


def test_an_alternate_exchange_that_comes_and_goes_counts(client: SessionClient) -> None:
    client.ask(queue_declare("q"))
    client.ask(exchange_declare("x", arguments={"alternate-exchange": "spare"}))
    client.publish(b"before", exchange="x")
    client.ask(exchange_declare("spare", "fanout"))
    client.ask(queue_bind("q", "spare"))
    client.publish(b"after", exchange="x")
    client.ask(exchange_delete("spare"))
    client.publish(b"too late", exchange="x")
    assert drained(client, "q") == [b"after"]


def test_the_default_exchange_is_nobodys_alternate(client: SessionClient) -> None:
    """An empty alternate-exchange is accepted and leads nowhere (3.10.8 on the wire)."""
    client.ask(exchange_declare("x", "fanout", arguments={"alternate-exchange": ""}))
    client.ask(queue_declare("q"))
    client.publish(b"x", exchange="x", key="q")
    assert drained(client, "q") == []


def test_a_queue_made_anew_gets_what_is_published_then(client: SessionClient) -> None:
    client.ask(exchange_declare("x", "fanout"))
    for body in (b"old", b"new"):
        client.ask(queue_declare("q"))
        client.ask(queue_bind("q", "x"))
        client.publish(body, exchange="x")
        client.publish(body, key="q")
        assert drained(client, "q") == [body, body]
        client.ask(queue_delete("q"))


def test_an_exchange_made_anew_is_not_taken_for_the_old_one(client: SessionClient) -> None:
    client.ask(queue_declare("q"))
    client.ask(exchange_declare("x", "fanout"))
    client.ask(queue_bind("q", "x"))
    client.publish(b"old", exchange="x")
    client.ask(exchange_delete("x"))
    client.ask(exchange_declare("x", "fanout"))
    client.publish(b"new", exchange="x")
    assert drained(client, "q") == [b"old"]


def test_a_permission_that_is_taken_away_counts_at_once(sessions: SessionLayer, client: SessionClient) -> None:
    client.ask(queue_declare("q"))
    client.publish(b"before", key="q")
    users = sessions.core.broker.users
    users.permissions["/", "guest"] = Permission(".*", "^nothing$", ".*")
    users.changed()
    client.publish(b"after", key="q")
    close = client.expect_one()
    assert isinstance(close, ChannelClose)
    assert (close.reply_code, close.class_id, close.method_id) == (403, 60, 40)


def test_headers_decide_each_time(client: SessionClient) -> None:
    client.ask(queue_declare("q"))
    client.ask(queue_bind("q", "amq.headers", arguments={"kind": "good"}))
    client.publish(b"1", exchange="amq.headers", headers={"kind": "bad"})
    client.publish(b"2", exchange="amq.headers", headers={"kind": "good"})
    client.publish(b"3", exchange="amq.headers")
    client.publish(b"4", exchange="amq.headers", headers={"kind": "good"})
    assert drained(client, "q") == [b"2", b"4"]


def test_copies_are_asked_for_by_message(client: SessionClient) -> None:
    for name in ("q", "open", "blind"):
        client.ask(queue_declare(name))
    client.publish(b"1", key="q")
    client.publish(b"2", key="q", headers={"CC": ["open"], "BCC": ["blind"]})
    client.publish(b"3", key="q")
    assert [drained(client, name) for name in ("q", "open", "blind")] == [[b"1", b"2", b"3"], [b"2"], [b"2"]]


# Queues that refuse


def test_a_queue_refuses_what_would_be_too_much(client: SessionClient) -> None:
    """Limit 10: 5 bytes fit, 8 more do not, 5 more do, 1 more does not, and an empty body does (3.10.8 on the wire)."""
    client.ask(queue_declare("q", arguments={"x-max-length-bytes": 10, "x-overflow": "reject-publish"}))
    client.confirm()
    answers = []
    for size in (5, 8, 5, 1, 0):
        client.publish(b"x" * size, key="q")
        answers.append(type(client.expect_one()))
    assert answers == [BasicAck, BasicNack, BasicAck, BasicNack, BasicAck]


def test_a_full_queue_refuses_in_spite_of_a_waiting_consumer(client: SessionClient) -> None:
    """With overflow reject-publish RabbitMQ asks for room before it looks for consumers (3.10.8 on the wire)."""
    client.ask(queue_declare("q", arguments={"x-max-length": 0, "x-overflow": "reject-publish"}))
    client.ask(consume("q", "t", no_ack=True))
    client.confirm()
    client.publish(b"x", key="q")
    assert isinstance(client.expect_one(), BasicNack)


def test_one_refusal_refuses_the_publish(client: SessionClient) -> None:
    client.ask(queue_declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"}))
    client.ask(queue_declare("empty"))
    for name in ("full", "empty"):
        client.ask(queue_bind(name, "amq.fanout"))
    client.confirm()
    client.publish(b"x", exchange="amq.fanout")
    assert isinstance(client.expect_one(), BasicNack)
    assert drained(client, "empty") == [b"x"]


# Transactions


def test_a_transaction_publishes_nothing_to_a_queue_that_is_gone(sessions: SessionLayer, client: SessionClient) -> None:
    """RabbitMQ looks the queues up by name at the commit: gone means unroutable (3.10.8 on the wire)."""
    sessions.core.queue("q")
    client.ask(TxSelect())
    client.publish(b"x" * 10, key="q", mandatory=True, persistent=True)
    sessions.core.vhost.delete_queue(sessions.core.queue_named("q"))
    sessions.core.commit()
    client.send(TxCommit())
    sessions.core.commit()
    returned, done = client.received()
    assert isinstance(returned, Message)
    assert returned.method.reply_code == 312
    assert isinstance(done, TxCommitOk)
    while sessions.core.store.reclaim():
        pass
    assert sessions.core.store.lanes() == {}, "nothing is written for a queue that does not exist"


def test_a_transaction_publishes_to_the_queue_of_that_name_at_the_commit(
    client: SessionClient, sessions: SessionLayer
) -> None:
    other = sessions.connect()
    other.ask(queue_declare("q"))
    client.ask(TxSelect())
    client.publish(b"x", key="q")
    other.ask(queue_delete("q"))
    other.ask(queue_declare("q"))
    client.send(TxCommit())
    sessions.core.commit()
    assert isinstance(client.expect_one(), TxCommitOk)
    assert drained(other, "q") == [b"x"]


# Broken arguments


@pytest.mark.parametrize("whole", [True, False])
def test_arguments_that_cannot_be_read(client: SessionClient, whole: bool) -> None:
    """501 whether the content is there already or not; the lengths in it lie."""
    frames = bytearray(publish_frames(b"x", key="q"))
    frames[13] = 200  # the length of the exchange's name
    client.say(bytes(frames) if whole else bytes(frames[: frames.index(0xCE) + 1]))
    close = client.expect_one(channel=0)
    assert close.reply_code == 501
    assert close.reply_text.startswith("FRAME_ERROR - cannot decode <<")


def test_a_message_may_be_too_large(tmp_path: Path) -> None:
    """RabbitMQ 3.10.8 on the wire, with 128 MiB and a byte; the queue keeps nothing of it."""
    core = Core(tmp_path / "messages")
    client = SessionLayer(core, SessionSettings(message_bytes_max=1000)).connect()
    client.ask(queue_declare("q"))
    client.publish(b"x" * 1000, key="q")
    client.publish(b"x" * 1001, key="q")
    close = client.expect_one()
    text = "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000"
    assert (close.reply_code, close.reply_text, close.class_id, close.method_id) == (406, text, 60, 40)
    assert len(core.queue_named("q").ready_messages) == 1
    core.close()
