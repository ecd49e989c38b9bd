"""Declaring what is there already: which arguments must agree, and names that are being made while others declare."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.entities.arguments.queue_arguments import RULES_OF_3, assert_equivalent
from broker.entities.queues.queue import Queue, QueueSpec
from broker.entities.scheduling.future import Future
from broker.wire.amqp_errors import ChannelException
from broker.wire.field_tables import Field, Table
from harness.brokers.broker_core import Core

INTEGERS = "bBsuIilL"


def equivalent(current: Table, received: Table) -> bool:
    try:
        assert_equivalent("q", "/", current, received, RULES_OF_3)
    except ChannelException:
        return False
    return True


fields = st.one_of(
    st.builds(Field, st.sampled_from(INTEGERS), st.integers(0, 3)),
    st.builds(Field, st.just("S"), st.sampled_from([b"", b"1", b"classic", b"lazy"])),
    st.builds(Field, st.just("t"), st.booleans()),
)
tables = st.dictionaries(
    st.sampled_from(["x-message-ttl", "x-max-length", "x-queue-type", "x-overflow", "x-unknown", "other"]), fields
)


@given(tables, tables, tables)
def test_being_declared_alike_is_an_equivalence(one: Table, two: Table, three: Table) -> None:
    """The answer is the same, whichever came first. Unknown arguments do not count."""
    assert equivalent(one, one)
    assert equivalent(one, two) == equivalent(two, one)
    if equivalent(one, two) and equivalent(two, three):
        assert equivalent(one, three)
    known = {name: field for name, field in one.items() if name not in ("x-unknown", "other")}
    assert equivalent(one, known)
    assert equivalent(known | {name: two[name] for name in ("x-unknown", "other") if name in two}, one)


# Names that are being made


def declare(core: Core, name: str = "q", **arguments: Field) -> Future[Queue]:
    table = {"x-" + key.replace("_", "-"): field for key, field in arguments.items()}
    return core.vhost.declare_queue(QueueSpec(name, True, False, False, table), None)


def test_a_queue_is_seen_by_nobody_before_it_is_on_disk(core: Core) -> None:
    """Many declarations are one creation; one that fails is tried again by the next in line.

    A different one is refused when the queue is there.
    """
    core.definitions.holding = True
    first, *alike = [declare(core) for _ in range(10)]
    different = declare(core, max_length=Field("I", 5))
    assert not any(pending.done for pending in (first, *alike, different))
    assert (core.vhost.queues, core.broker.queues_by_id, core.definitions.changes) == ({}, {}, 1)
    core.definitions.settle(OSError("no room"))
    with pytest.raises(OSError, match="no room"):
        first.result()
    assert not any(pending.done for pending in (*alike, different))
    assert core.definitions.held == 1
    core.definitions.settle()
    assert {id(pending.result()) for pending in alike} == {id(core.vhost.queues["q"])}
    with pytest.raises(ChannelException, match="inequivalent arg 'x-max-length'"):
        different.result()


def test_a_binding_whose_queue_goes_meanwhile_is_not_made(core: Core) -> None:
    queue, exchange = core.queue(), core.exchange("x", "fanout")
    core.definitions.holding = True
    bound = core.vhost.bindings.bind(exchange.binding(queue, "", {}), {})
    core.vhost.delete_queue(queue)
    core.definitions.settle()
    core.definitions.settle()
    assert bound.done
    assert exchange.bindings == {}
    assert core.definitions.bindings == {}
    core.definitions.holding = False
    core.restart()
    assert core.vhost.exchanges["x"].bindings == {}


def test_a_binding_is_written_before_it_matches_unless_it_is_to_what_is_transient(core: Core) -> None:
    queue, exchange = core.queue(), core.exchange("x", "fanout")
    core.bind(exchange, core.queue("t", durable=False))
    assert core.definitions.bindings == {}
    core.definitions.holding = True
    core.vhost.bindings.bind(exchange.binding(queue, "", {}), {})
    assert core.routed("x", "") == ["t"]
    core.definitions.settle()
    assert core.routed("x", "") == ["q", "t"]
