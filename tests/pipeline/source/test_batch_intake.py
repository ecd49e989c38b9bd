"""Reading of a source, without Spark: batches and their limits, acknowledgements, unreadable messages.

test_data_source.py kills a broker under a stream, and finds it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.clients.wire_client import Address
from harness.waiting import eventually
from leveret_spark.option_errors import AmqpError
from leveret_spark.options import broker_of, reading_of
from leveret_spark.queues.batch_intake import Batch, Intake, ready_messages
from tests.pipeline.inputs.queue_client import Desk

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
    """Batches with `messages` messages in all."""
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


def test_a_batch_is_bounded_in_bytes_and_nothing_is_no_batch(desk: Desk, queue: Queue) -> None:
    name = queue()
    desk.publish(name, [b"x" * 100] * 10 + [b"y" * 1000])
    with opened(desk.address, queue=name, maxBytesPerBatch=250, batchWaitMilliseconds=10) as intake:
        batches = gathered(intake, 11)
        assert intake.gather() is None
    assert [len(batch.messages) for batch in batches if len(batch.messages) > 2] == []
    assert bodies(batches[-1])[-1] == b"y" * 1000


def test_a_target_is_kept_to_and_given_up_where_others_have_taken_it(desk: Desk, queue: Queue) -> None:
    name = queue()
    desk.publish(name, [b"%d" % number for number in range(10)])
    with opened(desk.address, 7, queue=name, maxMessagesPerBatch=5) as intake:
        sizes = []
        while batch := intake.gather():
            sizes.append(len(batch.messages))
            intake.settle(batch.marks)
    assert sum(sizes) == 7
    eventually(lambda: desk.count(name) == 3, "the rest to be there")
    with opened(desk.address, 4, queue=name, idleSeconds=1) as intake:
        batches = gathered(intake, 3)
        assert intake.gather() is None
    assert bodies(*batches) == [b"7", b"8", b"9"]


def test_what_cannot_be_read_is_named_without_the_password(desk: Desk, queue: Queue, name: Any) -> None:
    missing, there = name("none"), queue()
    for options, complaint in (
        ({"queue": missing}, f"queue '{missing}' of amqp://guest@.*NOT_FOUND - no queue '{missing}'"),
        ({"queue": there, "password": "hidden"}, "virtual host '/': 403 ACCESS_REFUSED - "),
        ({"queue": there, "port": 1, "reconnectSeconds": 0}, "Connection refused"),
    ):
        with pytest.raises(AmqpError, match=complaint) as refused:
            with opened(desk.address, **options):
                pass
        assert "hidden" not in str(refused.value)
    with pytest.raises(AmqpError, match=f"no queue '{missing}'"):
        ready_messages(broker_of(desk.options), missing)
    with opened(desk.address, queue=there, batchWaitMilliseconds=10) as intake:
        desk.channel.queue_delete(there)
        with pytest.raises(AmqpError, match=f"no queue '{there}'"):
            eventually(intake.gather, "a failure")
