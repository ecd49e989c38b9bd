"""Health checks, metrics and log while a sync of a real process does not come back, whichever thread waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.admin.protocol import AdministrationError
from broker.server.commits.commit_policy import QUICK_WRITES_MIN
from broker.wire.methods import BasicAck, ConfirmSelect, QueueDeclareOk
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import SECONDS, Caller, web_address
from harness.clients.contents import PERSISTENT
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Address, Client
from harness.waiting import eventually
from tests.durability.faults.injector import SLOW_SYNCS, Disk

HANG_SECONDS = 0.5
PATIENCE_SECONDS = 5.0
HOLD_MILLISECONDS = 100_000
ATTEMPTS = 50
CHECK = "/api/health/checks/disk"
CONFIG = f"""
[disk]
hang_seconds = {HANG_SECONDS}
[management]
listen = ["127.0.0.1:0"]
[prometheus]
listen = ["127.0.0.1:0"]
"""


class Hanging(NamedTuple):
    """A broker whose disk can be made to hang, with its addresses."""

    broker: BrokerProcess
    disk: Disk
    api: Address
    metrics: Address

    def probe(self, path: str) -> tuple[int, str]:
        """Return status and text of an answer of the metrics port."""
        return asked(self.metrics, path)

    def check(self) -> tuple[int, str]:
        """Return status and text of the health check of the API."""
        return asked(self.api, CHECK)


def asked(address: Address, path: str) -> tuple[int, str]:
    """Return an answer. A connection that the event loop had accepted before it was held up waits with it: another one
    is made then, as a supervisor does."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        with suppress(TimeoutError), closing(Caller(address)) as caller:
            caller.sock.settimeout(PATIENCE_SECONDS)
            caller.request(path, "GET", "Connection: close")
            status, _ = caller.head()
            return status, caller.read(-1).decode()
    raise AssertionError(f"no answer in {SECONDS} s")


@pytest.fixture
def hanging(place: Path, injector: Path) -> Iterator[Hanging]:
    (place / "leveret.toml").write_text(CONFIG)
    (place / "data").mkdir()
    disk = Disk(injector, place / "data")
    broker = BrokerProcess(
        place / "data", "--config", str(place / "leveret.toml"), environment=disk.environment(SLOW_SYNCS)
    )
    broker.http = ()
    broker.start()
    yield Hanging(broker, disk, web_address(broker), web_address(broker, "metrics"))
    disk.mend()
    broker.stop()


def publish(client: Client) -> None:
    client.publish(b"m", key="q", properties=PERSISTENT)


def prepared(client: Client) -> Client:
    client.ask(queue_declare("q", durable=True))
    client.ask(ConfirmSelect(False))
    return client


def test_a_sync_that_hangs_is_told_by_the_event_loop(hanging: Hanging) -> None:
    """The commit thread waits; whoever asks is answered, clients that wait for nothing on disk too."""
    with closing(prepared(Client.connect(hanging.broker.address))) as client:
        assert hanging.check() == (200, '{"status":"ok"}')
        hanging.disk.slow_down(HOLD_MILLISECONDS)
        publish(client)
        _, text = eventually(lambda: found if (found := hanging.check())[0] == 503 else None, "a failed check")
        assert "messages/" in text
        assert "a write has not come back for" in text
        assert [hanging.probe(path)[0] for path in ("/healthz", "/healthz/disk", "/readyz")] == [200, 503, 503]
        assert "\nleveret_disk_hangs 1.0\n" in hanging.probe("/metrics")[1]
        assert "messages/" in hanging.broker.tell("status")["disk"]["hangs"]
        client.ask(queue_declare("transient"), channel=1)
        hanging.disk.mend()
        client.expect(BasicAck)
        eventually(lambda: hanging.check()[0] == 200, "a check that passes again")
        assert hanging.probe("/readyz") == (200, "ok\n")
    log = hanging.broker.log()
    assert f"the disk hangs; the limit is {HANG_SECONDS} s (disk.hang_seconds)" in log
    assert "the disk answers again after" in log


def held_up(hanging: Hanging, step: Callable[[int], Callable[[], object]]) -> Callable[[], object]:
    """Hold up the disk under a step of a client, until it is the event loop that waits: on a busy machine the disk is
    not always quick enough for that."""
    for attempt in range(ATTEMPTS):
        for number in range(2 * QUICK_WRITES_MIN):
            step(100 * attempt + number)()
        hanging.disk.slow_down(HOLD_MILLISECONDS)
        answered = step(100 * attempt + 99)
        if hanging.probe("/healthz")[0] == 503:
            return answered
        hanging.disk.mend()
        answered()
    raise AssertionError(f"the event loop waited for the disk in none of {ATTEMPTS} attempts")


@pytest.mark.parametrize("written", ["message", "definition"])
def test_a_sync_that_holds_the_event_loop_is_told_all_the_same(hanging: Hanging, written: str) -> None:
    """Alone and on a quick disk, a client's message or definition is written by the event loop itself."""

    def step(number: int) -> Callable[[], object]:
        if written == "message":
            publish(client)
            return lambda: client.expect(BasicAck)
        client.send(queue_declare(f"q {number}", durable=True))
        return lambda: client.expect(QueueDeclareOk)

    with closing(prepared(Client.connect(hanging.broker.address))) as client:
        answered = held_up(hanging, step)
        assert "the disk hangs" in hanging.probe("/healthz/disk")[1]
        status, text = hanging.check()
        assert (status, "the disk hangs" in text) == (503, True)
        assert "\nleveret_disk_hangs 1.0\n" in hanging.probe("/metrics")[1]
        with pytest.raises(AdministrationError, match="the disk hangs"):
            hanging.broker.tell("ping")
        hanging.disk.mend()
        answered()
        eventually(lambda: hanging.probe("/readyz") == (200, "ok\n"), "a broker that is ready again")
        assert hanging.check()[0] == 200
