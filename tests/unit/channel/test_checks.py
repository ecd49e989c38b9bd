"""The checks beside ledgers and cached routes find what is broken in them, and say what it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.session.channel.channel import Channel
from broker.session.channel.route_cache import CachedRoute
from harness.clients.session_client import Conversation, Party, publish_frames
from harness.clients.shorthand import consume, queue_bind, queue_declare


@pytest.fixture
def client(party: Party) -> Conversation:
    """A publisher that waits for three confirms of five publishes, and a consumer that holds all five."""
    client = party.join(channels=2)
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_bind("q", "amq.direct", "k"))
    client.confirm()
    client.send(consume("q", "c"), channel=2)
    for persistent in (True, False, True, False, True):
        client.say(publish_frames(b"x", exchange="amq.direct", key="k", persistent=persistent))
    return client


def confirm_twice(channel: Channel) -> None:
    assert channel.confirms is not None
    channel.confirms._waiting.append([9, 5, 5])


def lose_a_confirm(channel: Channel) -> None:
    assert channel.confirms is not None
    channel.confirms._waiting.popleft()


def wait_for_a_later_batch_first(channel: Channel) -> None:
    assert channel.confirms is not None
    channel.confirms._waiting[0][0] += 1


def miscount_held_bytes(channel: Channel) -> None:
    channel.connection.hold(1)


def miscount_incomplete_bytes(channel: Channel) -> None:
    channel.connection.count_incomplete(1)


@pytest.mark.parametrize(
    ("break_it", "found"),
    [
        (confirm_twice, "is in two of the ranges"),
        (lose_a_confirm, "5 publishes, 2 answers and 2 to come"),
        (wait_for_a_later_batch_first, "batches out of order"),
        (miscount_held_bytes, "1 held bytes are counted, there are 0"),
        (miscount_incomplete_bytes, "1 bytes of incomplete messages are counted, there are 0"),
    ],
)
def test_a_publishing_channel(
    party: Party, client: Conversation, break_it: Callable[[Channel], None], found: str
) -> None:
    party.registry.check()
    break_it(client.connection.channels[1])
    with pytest.raises(AssertionError, match=found):
        party.registry.check()
    party.registry.connections.clear()


def swap_tags(channel: Channel) -> None:
    entries = channel.deliveries.unacked
    entries[1] = entries.pop(1)


def reuse_a_delivery(channel: Channel) -> None:
    channel.deliveries.unacked[2] = channel.deliveries.unacked[1]


def go_beyond_the_last_tag(channel: Channel) -> None:
    channel.deliveries.last = 4


def count_a_delivery_less(channel: Channel) -> None:
    channel.deliveries.consumed -= 1


def let_a_consumer_count_more(channel: Channel) -> None:
    channel.consumers["c"].unacked += 1


def forget_a_prefix(channel: Channel) -> None:
    channel.prefixes.clear()


@pytest.mark.parametrize(
    ("break_it", "found"),
    [
        (swap_tags, "delivery tags out of order"),
        (reuse_a_delivery, "one delivery has two tags"),
        (go_beyond_the_last_tag, "tags 1 to 5, the last is 4"),
        (count_a_delivery_less, "4 deliveries to consumers are counted, 5 are out"),
        (let_a_consumer_count_more, "consumer 'c' counts 6 deliveries, 5 are out"),
        (forget_a_prefix, "prefixes differ"),
    ],
)
def test_a_consuming_channel(
    party: Party, client: Conversation, break_it: Callable[[Channel], None], found: str
) -> None:
    party.registry.check()
    break_it(client.connection.channels[2])
    with pytest.raises(AssertionError, match=found):
        party.registry.check()
    party.registry.connections.clear()


def lead_nowhere(route: CachedRoute) -> None:
    route.queues = ()


def miss_an_exchange(route: CachedRoute) -> None:
    route.name = "amq.gone"


@pytest.mark.parametrize(
    ("break_it", "found"),
    [(lead_nowhere, r"leads to \(\), not to"), (miss_an_exchange, "has an exchange that is gone")],
)
def test_a_cached_route(
    party: Party, client: Conversation, break_it: Callable[[CachedRoute], None], found: str
) -> None:
    (route,) = client.connection.routes.by_arguments.values()
    party.registry.check()
    break_it(route)
    with pytest.raises(AssertionError, match=found):
        party.registry.check()
    party.registry.connections.clear()


def test_a_stale_route_may_be_wrong(party: Party, client: Conversation) -> None:
    (route,) = client.connection.routes.by_arguments.values()
    lead_nowhere(route)
    party.core.broker.cache_epoch.advance()
    party.registry.check()
