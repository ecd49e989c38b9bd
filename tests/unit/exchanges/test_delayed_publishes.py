"""Who may have messages delayed, when they are confirmed, and what an alarm does with them."""

from __future__ import annotations

import pytest

from broker.entities.scheduling.alarms import DISK
from broker.entities.vhosts.users import Permission
from broker.wire.methods import BasicAck
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import exchange_declare, queue_bind, queue_declare


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


def allow(sessions: SessionLayer, configure: str, write: str, read: str) -> None:
    sessions.core.broker.users.permissions["/", "guest"] = Permission(configure, write, read)
    sessions.core.broker.users.changed()


def test_the_exchange_is_what_one_needs_the_permission_for(sessions: SessionLayer, owner: SessionClient) -> None:
    allow(sessions, "^$", "^q$", "^$")
    delay(owner)
    close = owner.expect_one()
    assert (close.reply_code, close.reply_text) == (
        403,
        "ACCESS_REFUSED - access to exchange 'later' in vhost '/' refused for user 'guest'",
    )


def test_a_permission_counts_when_the_message_comes_not_when_it_is_due(
    sessions: SessionLayer, owner: SessionClient
) -> None:
    delay(owner)
    allow(sessions, "^$", "^$", "^$")
    sessions.core.commit()
    sessions.core.advance(1000)
    assert len(sessions.core.queue_named("q").ready_messages) == 1


def test_a_confirm_comes_when_the_exchange_has_the_message_on_disk(
    sessions: SessionLayer, owner: SessionClient
) -> None:
    delay(owner)
    assert owner.received() == []
    sessions.core.commit()
    assert owner.expect_one() == BasicAck(1, False)
    delay(owner, delivery_mode=1)
    assert owner.expect_one() == BasicAck(2, False)
    sessions.core.advance(1000)
    sessions.core.commit()
    assert owner.received() == []


def test_under_an_alarm_what_is_due_goes_out_all_the_same(sessions: SessionLayer, owner: SessionClient) -> None:
    """As in RabbitMQ, where an alarm holds publishing clients and nobody else."""
    delay(owner)
    sessions.core.commit()
    sessions.core.broker.alarms.set(DISK, short=True)
    sessions.core.advance(1000)
    assert len(sessions.core.queue_named("q").ready_messages) == 1
