"""Permissions of a user: RabbitMQ's reading of patterns, its refusals, and answers that hold as long as they are
true."""

from __future__ import annotations

import pytest

from broker.entities.node.users import Permission, TopicPermission, User, Users
from broker.entities.scheduling.cache_epoch import CacheEpoch
from broker.session.channel.permissions import REMEMBERED_MAX, Access
from broker.wire.amqp_errors import ChannelException
from broker.wire.method import Method
from broker.wire.methods import QueuePurge
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import (
    consume,
    exchange_bind,
    exchange_declare,
    exchange_delete,
    exchange_unbind,
    get,
    queue_bind,
    queue_declare,
    queue_delete,
    queue_unbind,
)


@pytest.fixture
def users() -> Users:
    users = Users(CacheEpoch())
    users.by_name["u"] = User("u", "", "", ())
    return users


def allow(users: Users, configure: str = "", write: str = "", read: str = "") -> None:
    users.permissions["/", "u"] = Permission(configure, write, read)
    users.changed()


# Patterns


@pytest.mark.parametrize(
    ("pattern", "may", "may_not"),
    [
        (".*", "anything", None),
        ("^own-", "own-queue", "not-own-queue"),
        ("own", "somebody's own queue", "queue"),  # searched for anywhere
        ("^$", "", "queue"),
        ("", "", "queue"),
        ("^(a|b)$", "b", "ab"),
    ],
)
def test_patterns_are_searched_for(users: Users, pattern: str, may: str, may_not: str | None) -> None:
    """RabbitMQ's access control guide; the empty pattern is a synonym of '^$' there."""
    allow(users, configure=pattern)
    access = Access(users, "u", "/")
    access.configure_queue(may)
    if may_not is not None:
        with pytest.raises(ChannelException):
            access.configure_queue(may_not)


def test_what_is_remembered(users: Users, sessions: SessionLayer) -> None:
    """Permissions found are kept by action and name, within bounds; each user has a memory for each virtual host."""
    allow(users, configure="^q$", read="^x$")
    access = Access(users, "u", "/")
    access.configure_queue("q")
    access.read_exchange("x")
    for check in (access.read_queue, access.write_queue, access.write_exchange):
        with pytest.raises(ChannelException):
            check("q")
    with pytest.raises(ChannelException):
        Access(users, "u", "elsewhere").configure_queue("q")
    allow(users, write=".*")
    for number in range(REMEMBERED_MAX + 100):
        access.write_queue(str(number))
        assert len(access._allowed) <= REMEMBERED_MAX
    one, two = sessions.connect(), sessions.connect()
    assert one.connection.routes is two.connection.routes
    assert sessions.registry.routes("guest", "elsewhere") is not one.connection.routes


# Topics


@pytest.mark.parametrize(
    ("user", "pattern", "key", "may"),
    [
        ("u", "^{username}\\.", "u.1.temperature", True),
        ("u", "^{username}\\.", "other.1", False),
        ("u", "^{vhost}", "/anything", True),
        ("u", "", "k", False),
        ("a.b", "^{username}$", "a.b", True),
        ("a.b", "^{username}$", "aXb", False),
    ],
)
def test_topic_permissions(users: Users, user: str, pattern: str, key: str, may: bool) -> None:
    """RabbitMQ's topic authorisation; what its variables stand for is a name and no pattern."""
    users.topic_permissions["/", user, "x"] = TopicPermission(pattern, ".*")
    assert users.may_use_topic(user, "/", "x", "write", key) is may
    assert users.may_use_topic(user, "/", "other", "write", key), "exchanges without a topic permission are open"


# Methods


@pytest.fixture
def owner(sessions: SessionLayer) -> SessionClient:
    """Somebody who may do everything, with a queue `q` and an exchange `x`."""
    owner = sessions.connect()
    owner.ask(queue_declare("q"))
    owner.ask(exchange_declare("x", "topic"))
    return owner


DEAD_LETTERS, ALTERNATE = {"x-dead-letter-exchange": "x"}, {"alternate-exchange": "x"}


@pytest.mark.parametrize(
    ("without", "method", "denied"),
    [
        ("configure", queue_declare("q"), "queue 'q'"),
        ("configure", queue_delete("q"), "queue 'q'"),
        ("configure", exchange_declare("x", "topic"), "exchange 'x'"),
        ("configure", exchange_delete("x"), "exchange 'x'"),
        ("write", queue_bind("q", "x", "k"), "queue 'q'"),
        ("read", queue_bind("q", "x", "k"), "exchange 'x'"),
        ("write", queue_unbind("q", "x", "k"), "queue 'q'"),
        ("read", queue_unbind("q", "x", "k"), "exchange 'x'"),
        ("write", exchange_bind("x", "x", "k"), "exchange 'x'"),
        ("read", exchange_bind("x", "x", "k"), "exchange 'x'"),
        ("write", exchange_unbind("x", "x", "k"), "exchange 'x'"),
        ("read", exchange_unbind("x", "x", "k"), "exchange 'x'"),
        ("read", consume("q"), "queue 'q'"),
        ("read", get("q"), "queue 'q'"),
        ("read", QueuePurge("q", False), "queue 'q'"),
        ("write", queue_declare("q2", arguments=DEAD_LETTERS), "exchange 'x'"),
        ("read", queue_declare("q2", arguments=DEAD_LETTERS), "queue 'q2'"),
        ("write", exchange_declare("x2", arguments=ALTERNATE), "exchange 'x'"),
        ("read", exchange_declare("x2", arguments=ALTERNATE), "exchange 'x2'"),
    ],
    ids=lambda value: str(value)[:70],
)
def test_each_method_asks_for_its_permission(
    sessions: SessionLayer, owner: SessionClient, without: str, method: Method, denied: str
) -> None:
    """RabbitMQ's table of operations and permissions, access control guide; without one of them: 403.

    The words are those of 3.10.8 on the wire.
    """
    users = sessions.core.broker.users
    users.permissions["/", "guest"] = Permission(".*", ".*", ".*")._replace(**{without: "^$"})
    users.changed()
    close = owner.ask(method)
    assert (close.reply_code, close.class_id, close.method_id) == (403, method.CLASS_ID, method.METHOD_ID)
    assert close.reply_text == f"ACCESS_REFUSED - access to {denied} in vhost '/' refused for user 'guest'"
