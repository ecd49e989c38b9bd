"""Exchanges that choose at random or remember what has passed: what the entities promise beyond the wire."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from broker.entities.queues.queue import Queue
from broker.wire.amqp_errors import ChannelException
from harness.brokers.broker_core import Core, Reader, message


def bodies(queue: Queue) -> list[bytes]:
    """Take everything out of a queue."""
    reader, found = Reader(), []
    while (body := reader.get(queue, no_ack=True)) is not None:
        found.append(body)
    return found


def pass_through(core: Core, exchange: str, *sent: bytes, **properties: object) -> None:
    """Have messages routed from an exchange, as a publish does, and put into their queues."""
    for body in sent:
        made = message(body, exchange=exchange, key="k", **properties)  # type: ignore[arg-type]
        for queue in core.vhost.route(core.vhost.exchange(exchange), ("k",), {}, made).queues:
            queue.publish(made)
    core.end_turn()


# Chance


def test_chance_comes_from_outside(tmp_path: Path) -> None:
    def chosen(directory: Path) -> list[str]:
        core = Core(directory, chance=Random(7))
        exchange = core.exchange("x", "x-random")
        for name in "abc":
            core.bind(exchange, core.queue(name))
        found = [name for _ in range(600) for name in core.routed("x", "")]
        core.close()
        return found

    first = chosen(tmp_path / "one")
    assert first == chosen(tmp_path / "two")
    counts = Counter(first)
    assert counts.keys() == set("abc")
    assert max(counts.values()) - min(counts.values()) < 100, counts


def test_who_is_no_longer_bound_is_not_chosen(core: Core) -> None:
    exchange, one, two = core.exchange("x", "x-random"), core.queue("one"), core.queue("two")
    core.bind(exchange, one, "a")
    core.bind(exchange, one, "b")
    core.bind(exchange, two)
    core.unbind(exchange, one, "a")
    assert {name for _ in range(100) for name in core.routed("x", "")} == {"one", "two"}
    core.unbind(exchange, one, "b")
    assert {name for _ in range(100) for name in core.routed("x", "")} == {"two"}
    core.vhost.delete_queue(two)
    assert core.routed("x", "") == []


def test_a_local_random_exchange_is_for_classic_queues(core: Core) -> None:
    """RabbitMQ 4.0 (rabbit_exchange_type_local_random, validate_binding)."""
    router = core.exchange("x", "x-local-random").router
    router.check_binding("", {}, "rabbit_classic_queue")
    with pytest.raises(ChannelException) as refusal:
        router.check_binding("", {}, "rabbit_stream_queue")
    assert refusal.value.text == "Queue type rabbit_stream_queue not valid for this exchange type"


# Memory


def test_a_persistent_message_is_durable_where_it_is_handed_to(core: Core) -> None:
    exchange = core.exchange("x", "x-recent-history")
    pass_through(core, "x", b"persistent")
    pass_through(core, "x", b"transient", persistent=False)
    core.bind(exchange, core.queue("late"))
    core.restart()
    assert bodies(core.queue_named("late")) == [b"persistent"]


def test_memory_ends_with_the_process(core: Core) -> None:
    """RabbitMQ 3.10.8, stopped and started: its table of this is in memory only."""
    core.exchange("x", "x-recent-history")
    pass_through(core, "x", b"gone")
    core.restart()
    core.bind(core.vhost.exchange("x"), core.queue("late"))
    assert bodies(core.queue_named("late")) == []


def test_nothing_is_handed_over_twice_by_a_restart(core: Core) -> None:
    exchange = core.exchange("x", "x-recent-history")
    pass_through(core, "x", b"1", b"2")
    core.bind(exchange, core.queue("late"))
    core.restart()
    core.restart()
    assert bodies(core.queue_named("late")) == [b"1", b"2"]


def test_a_body_that_was_stored_once_for_several_can_be_handed_on(core: Core) -> None:
    """Even when the queues that shared it are done with it, and the store has let it go."""
    exchange, large = core.exchange("x", "x-recent-history"), bytes(10_000)
    early = [core.queue("one"), core.queue("two")]
    for queue in early:
        core.bind(exchange, queue)
    made = message(large, exchange="x")
    routes = core.vhost.route(exchange, ("",), {}, made)
    core.vhost.share_body(made, routes.queues)
    for queue in routes.queues:
        queue.publish(made)
    core.commit()
    for queue in early:
        assert bodies(queue) == [large]
    core.commit()
    for name in ("three", "four"):
        core.bind(exchange, core.queue(name))
    core.restart()
    assert bodies(core.queue_named("three")) == bodies(core.queue_named("four")) == [large]


def test_asking_where_a_message_would_go_leaves_nothing_behind(core: Core) -> None:
    exchange = core.exchange("x", "x-recent-history")
    core.vhost.route(exchange, ("k",), {})
    core.bind(exchange, core.queue("late"))
    assert bodies(core.queue_named("late")) == []


def test_an_exchange_that_leads_nowhere_may_be_bound(core: Core) -> None:
    """RabbitMQ 3.10.8 drops the connection then, for a message that it cannot hand over."""
    exchange = core.exchange("x", "x-recent-history")
    pass_through(core, "x", b"1")
    nowhere = core.exchange("nowhere", "fanout")
    core.bind(exchange, nowhere)
    core.bind(nowhere, core.queue("late"))
    pass_through(core, "x", b"2")
    assert bodies(core.queue_named("late")) == [b"2"]


def test_one_memory_feeds_another(core: Core) -> None:
    first, second = core.exchange("first", "x-recent-history"), core.exchange("second", "x-recent-history")
    pass_through(core, "first", b"1", b"2")
    core.bind(first, second)
    core.bind(second, core.queue("late"))
    assert bodies(core.queue_named("late")) == [b"2", b"1"]
