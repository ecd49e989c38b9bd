"""An asyncio service that writes an invoice for each order, which it acknowledges when the invoice is confirmed."""

import asyncio
import json
import os
from functools import partial

import aio_pika
from aio_pika.exceptions import DeliveryError

CONFIRM_SECONDS = 0.5
WEEK = 7 * 24 * 3600


def invoice(order: bytes) -> bytes:
    """Return the amount to be paid for an order."""
    return json.dumps({"total": sum(json.loads(order)["prices"])}).encode()


async def declare(channel) -> None:
    """Make the queues. What cannot be read is kept for a week."""
    rejected = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.unreadable"}
    await channel.declare_queue("orders", durable=True, arguments=rejected)
    await channel.declare_queue("orders.unreadable", durable=True, arguments={"x-message-ttl": WEEK * 1000})
    await channel.declare_queue("invoices", durable=True)


async def serve(url: str) -> None:
    """Work until cancelled. The connection is made again when it is lost."""
    async with await aio_pika.connect_robust(url, reconnect_interval=0.1) as connection:
        channel = await connection.channel(publisher_confirms=True)
        await channel.set_qos(prefetch_count=10)
        await declare(channel)
        orders = await channel.get_queue("orders")
        await orders.consume(partial(handle, channel))
        await asyncio.Future()


async def handle(channel, order) -> None:
    """Write the invoice of an order; an order that cannot be read goes to `orders.unreadable`."""
    try:
        written = aio_pika.Message(invoice(order.body), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
    except (ValueError, KeyError):
        await order.reject(requeue=False)
        return
    try:
        await channel.default_exchange.publish(written, "invoices", timeout=CONFIRM_SECONDS)
        await order.ack()
    except (DeliveryError, TimeoutError):
        await order.reject(requeue=True)


if __name__ == "__main__":
    asyncio.run(serve(os.environ["AMQP_URL"]))
