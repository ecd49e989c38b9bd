"""What a user may do: RabbitMQ's reading of patterns, its refusals, and answers that hold as long as they are true."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.entities.scheduling.cache_epoch import CacheEpoch
from broker.entities.vhosts.users import Permission, TopicPermission, User, Users
from broker.session.channel.permissions import REMEMBERED_MAX, Access
from broker.wire.amqp_errors import ChannelException
from broker.wire.method import Method
from broker.wire.methods import BasicAck, ChannelClose, QueuePurge
from harness.clients.session_client import Conversation, Party
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
    ("pattern", "name", "may"),
    [
        (".*", "anything", True),
        ("^own-", "own-queue", True),
        ("^own-", "not-own-queue", False),
        ("own", "somebody's own queue", True),  # searched for anywhere
        ("", "queue", False),
        ("^$", "queue", False),
        ("^(a|b)$", "b", True),
        ("^(a|b)$", "ab", False),
    ],
)
def test_patterns_are_searched_for(users: Users, pattern: str, name: str, may: bool) -> None:
    """RabbitMQ's access control guide; the empty pattern is a synonym of '^$' there."""
    allow(users, configure=pattern)
    access = Access(users, "u", "/")
    if may:
        access.configure_queue(name)
    else:
        with pytest.raises(ChannelException):
            access.configure_queue(name)


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (lambda access: access.configure_queue("q"), "access to queue 'q' in vhost '/' refused for user 'u'"),
        (lambda access: access.write_queue("q"), "access to queue 'q' in vhost '/' refused for user 'u'"),
        (lambda access: access.read_queue("q"), "access to queue 'q' in vhost '/' refused for user 'u'"),
        (lambda access: access.configure_exchange("x"), "access to exchange 'x' in vhost '/' refused for user 'u'"),
        (
            lambda access: access.write_exchange(""),
            "access to exchange 'amq.default' in vhost '/' refused for user 'u'",
        ),
        (lambda access: access.read_exchange("x"), "access to exchange 'x' in vhost '/' refused for user 'u'"),
    ],
)
def test_refusals(users: Users, check: Callable[[Access], None], text: str) -> None:
    """The words of 3.10.8 on the wire."""
    for described in ("nothing at all", "nothing that fits"):
        if described == "nothing that fits":
            allow(users, "^other$", "^other$", "^other$")
        with pytest.raises(ChannelException) as refusal:
            check(Access(users, "u", "/"))
        assert (refusal.value.code, refusal.value.text) == (403, text)


def test_one_answer_does_not_stand_for_another(users: Users) -> None:
    """What was allowed is remembered by action and name; by user and virtual host there are different memories."""
    allow(users, configure="^q$", read="^x$")
    access = Access(users, "u", "/")
    access.configure_queue("q")
    access.read_exchange("x")
    for check in (access.read_queue, access.write_queue, access.write_exchange):
        with pytest.raises(ChannelException):
            check("q")
    with pytest.raises(ChannelException):
        Access(users, "u", "elsewhere").configure_queue("q")


def test_what_was_allowed_is_asked_again_after_a_change(users: Users) -> None:
    allow(users, write=".*")
    access = Access(users, "u", "/")
    access.write_queue("q")
    allow(users, write="^other$")
    with pytest.raises(ChannelException):
        access.write_queue("q")
    allow(users, write="^q$")
    access.write_queue("q")
    users.forget_vhost("/")
    with pytest.raises(ChannelException):
        access.write_queue("q")


def test_the_memory_is_bounded(users: Users) -> None:
    allow(users, write=".*")
    access = Access(users, "u", "/")
    for number in range(2 * REMEMBERED_MAX):
        access.write_queue(str(number))
        assert len(access._allowed) <= REMEMBERED_MAX


# Topics


@pytest.mark.parametrize(
    ("pattern", "key", "may"),
    [
        ("^{username}\\.", "u.1.temperature", True),
        ("^{username}\\.", "other.1", False),
        ("^{vhost}", "/anything", True),
        ("", "k", False),
    ],
)
def test_topic_permissions(users: Users, pattern: str, key: str, may: bool) -> None:
    """RabbitMQ's topic authorisation, with its variables."""
    users.topic_permissions["/", "u", "x"] = TopicPermission(pattern, ".*")
    assert users.may_use_topic("u", "/", "x", "write", key) is may
    assert users.may_use_topic("u", "/", "other", "write", key), "exchanges without a topic permission are open"


def test_variables_in_a_pattern_are_names_and_no_patterns(users: Users) -> None:
    users.topic_permissions["/", "a.b", "x"] = TopicPermission("^{username}$", "")
    assert users.may_use_topic("a.b", "/", "x", "write", "a.b")
    assert not users.may_use_topic("a.b", "/", "x", "write", "aXb")


# Methods


@pytest.fixture
def owner(party: Party) -> Conversation:
    """Somebody who may do everything, with a queue `q` and an exchange `x`."""
    owner = party.join()
    owner.ask(queue_declare("q"))
    owner.ask(exchange_declare("x", "topic"))
    return owner


@pytest.mark.parametrize(
    ("configure", "write", "read", "method"),
    [
        (False, True, True, queue_declare("q")),
        (False, True, True, queue_delete("q")),
        (False, True, True, exchange_declare("x", "topic")),
        (False, True, True, exchange_delete("x")),
        (True, False, True, queue_bind("q", "x", "k")),
        (True, True, False, queue_bind("q", "x", "k")),
        (True, False, True, queue_unbind("q", "x", "k")),
        (True, True, False, queue_unbind("q", "x", "k")),
        (True, False, True, exchange_bind("x", "x", "k")),
        (True, True, False, exchange_bind("x", "x", "k")),
        (True, False, True, exchange_unbind("x", "x", "k")),
        (True, True, False, exchange_unbind("x", "x", "k")),
        (True, True, False, consume("q")),
        (True, True, False, get("q")),
        (True, True, False, QueuePurge("q", False)),
        (True, False, True, queue_declare("q2", arguments={"x-dead-letter-exchange": "x"})),
        (True, True, False, queue_declare("q2", arguments={"x-dead-letter-exchange": "x"})),
        (True, False, True, exchange_declare("x2", arguments={"alternate-exchange": "x"})),
        (True, True, False, exchange_declare("x2", arguments={"alternate-exchange": "x"})),
    ],
    ids=lambda value: str(value)[:70],
)
def test_each_method_asks_for_its_permission(
    party: Party, owner: Conversation, configure: bool, write: bool, read: bool, method: Method
) -> None:
    """RabbitMQ's table of operations and permissions, access control guide; without one of them: 403."""
    users = party.core.broker.users
    users.permissions["/", "guest"] = Permission(*(".*" if may else "^$" for may in (configure, write, read)))
    users.changed()
    close = owner.ask(method)
    assert isinstance(close, ChannelClose), close
    assert (close.reply_code, close.class_id, close.method_id) == (403, method.CLASS_ID, method.METHOD_ID)


def test_a_permission_that_is_given_counts_at_once(party: Party, owner: Conversation) -> None:
    users = party.core.broker.users
    users.permissions["/", "guest"] = Permission("^$", "^$", "^$")
    users.changed()
    assert isinstance(party.join().ask(get("q")), ChannelClose)
    users.permissions["/", "guest"] = Permission("^$", "^$", "^q$")
    users.changed()
    assert party.join().ask(get("q")).NAME == "basic.get-empty"


def test_a_remembered_publish_asks_again_after_a_change_of_topics(party: Party, owner: Conversation) -> None:
    owner.ask(queue_bind("q", "x", "#"))
    owner.confirm()
    owner.publish(b"before", exchange="x", key="secret")
    assert isinstance(owner.expect_one(), BasicAck)
    users = party.core.broker.users
    users.topic_permissions["/", "guest", "x"] = TopicPermission("^open$", ".*")
    users.changed()
    owner.publish(b"open", exchange="x", key="open")
    assert isinstance(owner.expect_one(), BasicAck)
    owner.publish(b"after", exchange="x", key="secret")
    close = owner.expect_one()
    assert (close.reply_code, close.reply_text) == (
        403,
        "ACCESS_REFUSED - access to topic 'secret' in exchange 'x' in vhost '/' refused for user 'guest'",
    )
    assert len(party.core.queue_named("q").ready_messages) == 2


def test_a_routing_key_to_bind_with_may_be_refused(party: Party, owner: Conversation) -> None:
    users = party.core.broker.users
    users.topic_permissions["/", "guest", "x"] = TopicPermission("", "^open$")
    users.changed()
    assert owner.ask(queue_bind("q", "x", "open")).NAME == "queue.bind-ok"
    assert owner.ask(queue_bind("q", "x", "secret")).reply_code == 403


def test_the_memory_is_shared_by_a_users_connections_and_goes_with_the_last(party: Party) -> None:
    one, two = party.join(), party.join()
    assert one.connection.routes is two.connection.routes
    assert party.registry.routes("guest", "elsewhere") is not one.connection.routes
