"""What a publish's arguments lead to is remembered as long as it is there, and keeps nothing alive that is gone."""

from __future__ import annotations

import pytest

from broker.session.channel.route_cache import ROUTES_MIN, CachedRoute
from harness.clients.session_client import Conversation, Party
from harness.clients.shorthand import queue_bind, queue_declare, queue_delete

NAMES = 8 * ROUTES_MIN


@pytest.fixture
def client(party: Party) -> Conversation:
    return party.join()


def routes(client: Conversation) -> list[CachedRoute]:
    return list(client.connection.routes.by_arguments.values())


def test_deleted_queues_are_let_go(client: Conversation) -> None:
    """A queue of its own for every conversation, bound by a key of its own: few of those that are gone are held."""
    for number in range(NAMES):
        name = f"q{number}"
        client.ask(queue_declare(name))
        client.ask(queue_bind(name, "amq.direct", name))
        client.publish(b"x", exchange="amq.direct", key=name)
        client.ask(queue_delete(name))
    assert len(routes(client)) <= ROUTES_MIN


def test_what_is_there_stays_remembered(client: Conversation) -> None:
    client.ask(queue_declare("q"))
    client.ask(queue_bind("q", "amq.topic", "#"))
    for number in range(NAMES):
        client.publish(b"x", exchange="amq.topic", key=str(number))
    assert len(routes(client)) == NAMES
    now = client.connection.routes.access.cache_epoch.number
    assert not any(route.is_stale(now) for route in routes(client))
