"""aio-pika: its robust connection."""

from __future__ import annotations

import asyncio

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from bench.clients.client_timing import BODY, Task, Timing, arguments


def message() -> aio_pika.Message:
    """Return a persistent message."""
    return aio_pika.Message(BODY, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)


async def session(task: Task, timing: Timing) -> None:
    """Go through all steps once."""
    with timing.of("connect"):
        connection = await aio_pika.connect_robust(task.uri)
    with timing.of("channel"):
        channel = await connection.channel()
    exchange = await channel.get_exchange("amq.direct")
    names = task.queues("aio-pika")
    queues = []
    for name in names:
        with timing.of("declare"):
            queues.append(await channel.declare_queue(name, durable=True))
        with timing.of("bind"):
            await queues[-1].bind(exchange, name)
    for _ in names:
        with timing.of("publish"):
            await exchange.publish(message(), names[0])
    for _ in names:
        with timing.of("get"):
            got = await queues[0].get()
        with timing.of("ack"):
            await got.ack()
    for _ in names:
        await exchange.publish(message(), names[0])
    await channel.set_qos(prefetch_count=1)
    arrived = asyncio.Queue[AbstractIncomingMessage]()
    tag = ""
    for number, _ in enumerate(names):
        with timing.of("consume"):
            if number == 0:
                tag = await queues[0].consume(arrived.put)
            await (await arrived.get()).ack()
    with timing.of("cancel"):
        await queues[0].cancel(tag)
    for queue in queues:
        with timing.of("delete"):
            await queue.delete(if_unused=False, if_empty=False)
    with timing.of("close"):
        await connection.close()


async def main() -> None:
    """Run the sessions."""
    task, timing = arguments(), Timing()
    for _ in range(task.sessions):
        await session(task, timing)
    timing.print()


if __name__ == "__main__":
    asyncio.run(main())
