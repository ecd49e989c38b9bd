"""Each test finds an empty broker, and a worker: one for all of them, in a process as in production."""

import json
import os
import subprocess
import sys

import pytest
import shop

WAITING = range(20)


@pytest.fixture(scope="session")
def process(leveret_process):
    """The broker that the application calls, and a snapshot of it in which orders wait."""
    url = leveret_process.url
    shop.app.conf.update(broker_url=url, broker_write_url=url, broker_read_url=url)
    for order in WAITING:
        shop.charge.apply_async((order,), ignore_result=True)
    leveret_process.save_snapshot("orders")
    return leveret_process


@pytest.fixture(scope="session")
def worker_process(process, tmp_path_factory):
    """A worker. It connects again whenever the broker is emptied."""
    command = [sys.executable, "-m", "celery", "--app", "shop", "worker", "--queues", "celery", "--pool", "threads"]
    options = ["--concurrency", "1", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    with (tmp_path_factory.mktemp("worker") / "log").open("wb") as log:
        environment = {**os.environ, "AMQP_URL": process.url}
        worker = subprocess.Popen([*command, *options], env=environment, stdout=log, stderr=log)
    yield
    worker.kill()
    worker.wait()


@pytest.fixture
def broker(leveret, worker_process):
    """An empty broker whose worker waits for tasks."""
    leveret.expect(queue="celery", consumers=1, timeout_seconds=30)
    return leveret


def test_a_task_of_later_survives_the_broker(process, leveret):
    shop.ship.apply_async((1,), queue="later", ignore_result=True)
    leveret.kill()
    leveret.start()
    leveret.expect(queue="later", ready=1)


def test_an_order_that_is_charged_later_is_shipped_an_hour_later(broker):
    broker.clock.stop()
    shipped = shop.ship.delay(1001)
    broker.expect(queue="later", ready=1)
    shop.charge.delay(1001).get(timeout=10)
    broker.wait_until_idle()
    broker.clock.step(shop.HOUR - 1)
    broker.expect(queue="later", ready=1)
    broker.clock.step(1)
    assert shipped.get(timeout=10) == "1001 is on its way"


def test_all_orders_that_wait_are_charged(broker):
    broker.restore_snapshot("orders")
    done = broker.expect("acked", queue="celery", count=len(WAITING))
    assert sorted(json.loads(task["payload"])[0] for task in done) == [[order] for order in WAITING]


def test_an_order_is_charged_once_when_the_acknowledgement_is_lost(broker):
    lost = broker.fault("lose-connection-before-ack", queue="celery", skip=10)
    broker.restore_snapshot("orders")
    broker.expect("acked", queue="celery", count=len(WAITING))
    assert lost.fired == 1
    assert broker.history("requeued", queue="celery")
    assert shop.charges.delay(10).get(timeout=10) == 1
