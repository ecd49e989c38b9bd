"""Routes of a publish's arguments are cached as long as they exist, and the cache keeps nothing alive that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.session.channel.route_cache import ROUTES_BYTES_MAX, ROUTES_KEPT, ROUTES_MAX, ROUTES_MIN, CachedRoute
from broker.session.session_settings import SessionSettings
from broker.wire.methods import TxCommit, TxCommitOk, TxSelect
from harness.brokers.broker_core import Core
from harness.clients.amqp_peer import publish_frames
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import queue_bind, queue_declare, queue_delete


@pytest.fixture
def client(sessions: SessionLayer) -> SessionClient:
    return sessions.connect()


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_transaction_publishes_to_the_queue_of_that_name_at_the_commit(
    sessions: SessionLayer, client: SessionClient, made_anew: bool
) -> None:
    """RabbitMQ looks the queues up by name at the commit: gone means unroutable (3.10.8 on the wire)."""
    sessions.core.queue("q")
    client.ask(TxSelect())
    client.publish(b"x" * 10, key="q", mandatory=True, persistent=True)
    sessions.core.vhost.delete_queue(sessions.core.queue_named("q"))
    sessions.core.commit()
    if made_anew:
        sessions.core.queue("q")
    client.send(TxCommit())
    sessions.core.commit()
    *returned, done = client.received()
    assert isinstance(done, TxCommitOk)
    assert [item.method.reply_code for item in returned] == ([] if made_anew else [312])
    while sessions.core.store.reclaim():
        pass
    counts = [lane.messages for lanes in sessions.core.store.lanes().values() for lane in lanes.values()]
    assert counts == ([1] if made_anew else []), "nothing is written for a queue that does not exist"


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


# How much is remembered


NAMES = 8 * ROUTES_MIN


def routes(client: SessionClient) -> list[CachedRoute]:
    return list(client.connection.routes.by_arguments.values())


def test_deleted_queues_are_let_go_and_what_is_there_stays(client: SessionClient) -> None:
    """A queue of its own for every conversation, bound by a key of its own: few of those that are gone are held."""
    for number in range(NAMES):
        name = f"q{number}"
        client.send(queue_declare(name), queue_bind(name, "amq.direct", name))
        client.publish(b"x", exchange="amq.direct", key=name)
        client.send(queue_delete(name))
        assert len(client.received()) == 3
    held = len(routes(client))
    assert held <= ROUTES_MIN
    client.ask(queue_declare("q"))
    client.ask(queue_bind("q", "amq.topic", "#"))
    client.say(b"".join(publish_frames(b"x", exchange="amq.topic", key=str(number)) for number in range(NAMES)))
    now = client.connection.routes.access.cache_epoch.number
    assert len([route for route in routes(client) if not route.is_stale(now)]) == NAMES
    assert len(routes(client)) <= NAMES + held


@pytest.mark.parametrize(("keys", "length"), [(ROUTES_MAX + 2000, 1), (ROUTES_BYTES_MAX // 1000, 240)])
def test_what_is_remembered_has_a_bound_and_goes_with_a_client(sessions: SessionLayer, keys: int, length: int) -> None:
    """Keys of the default exchange, of a client beside which another one of the same user stays."""
    client, other = sessions.connect(), sessions.connect()
    other.publish(b"x", key="other")
    for start in range(0, keys, 1000):
        client.say(b"".join(publish_frames(b"x", key=f"{key:0{length}}") for key in range(start, start + 1000)))
        assert len(routes(other)) <= ROUTES_MAX
        assert sum(route.size for route in routes(other)) <= ROUTES_BYTES_MAX
    client.drop()
    assert len(routes(other)) <= ROUTES_KEPT
