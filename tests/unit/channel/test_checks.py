"""The checks beside ledgers and cached routes find what is broken in them, and say what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.clients.session_client import SessionClient, SessionLayer, publish_frames
from harness.clients.shorthand import consume, queue_bind, queue_declare
from tests.unit.queues.test_invariants import miscounted


@pytest.fixture
def client(sessions: SessionLayer) -> SessionClient:
    """A publisher that waits for three confirms of five publishes, and a consumer that holds all five."""
    client = sessions.connect(channels=2)
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_bind("q", "amq.direct", "k"))
    client.confirm()
    client.send(consume("q", "c"), channel=2)
    for persistent in (True, False, True, False, True):
        client.say(publish_frames(b"x", exchange="amq.direct", key="k", persistent=persistent))
    return client


def the_route(channel: Any) -> Any:
    """The only one that is remembered."""
    (route,) = channel.connection.routes.by_arguments.values()
    return route


def wait_for_a_later_batch_first(channel: Any) -> None:
    channel.confirms._waiting[0][0] += 1


def swap_tags(channel: Any) -> None:
    channel.deliveries.unacked[1] = channel.deliveries.unacked.pop(1)


def reuse_a_delivery(channel: Any) -> None:
    channel.deliveries.unacked[2] = channel.deliveries.unacked[1]


def lead_nowhere(channel: Any) -> None:
    the_route(channel).queues = ()


def miss_an_exchange(channel: Any) -> None:
    the_route(channel).name = "amq.gone"


@pytest.mark.parametrize(
    ("number", "break_it", "found"),
    [
        (1, lambda channel: channel.confirms._waiting.append([9, 5, 5]), "is in two of the ranges"),
        (1, lambda channel: channel.confirms._waiting.popleft(), "5 publishes, 2 answers and 2 to come"),
        (1, wait_for_a_later_batch_first, "batches out of order"),
        (1, lambda channel: channel.connection.hold(1), "1 held bytes are counted, there are 0"),
        (1, lambda channel: channel.connection.count_incomplete(1), "1 bytes of incomplete messages are counted, "),
        (1, lead_nowhere, r"leads to \(\), not to"),
        (1, miss_an_exchange, "has an exchange that is gone"),
        (2, swap_tags, "delivery tags out of order"),
        (2, reuse_a_delivery, "one delivery has two tags"),
        (2, miscounted("deliveries.last", -1), "tags 1 to 5, the last is 4"),
        (2, miscounted("deliveries.consumed", -1), "4 deliveries to consumers are counted, 5 are out"),
        (
            2,
            lambda channel: miscounted("unacked")(channel.consumers["c"]),
            "consumer 'c' counts 6 deliveries, 5 are out",
        ),
        (2, lambda channel: channel.prefixes.clear(), "prefixes differ"),
    ],
)
def test_what_is_broken_is_found(
    sessions: SessionLayer, client: SessionClient, number: int, break_it: Callable[[Any], object], found: str
) -> None:
    """In the publishing channel 1, its remembered route, and the consuming channel 2."""
    sessions.registry.check()
    break_it(client.connection.channels[number])
    with pytest.raises(AssertionError, match=found):
        sessions.registry.check()
    sessions.registry.connections.clear()


def test_a_stale_route_may_be_wrong(sessions: SessionLayer, client: SessionClient) -> None:
    lead_nowhere(client.connection.channels[1])
    sessions.core.broker.cache_epoch.advance()
    sessions.registry.check()
