"""An asyncio service that squares numbers: confirmed publishes, a prefetch of ten, and an end that loses no work."""

import asyncio
import os

import aio_pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")
NUMBERS = range(5)


async def main() -> None:
    """Publish some numbers, consume them until all are done, and leave."""
    async with await aio_pika.connect_robust(URL) as connection:
        channel = await connection.channel(publisher_confirms=True)
        await channel.set_qos(prefetch_count=10)
        queue = await channel.declare_queue("numbers", durable=True)
        for number in NUMBERS:
            message = aio_pika.Message(str(number).encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, "numbers")  # returns when it is on disk
        done = 0
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():  # acknowledged at the end of the block, rejected by an exception
                    print(int(message.body) ** 2)
                done += 1
                if done == len(NUMBERS):
                    break


asyncio.run(main())
