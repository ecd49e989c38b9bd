"""Exchanges that choose at random or remember what has passed: what the entities promise beyond the wire."""

from __future__ import annotations

from harness.brokers.broker_core import Core, Reader, message

# Chance


def test_who_is_no_longer_bound_is_not_chosen(core: Core) -> None:
    exchange, one, two = core.exchange("x", "x-random"), core.queue("one"), core.queue("two")
    for queue, key in ((one, "a"), (one, "b"), (two, "")):
        core.bind(exchange, queue, key)
    core.unbind(exchange, one, "a")
    assert {name for _ in range(100) for name in core.routed("x", "")} == {"one", "two"}
    core.unbind(exchange, one, "b")
    assert {name for _ in range(100) for name in core.routed("x", "")} == {"two"}
    core.vhost.delete_queue(two)
    assert core.routed("x", "") == []


# Memory


def test_a_body_that_was_stored_once_for_several_can_be_handed_on(core: Core) -> None:
    """Even when the queues that shared it are done with it, and the store has let it go."""
    exchange, large = core.exchange("x", "x-recent-history"), bytes(10_000)
    early = [core.queue("one"), core.queue("two")]
    for queue in early:
        core.bind(exchange, queue)
    made = message(large, exchange="x")
    core.vhost.share_body(made, early)
    for queue in core.vhost.route(exchange, ("",), {}, made).queues:
        queue.publish(made)
    core.commit()
    assert [Reader().drain(queue) for queue in early] == [[large]] * 2
    core.commit()
    for name in ("three", "four"):
        core.bind(exchange, core.queue(name))
    core.restart()
    assert Reader().drain(core.queue_named("three")) == Reader().drain(core.queue_named("four")) == [large]
