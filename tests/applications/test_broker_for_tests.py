"""A broker for tests of applications: killed, started again, without power, and what is said when it does not run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pika
import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import web_address, web_broker
from harness.project import ROOT
from harness.waiting import eventually
from leveret.testing import Broker, Control, LeveretError, NotMetError
from leveret.testing.power.c_compiler import compiler
from leveret.testing.power.power_record import PowerRecord

pytestmark = pytest.mark.slow

needs_compiler = pytest.mark.skipif(not compiler(), reason="the recorder is written in C and there is no compiler")
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def publish(broker: Broker, *bodies: bytes) -> None:
    """Confirmed messages in the durable queue `orders`."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        for body in bodies:
            channel.basic_publish("", "orders", body, PERSISTENT)


def is_running(pid: int) -> bool:
    """Return whether a process does more than wait for its parent, by one read: it may end between two looks."""
    try:
        return bool((Path("/proc") / str(pid) / "cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def broker(process: Broker) -> Broker:
    process.fresh()
    return process


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_what_was_confirmed_is_there_at_the_same_address(broker: Broker, end: str) -> None:
    publish(broker, b"one")
    before = broker.url, broker.pid
    getattr(broker, end)()
    assert not broker.running
    broker.start()
    assert (broker.url, broker.running) == (before[0], True)
    assert broker.pid != before[1]
    broker.expect(queue="orders", ready=1)


def test_a_test_begins_with_nothing_and_a_broker_that_runs(broker: Broker) -> None:
    publish(broker, b"one")
    broker.fault("nack-confirms")
    broker.kill()
    broker.fresh()
    assert (broker.running, broker.faults(), broker.history()) == (True, [], [])
    with pytest.raises(NotMetError, match="there is no queue 'orders'"):
        broker.expect(queue="orders", ready=1, timeout_seconds=0)


def test_orders(broker: Broker) -> None:
    """Each order of the client is one that the broker knows."""
    publish(broker, b"one", b"two")
    assert [event["payload"] for event in broker.expect("confirmed", count=2)] == ["one", "two"]
    broker.wait_until_idle(quiet_milliseconds=1)
    assert [event["event"] for event in broker.history("routed", queue="orders", limit=1, bodies=True)] == ["routed"]
    broker.clear_history()
    assert broker.history() == []
    broker.save_snapshot("two-orders")
    broker.reset()
    broker.restore_snapshot("two-orders")
    broker.expect(queue="orders", ready=2)
    broker.restore_backup(str(broker.data / "snapshots" / "two-orders"))
    assert broker.snapshots() == ["two-orders"]
    broker.delete_snapshot("two-orders")
    assert broker.snapshots() == []


def test_the_clock(broker: Broker) -> None:
    broker.clock.stop()
    next_month = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    broker.clock.set(next_month)
    broker.clock.step(3600)
    assert broker.clock.time() == next_month + timedelta(hours=1)
    broker.clock.start()


def test_faults(broker: Broker) -> None:
    nacks = broker.fault("nack-confirms", queue="orders", times=2)
    with pytest.raises(pika.exceptions.NackError):
        publish(broker, b"one")
    assert (nacks.fired, broker.faults()[0]["left"]) == (1, 1)
    nacks.lift()
    with pytest.raises(LeveretError, match="is lifted"):
        assert nacks.fired
    broker.fault("memory-alarm")
    broker.lift_faults()
    broker.fault("die-after-commit")
    with pytest.raises(pika.exceptions.AMQPError):
        publish(broker, b"two")
    assert broker.wait_for_end() == -9


@pytest.mark.parametrize(
    ("settings", "said"),
    [("[server]\nspeed = 3\n", "exit code 1.*speed"), ("[testing]\n", "exit code 1.*testing")],
)
def test_a_broker_that_does_not_start_says_why(settings: str, said: str) -> None:
    broker = Broker(settings=settings)
    with pytest.raises(LeveretError, match=f"(?s)did not start: {said}"):
        broker.start()
    directory = broker.directory
    broker.close()
    assert not directory.exists()


def test_what_cannot_be_done_is_said(broker: Broker) -> None:
    with pytest.raises(LeveretError, match="runs already"):
        broker.start()
    with pytest.raises(LeveretError, match="power_failures=True"):
        broker.power_failure()
    with pytest.raises(LeveretError, match="still runs after 0 s"):
        broker.wait_for_end(0)
    with pytest.raises(LeveretError, match=r"404: .*known: nack-confirms"):
        broker.fault("nack-everything")
    broker.kill()
    with pytest.raises(LeveretError, match=r"no answer of a broker at .*does it run"):
        broker.reset()
    never_started = Broker(broker.directory / "other")
    with pytest.raises(LeveretError, match="was not started"):
        assert never_started.pid
    never_started.close()
    with pytest.raises(LeveretError, match="is closed"):
        never_started.start()


def test_a_broker_without_testing_enabled_says_so(tmp_path: Path) -> None:
    process: BrokerProcess = web_broker(tmp_path)
    process.start()
    host, port = web_address(process)
    with pytest.raises(LeveretError, match=r"403: .*\[testing\]"):
        Control(f"http://guest:guest@{host}:{port}").reset()
    process.stop()


def test_a_broker_does_not_outlive_the_tests_that_are_killed(tmp_path: Path) -> None:
    program = "import os, sys; from pathlib import Path; from leveret.testing import Broker; broker = Broker(Path())\n"
    end = "broker.start(); print(broker.pid, flush=True); os.kill(os.getpid(), 9)"
    tests = subprocess.run(
        [sys.executable, "-c", program + end],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    pid = int(tests.stdout)
    eventually(lambda: not is_running(pid), "the broker to end")


@needs_compiler
def test_a_power_failure_takes_what_was_not_synced(tmp_path: Path) -> None:
    """Bytes, and names: a file is there after a sync of its directory, its content after one of its own."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "before").write_text("there")
    record = PowerRecord(data, tmp_path / "writes")
    program = """
import os, sys
directory = os.open(sys.argv[1], os.O_RDONLY)
synced = os.open("synced", os.O_CREAT | os.O_WRONLY)
os.write(synced, b"synced"); os.fsync(synced); os.fsync(directory)
os.write(synced, b" and lost")
os.close(os.open("lost", os.O_CREAT | os.O_WRONLY))
os.unlink("before")
"""
    subprocess.run([sys.executable, "-c", program, str(data)], cwd=data, env=record.environment(), check=True)
    assert record.fail(None) == 3
    assert {path.name: path.read_text() for path in data.iterdir()} == {"before": "there", "synced": "synced"}
    assert record.fail(None) == 0


@needs_compiler
def test_a_broker_without_power_keeps_what_it_confirmed(tmp_path: Path) -> None:
    with Broker(tmp_path, power_failures=True) as broker:
        for number in range(4):
            publish(broker, b"%d" % number)
            broker.power_failure(seed=number or None)
            broker.start()
            broker.expect(queue="orders", ready=number + 1)
