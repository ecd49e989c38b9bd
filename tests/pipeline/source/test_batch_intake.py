"""What a source reads, without Spark: batches and their limits, acknowledgements, lost connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pika import BasicProperties

from harness.brokers.broker_process import BrokerProcess
from harness.clients.wire_client import Address
from harness.waiting import eventually
from leveret_spark.option_errors import AmqpError
from leveret_spark.options import broker_of, reading_of
from leveret_spark.queues.batch_intake import Batch, Intake, ready_messages
from tests.pipeline.inputs.queue_client import Desk, desk_at

pytestmark = pytest.mark.slow

Queue = Callable[..., str]


def options_of(address: Address, **more: Any) -> dict[str, str]:
    return {"host": address[0], "port": str(address[1]), **{name: str(value) for name, value in more.items()}}


@contextmanager
def opened(address: Address, target: int | None = None, **options: Any) -> Iterator[Intake]:
    given = options_of(address, **options)
    intake = Intake(broker_of(given), reading_of(given), target)
    try:
        intake.open()
        yield intake
    finally:
        intake.close()


def gathered(intake: Intake, count: int) -> list[Batch]:
    """Batches with so many messages in all."""
    batches: list[Batch] = []

    def enough() -> bool:
        if batch := intake.gather():
            batches.append(batch)
        return sum(len(each.messages) for each in batches) >= count

    eventually(enough, f"{count} messages")
    return batches


def bodies(*batches: Batch) -> list[bytes]:
    return [message[0] for batch in batches for message in batch.messages]


def test_one_connection_keeps_the_order(desk: Desk, queue: Queue) -> None:
    name = queue()
    sent = [b"%d" % number for number in range(100)]
    desk.publish(name, sent)
    with opened(desk.address, queue=name, maxMessagesPerBatch=30, prefetch=100) as intake:
        batches = gathered(intake, 100)
    assert bodies(*batches) == sent
    assert max(len(batch.messages) for batch in batches) == 30


def test_a_batch_is_bounded_in_bytes(desk: Desk, queue: Queue) -> None:
    name = queue()
    desk.publish(name, [b"x" * 100] * 10 + [b"y" * 1000])
    with opened(desk.address, queue=name, maxBytesPerBatch=250) as intake:
        batches = gathered(intake, 11)
    assert [len(batch.messages) for batch in batches if len(batch.messages) > 2] == []
    assert bodies(batches[-1])[-1] == b"y" * 1000


def test_nothing_is_no_batch(desk: Desk, queue: Queue) -> None:
    with opened(desk.address, queue=queue(), batchWaitMilliseconds=10) as intake:
        assert intake.gather() is None


def test_several_connections_share_a_queue(desk: Desk, queue: Queue) -> None:
    name = queue()
    desk.publish(name, [b"%d" % number for number in range(200)])
    with opened(desk.address, queue=name, connections=3, prefetch=20, maxMessagesPerBatch=150) as intake:
        batches = []
        while len(bodies(*batches)) < 200:
            (batch,) = gathered(intake, 1)
            intake.settle(batch.marks)
            batches.append(batch)
    assert sorted(map(int, bodies(*batches))) == list(range(200))
    assert max(len(batch.marks) for batch in batches) == 3
    assert desk.count(name) == 0


def test_what_is_settled_is_gone_when_that_returns(desk: Desk, queue: Queue) -> None:
    name = queue()
    desk.publish(name, [b"a", b"b", b"c"])
    with opened(desk.address, queue=name, maxMessagesPerBatch=2) as intake:
        first, _ = gathered(intake, 3)
        intake.settle(first.marks)
    eventually(lambda: desk.count(name) == 1, "the unsettled message to be back")
    ((method, _, body),) = desk.take(name)
    assert (body, method.redelivered) == (b"c", True)


def test_a_target_is_kept_to(desk: Desk, queue: Queue) -> None:
    name = queue()
    desk.publish(name, [b"%d" % number for number in range(10)])
    with opened(desk.address, 7, queue=name, maxMessagesPerBatch=5) as intake:
        sizes = []
        while batch := intake.gather():
            sizes.append(len(batch.messages))
            intake.settle(batch.marks)
    assert sum(sizes) == 7
    eventually(lambda: desk.count(name) == 3, "the rest to be there")


def test_a_target_that_others_have_taken_is_given_up(desk: Desk, queue: Queue) -> None:
    name = queue()
    desk.publish(name, [b"only"])
    with opened(desk.address, 2, queue=name, idleSeconds=1) as intake:
        batches = gathered(intake, 1)
        assert intake.gather() is None
    assert bodies(*batches) == [b"only"]


def test_a_queue_that_is_not_there_is_named(desk: Desk, name: Callable[..., str]) -> None:
    missing = name("none")
    with pytest.raises(AmqpError, match=f"queue '{missing}' of amqp://guest@.*NOT_FOUND - no queue '{missing}'"):
        with opened(desk.address, queue=missing):
            pass
    with pytest.raises(AmqpError, match=f"no queue '{missing}'"):
        ready_messages(broker_of(desk.options), missing)


def test_a_wrong_password_is_not_shown(desk: Desk, queue: Queue) -> None:
    with pytest.raises(AmqpError, match="virtual host '/': 403 ACCESS_REFUSED - ") as refused:
        with opened(desk.address, queue=queue(), password="hidden"):
            pass
    assert "hidden" not in str(refused.value)


def test_nobody_there_is_told_when_patience_ends() -> None:
    with pytest.raises(AmqpError, match="Connection refused"):
        with opened(("127.0.0.1", 1), queue="q", reconnectSeconds=0):
            pass


def test_a_queue_that_is_deleted_ends_the_reading(desk: Desk, queue: Queue) -> None:
    name = queue()
    with opened(desk.address, queue=name, batchWaitMilliseconds=10) as intake:
        desk.channel.queue_delete(name)
        with pytest.raises(AmqpError, match=f"no queue '{name}'"):
            eventually(intake.gather, "a failure")


def test_a_broker_that_is_killed_is_found_again(fresh_broker: BrokerProcess) -> None:
    with desk_at(fresh_broker.address) as desk:
        desk.channel.queue_declare("jobs", durable=True)
        desk.channel.queue_declare("proof", durable=True)
        desk.publish("jobs", [b"%d" % number for number in range(50)])
    with opened(fresh_broker.address, 50, queue="jobs", maxMessagesPerBatch=20) as intake:
        (first,) = gathered(intake, 20)
        intake.settle(first.marks)
        (second,) = gathered(intake, 20)
        with desk_at(fresh_broker.address) as desk:
            desk.channel.confirm_delivery()  # a confirm proves that the acks before it are on disk
            desk.channel.basic_publish("", "proof", b"", BasicProperties(delivery_mode=2))
        fresh_broker.kill_and_restart()
        intake.settle(second.marks)  # too late: they come again, and do not count as had
        rest = gathered(intake, 30)
        for batch in rest:
            intake.settle(batch.marks)
        assert intake.gather() is None
    assert sorted(map(int, bodies(*rest))) == list(range(20, 50))
    again = {int(message[0]): message[3] for batch in rest for message in batch.messages}
    assert {number for number in range(20, 40) if not again[number]} == set()
    assert ready_messages(broker_of(options_of(fresh_broker.address)), "jobs") == 0
