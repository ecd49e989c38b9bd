"""The service in the test's own event loop. Calls that wait for it are made in a thread."""

import asyncio
import json
from asyncio import to_thread
from contextlib import asynccontextmanager

import aio_pika
import pytest
from invoices import WEEK, declare, serve

pytestmark = pytest.mark.anyio
ORDER = json.dumps({"prices": [3, 4]}).encode()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def service(leveret):
    """The service, as long as this is entered."""
    task = asyncio.create_task(serve(leveret.url))
    await to_thread(leveret.expect, queue="orders", consumers=1)
    yield
    task.cancel()


@pytest.fixture
def shop(leveret, leveret_process):
    """A broker with the queues and three orders: made once, then restored."""
    if "shop" not in leveret.snapshots():
        asyncio.run(prepare(leveret.url))
        leveret.save_snapshot("shop")
    leveret.restore_snapshot("shop")
    return leveret


async def prepare(url: str) -> None:
    """Three orders, one of which cannot be read."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await declare(channel)
        for order in (ORDER, b"?", ORDER):
            message = aio_pika.Message(order, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, "orders")


async def test_each_order_has_an_invoice(shop, leveret_aio_connection):
    async with service(shop):
        await to_thread(shop.expect, queue="invoices", ready=2)
        await to_thread(shop.expect, queue="orders.unreadable", ready=1)
    async with leveret_aio_connection as connection:
        channel = await connection.channel()
        invoices = await channel.get_queue("invoices")
        assert json.loads((await invoices.get()).body) == {"total": 7}


@pytest.mark.parametrize("fault", ["nack-confirms", "withhold-confirms"])
async def test_an_order_comes_again_until_its_invoice_is_confirmed(shop, fault):
    """An invoice may then be there twice; an order is never without one."""
    shop.fault(fault, queue="invoices")
    async with service(shop):
        await to_thread(shop.expect, "acked", queue="orders", count=2)
    assert len(shop.history("requeued", queue="orders")) == 1
    assert len(shop.history("routed", queue="invoices")) == 3


async def test_what_cannot_be_read_is_kept_for_a_week(shop):
    async with service(shop):
        await to_thread(shop.wait_until_idle)
    shop.clock.step(WEEK - 60)
    shop.expect(queue="orders.unreadable", ready=1)
    shop.clock.step(120)
    shop.expect("expired", queue="orders.unreadable")


async def test_the_service_goes_on_after_a_crash_of_the_broker(shop):
    async with service(shop):
        await to_thread(shop.kill)
        await to_thread(shop.start)
        await to_thread(shop.expect, queue="orders", consumers=1, messages=0)
    shop.expect(queue="orders.unreadable", ready=1)
