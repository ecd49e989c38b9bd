"""Declaring what is there already: which arguments must agree, and names that are being made while others declare."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.entities.arguments.queue_arguments import assert_equivalent, same_value
from broker.entities.queues.queue import Queue, QueueSpec
from broker.entities.scheduling.future import Future
from broker.wire.amqp_errors import ChannelException
from broker.wire.field_tables import Field, Table
from harness.brokers.broker_core import Core

INTEGERS = "bBsuIilL"


def equivalent(current: Table, received: Table) -> bool:
    try:
        assert_equivalent("q", "/", current, received)
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
    """Whoever declares first: the answer is the same."""
    assert equivalent(one, one)
    assert equivalent(one, two) == equivalent(two, one)
    if equivalent(one, two) and equivalent(two, three):
        assert equivalent(one, three)


@given(tables, tables)
def test_what_no_queue_knows_does_not_count(one: Table, other: Table) -> None:
    known = {name: field for name, field in one.items() if name not in ("x-unknown", "other")}
    assert equivalent(one, known)
    assert equivalent(known | {name: other[name] for name in ("x-unknown", "other") if name in other}, one)


@pytest.mark.parametrize("one", INTEGERS)
@pytest.mark.parametrize("other", INTEGERS)
def test_integers_count_by_value(one: str, other: str) -> None:
    """RabbitMQ takes any width: clients choose differently for the same number."""
    assert same_value(Field(one, 100), Field(other, 100))
    assert not same_value(Field(one, 100), Field(other, 101))


def test_a_boolean_is_no_integer() -> None:
    assert not same_value(Field("t", True), Field("I", 1))
    assert not same_value(Field("S", b"1"), Field("I", 1))


# Names that are being made


def declare(core: Core, name: str = "q", **arguments: Field) -> Future[Queue]:
    table = {"x-" + key.replace("_", "-"): field for key, field in arguments.items()}
    return core.vhost.declare_queue(QueueSpec(name, True, False, False, table), None)


def test_a_queue_is_seen_by_nobody_before_it_is_on_disk(core: Core) -> None:
    core.definitions.holding = True
    pending = declare(core)
    assert not pending.done
    assert core.vhost.queues == {}
    assert core.broker.queues_by_id == {}
    core.definitions.settle()
    assert core.vhost.queues["q"] is pending.result()


def test_many_declarations_are_one_creation(core: Core) -> None:
    core.definitions.holding = True
    futures = [declare(core) for _ in range(10)]
    assert core.definitions.changes == 1
    core.definitions.settle()
    assert len({id(pending.result()) for pending in futures}) == 1


def test_a_creation_that_fails_is_tried_again_by_the_next_in_line(core: Core) -> None:
    core.definitions.holding = True
    futures = [declare(core) for _ in range(3)]
    core.definitions.settle(OSError("no room"))
    with pytest.raises(OSError, match="no room"):
        futures[0].result()
    assert [pending.done for pending in futures] == [True, False, False]
    assert core.definitions.held == 1
    core.definitions.settle()
    assert futures[1].result() is futures[2].result() is core.vhost.queues["q"]


def test_a_different_declaration_is_refused_when_the_first_is_there(core: Core) -> None:
    core.definitions.holding = True
    first, second = declare(core), declare(core, max_length=Field("I", 5))
    assert not second.done
    core.definitions.settle()
    assert first.result().arguments.max_length is None
    with pytest.raises(ChannelException, match="inequivalent arg 'x-max-length'"):
        second.result()


def test_a_name_whose_creation_could_not_begin_is_free(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("cannot be written")

    with monkeypatch.context() as patched:
        patched.setattr(core.definitions, "queue_declared", refuse)
        with pytest.raises(ValueError, match="cannot be written"):
            declare(core)
    assert declare(core).result() is core.vhost.queues["q"]


def test_deleting_and_declaring_again_makes_another_queue(core: Core) -> None:
    """Ids differ, and what the first one left on disk does not show up in the second."""
    queue = core.queue()
    core.deposit(queue, b"old")
    core.commit()
    core.definitions.holding = True
    deleted = core.vhost.delete_queue(queue)
    again = declare(core)
    assert not deleted.done
    core.definitions.settle()
    core.definitions.settle()
    assert deleted.result() == 1
    assert again.result().store.queue_id != queue.store.queue_id
    core.deposit(again.result(), b"new")
    core.restart()
    assert len(core.queue_named("q").ready_messages) == 1


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


def test_a_binding_is_written_before_it_matches(core: Core) -> None:
    queue, exchange = core.queue(), core.exchange("x", "fanout")
    core.definitions.holding = True
    core.vhost.bindings.bind(exchange.binding(queue, "", {}), {})
    assert core.routed("x", "") == []
    core.definitions.settle()
    assert core.routed("x", "") == ["q"]


def test_a_binding_to_what_is_transient_is_not_written(core: Core) -> None:
    exchange = core.exchange("x", "fanout")
    core.bind(exchange, core.queue("t", durable=False))
    assert core.routed("x", "") == ["t"]
    assert core.definitions.bindings == {}
