"""kombu, as Celery uses it, over py-amqp; with confirms, which it has off by default."""

from __future__ import annotations

from typing import Any

import kombu

from bench.clients.client_timing import BODY, Task, Timing, run


def session(task: Task, timing: Timing) -> None:
    """Go through all steps once."""
    connection = kombu.Connection(task.uri, transport_options={"confirm_publish": True})
    with timing.of("connect"):
        connection.connect()
    with timing.of("channel"):
        channel = connection.channel()
    exchange = kombu.Exchange("amq.direct", "direct", no_declare=True)
    names = task.queues("kombu")
    queues = [kombu.Queue(name, exchange, name, durable=True)(channel) for name in names]
    for queue in queues:
        with timing.of("declare"):
            queue.queue_declare()
        with timing.of("bind"):
            queue.queue_bind()
    producer = kombu.Producer(channel, exchange)
    for _ in names:
        with timing.of("publish"):
            producer.publish(BODY, names[0], delivery_mode=2)
    for _ in names:
        with timing.of("get"):
            got = queues[0].get()
        assert got is not None
        with timing.of("ack"):
            got.ack()
    for _ in names:
        producer.publish(BODY, names[0], delivery_mode=2)
    arrived: list[Any] = []
    consumer = kombu.Consumer(channel, [queues[0]], on_message=arrived.append, prefetch_count=1)
    for number, _ in enumerate(names):
        with timing.of("consume"):
            if number == 0:
                consumer.consume()
            while not arrived:
                connection.drain_events(timeout=10)
            arrived.pop().ack()
    with timing.of("cancel"):
        consumer.cancel()
    for queue in queues:
        with timing.of("delete"):
            queue.delete()
    with timing.of("close"):
        connection.release()


if __name__ == "__main__":
    run(session)
