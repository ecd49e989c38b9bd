"""Each test has an empty broker and a worker of its own, in a process as in production."""

import os
import subprocess
import sys

import pytest
import shop


@pytest.fixture
def broker(leveret):
    """An empty broker, which the application calls."""
    shop.app.conf.update(broker_url=leveret.url, broker_write_url=leveret.url, broker_read_url=leveret.url)
    return leveret


@pytest.fixture
def start_worker(broker, tmp_path):
    """A function that starts a worker; returns when it works."""
    command = [sys.executable, "-m", "celery", "--app", "shop", "worker", "--pool", "solo"]
    options = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    workers = []

    def start() -> None:
        with (tmp_path / "worker.log").open("ab") as log:
            environment = {**os.environ, "AMQP_URL": broker.url}
            workers.append(subprocess.Popen([*command, *options], env=environment, stdout=log, stderr=log))
        broker.expect(queue="celery", consumers=1, timeout_seconds=30)
        with shop.app.connection_for_write() as connection:
            while not shop.app.control.ping(timeout=0.2, limit=1, connection=connection):
                assert workers[-1].poll() is None

    yield start
    for worker in workers:
        worker.kill()
        worker.wait()


def test_a_task_that_no_worker_has_taken_survives_the_broker(broker, start_worker):
    shop.charge.apply_async((1,), ignore_result=True)
    broker.kill()
    broker.start()
    broker.expect(queue="celery", ready=1)
    start_worker()
    broker.expect("acked", queue="celery", timeout_seconds=10)


def test_a_task_runs_again_when_it_fails_or_its_acknowledgement_is_lost(broker, start_worker):
    start_worker()
    lost = broker.fault("lose-connection-before-ack", queue="celery")
    shop.charge.apply_async((2,), ignore_result=True)
    shipped = shop.ship.delay(2)
    assert shipped.get(timeout=10) == "2 is on its way"
    assert shop.charges.delay(2).get(timeout=10) == 1
    assert lost.fired == 1
    assert broker.history("requeued", queue="celery")
