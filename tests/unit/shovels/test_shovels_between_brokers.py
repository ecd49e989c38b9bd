"""Shovels from one broker to another: what comes over when the other is killed, blocked, or behind TLS."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.admin.protocol import AdministrationError
from broker.wire.methods import BasicDeliver
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.certificate_authority import Authority
from harness.clients.shorthand import ack, consume, queue_declare
from harness.clients.wire_client import Client
from harness.project import ROOT
from harness.waiting import eventually
from tests.pipeline.inputs.command import leveret
from tests.unit.conftest import Configured, Dial

pytestmark = pytest.mark.slow

Begin = Callable[..., BrokerProcess]
PERSISTENT = BasicProperties(delivery_mode=2)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[BrokerProcess]:
    """The broker that messages go to."""
    process = BrokerProcess(tmp_path / "other")
    process.start()
    yield process
    process.stop()


def uri(broker: BrokerProcess) -> str:
    return f"amqp://guest:guest@127.0.0.1:{broker.address[1]}"


def settings(**value: object) -> str:
    """A static shovel in TOML."""
    given = {"src-uri": "amqp://", "src-queue": "from", "dest-queue": "to", "reconnect-delay": 0.05, **value}
    return "\n".join(["[shovels.moving]", *(f'"{key}" = {json.dumps(item)}' for key, item in given.items())])


def state(broker: BrokerProcess) -> dict[str, Any]:
    (row,) = broker.tell("list_shovels")
    return dict(row)


def await_state(broker: BrokerProcess, wanted: str) -> dict[str, Any]:
    return eventually(lambda: (row := state(broker))["state"] == wanted and row, f"a shovel that is {wanted}")


def test_nothing_is_lost_when_the_destination_is_killed(
    configured: Configured, other: BrokerProcess, dial: Dial
) -> None:
    """Unconfirmed messages stay at the source and come again; the order is kept."""
    here = configured(settings(**{"dest-uri": uri(other), "src-prefetch-count": 50}))
    publisher = dial(here)
    publisher.ask(queue_declare("from", durable=True))
    for number in range(3000):
        publisher.publish(b"%d" % number, key="from", properties=PERSISTENT)
    for _ in range(3):
        known = _count(other, "to")
        eventually(lambda known=known: _count(other, "to") >= known + 100, "messages to move")  # type: ignore[misc]
        other.kill_and_restart()
    eventually(lambda: _count(here, "from") == 0, "the rest to move")
    bodies = [int(body) for body in _drained(dial(other))]
    assert list(dict.fromkeys(bodies)) == list(range(3000))
    assert len(bodies) <= 3000 + 3 * 50  # those that were on their way


def _count(broker: BrokerProcess, queue: str) -> int:
    try:
        rows = broker.tell("list_queues", columns=["name", "messages"])
    except AdministrationError:
        return 0
    return next((int(row["messages"]) for row in rows if row["name"] == queue), 0)


def _drained(client: Client) -> list[bytes]:
    count = client.ask(queue_declare("to", passive=True)).message_count
    client.ask(consume("to"))
    messages = [client.expect_message(BasicDeliver) for _ in range(count)]
    client.send(ack(count, multiple=True))
    return [message.body for message in messages]


def test_a_blocked_destination_is_shown(configured: Configured, other: BrokerProcess, dial: Dial) -> None:
    """3.13 has this state; the messages wait, and go on afterwards."""
    here = configured(settings(**{"dest-uri": uri(other)}))
    await_state(here, "running")
    other.tell("set_vm_memory_high_watermark", fraction=0.00001)
    eventually(lambda: other.tell("list_alarms"), "the alarm")
    publisher = dial(here)
    for number in range(10):
        publisher.publish(b"%d" % number, key="from")
    assert await_state(here, "blocked")["dest_queue"] == ""  # a static one does not say, as in RabbitMQ
    other.tell("set_vm_memory_high_watermark", fraction=0.9)
    await_state(here, "running")
    eventually(lambda: _count(other, "to") == 10, "all to move")


def test_messages_go_over_tls(configured: Configured, authority: Authority, tmp_path: Path) -> None:
    """The certificate is believed when the URI says by whom, and otherwise not."""
    secured = BrokerProcess(tmp_path / "secured", "--config", str(authority.config()))
    secured.start()
    try:
        where = f"amqps://guest:guest@localhost:{secured.tls_address[1]}"
        here = configured(settings(**{"dest-uri": where}))
        eventually(lambda: "certificate verify failed" in here.log(), "the refusal")
        value = {"src-uri": "amqp://", "src-queue": "from", "dest-uri": f"{where}?cacertfile={authority.ca_file}"}
        here.tell("set_parameter", vhost="/", component="shovel", name="good", value=value)
        eventually(lambda: "running" in {row["state"] for row in here.tell("list_shovels")}, "it to run")
    finally:
        secured.stop()


def test_a_client_that_hears_nothing_gives_up(configured: Configured, other: BrokerProcess) -> None:
    """Two heartbeats without a byte, and the shovel begins again."""
    from signal import SIGCONT, SIGSTOP

    here = configured(settings(**{"dest-uri": f"{uri(other)}?heartbeat=1"}))
    await_state(here, "running")
    other.signal(SIGSTOP)
    try:
        eventually(lambda: "has ended: heartbeat timeout" in here.log(), "the shovel to end")
    finally:
        other.signal(SIGCONT)
    await_state(here, "running")


def test_wrong_shovels_keep_the_broker_from_starting(tmp_path: Path) -> None:
    file = tmp_path / "leveret.toml"
    file.write_text(settings(**{"dest-uri": "amqp://", "ack-mode": "never"}))
    for arguments in (("config", "check", file), ("serve", "--config", file, "--data-dir", tmp_path / "data")):
        ended = leveret(*arguments)
        assert ended.code == 1
        assert "shovels.moving: ack-mode should be one of" in ended.errors
    file.write_text("[shovels]\nmoving = 5\n")
    assert 'shovels: expected a section, got {"moving":5}' in leveret("config", "check", file).errors


def test_a_shovel_that_fails_ends_nothing_else(configured: Configured, dial: Dial) -> None:
    """A priority that no message can have, which RabbitMQ's validation lets pass."""
    here = configured("")
    value = {
        "src-uri": "amqp://",
        "src-queue": "from",
        "dest-uri": "amqp://",
        "dest-publish-properties": {"priority": 300},
    }
    here.tell("set_parameter", vhost="/", component="shovel", name="moving", value=value)
    await_state(here, "running")
    dial(here).publish(b"x", key="from")
    assert eventually(lambda: "error in shovel 'moving'" in here.log(), "the failure")
    eventually(
        lambda: (row := state(here))["state"] == "terminated" and row["reason"] == '"internal error"', "it to end"
    )
    assert _count(here, "from") == 1


def test_nothing_is_loaded_without_a_shovel() -> None:
    """A start takes no longer because there could be one."""
    loaded = "any(name.startswith(('broker.client', 'broker.shovel', 'broker.migration')) for name in sys.modules)"
    code = f"import sys, broker.server.serve, broker.server.http.http_services; sys.exit({loaded})"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_no_password_of_a_shovel_is_shown(configured: Configured) -> None:
    here = configured(settings(**{"dest-uri": "amqp://u:very-secret@127.0.0.1:1"}))
    await_state(here, "starting")
    eventually(lambda: "could not connect" in here.log(), "the failure")
    shown = json.dumps([here.tell("list_shovels"), here.tell("environment")])
    assert "very-secret" not in shown + here.log()


def test_users_of_local_connections_have_their_permissions(configured: Configured) -> None:
    """amqp://user@ is that user, without its password as in RabbitMQ; amqp:// may do anything."""
    here = configured(settings(**{"dest-uri": "amqp://nobody@"}))
    eventually(lambda: "user 'nobody' may not connect to virtual host '/'" in here.log(), "the refusal")
    here.tell("add_user", name="nobody", password="x", tags=[])
    here.tell("set_permissions", user="nobody", vhost="/", configure="^$", write="^$", read="^$")
    eventually(lambda: "access to queue 'to' in vhost '/' refused for user 'nobody'" in here.log(), "the refusal")
    here.tell("set_permissions", user="nobody", vhost="/", configure="to", write="amq.default", read="^$")
    await_state(here, "running")
