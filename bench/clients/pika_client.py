"""pika: its blocking connection."""

from __future__ import annotations

from itertools import islice

import pika

from bench.clients.client_timing import BODY, Task, Timing, run

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def session(task: Task, timing: Timing) -> None:
    """Go through all steps once."""
    with timing.of("connect"):
        connection = pika.BlockingConnection(pika.URLParameters(task.uri))
    with timing.of("channel"):
        channel = connection.channel()
    channel.confirm_delivery()
    names = task.queues("pika")
    for name in names:
        with timing.of("declare"):
            channel.queue_declare(name, durable=True)
        with timing.of("bind"):
            channel.queue_bind(name, "amq.direct", name)
    for _ in names:
        with timing.of("publish"):
            channel.basic_publish("amq.direct", names[0], BODY, PERSISTENT)
    for _ in names:
        with timing.of("get"):
            method, _, _ = channel.basic_get(names[0])
        assert method is not None
        assert method.delivery_tag is not None
        with timing.of("ack"):
            channel.basic_ack(method.delivery_tag)
    for _ in names:
        channel.basic_publish("amq.direct", names[0], BODY, PERSISTENT)
    channel.basic_qos(prefetch_count=1)
    deliveries = channel.consume(names[0])
    for _ in names:
        with timing.of("consume"):
            ((delivered, _, _),) = islice(deliveries, 1)
            assert delivered is not None
            assert delivered.delivery_tag is not None
            channel.basic_ack(delivered.delivery_tag)
    with timing.of("cancel"):
        channel.cancel()
    for name in names:
        with timing.of("delete"):
            channel.queue_delete(name)
    with timing.of("close"):
        connection.close()


if __name__ == "__main__":
    run(session)
