"""Definitions that a RabbitMQ of any age, LavinMQ or a person wrote: taken in, or passed over as RabbitMQ does.

As RabbitMQ 3.10.8 and 4.3.6 take these files.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.admin.definitions.definitions_file import read_definitions
from broker.admin.json_input.body_parts import BodyParts
from harness.brokers.broker_process import BrokerProcess
from harness.clients.wire_client import Client

SHOVEL = {"src-uri": "amqp://here", "src-queue": "a", "dest-uri": "amqp://there", "dest-queue": "b"}
AMQP_1_0 = {**SHOVEL, "src-protocol": "amqp10", "src-address": "/queues/a"}
LOCAL = {**SHOVEL, "src-protocol": "local", "dest-protocol": "local", "src-predeclared": True}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("others") / "data")
    process.start()
    yield process
    process.stop()


def imported(process: BrokerProcess, **definitions: Any) -> None:
    process.tell("import_definitions", definitions=definitions)


def logged_in(process: BrokerProcess, user: str, password: str) -> None:
    Client.connect(process.address, user=user, password=password).close()


def test_the_default_exchange_and_its_bindings_are_passed_over(process: BrokerProcess) -> None:
    queue = {"name": "jobs", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    exchange = {"name": "", "vhost": "/", "type": "direct", "durable": True, "auto_delete": False, "internal": False}
    binding = {"source": "", "vhost": "/", "destination_type": "queue", "arguments": {}, "properties_key": "jobs"}
    to = [{**binding, "destination": name, "routing_key": name} for name in ("jobs", "not there")]
    imported(process, queues=[queue], exchanges=[exchange], bindings=to)
    assert [row["name"] for row in process.tell("list_queues", vhost="/")] == ["jobs"]
    assert process.tell("export_definitions")["bindings"] == []


@pytest.mark.parametrize(
    ("version", "algorithm"), [("3.5.7", "md5"), ("3.0.4", "md5"), ("3.6.0", "sha256"), (None, "sha256")]
)
def test_a_password_of_an_old_version(process: BrokerProcess, version: str | None, algorithm: str) -> None:
    """Files from before 3.6 do not name the hashing algorithm, which was MD5."""
    salt, password = b"salt", b"secret"
    hashed = base64.b64encode(salt + hashlib.new(algorithm, salt + password).digest()).decode()
    user = {"name": f"of {version}", "password_hash": hashed, "tags": "administrator"}
    permission = {"user": user["name"], "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    said = {} if version is None else {"rabbit_version": version}
    imported(process, **said, users=[user], permissions=[permission])
    logged_in(process, user["name"], "secret")


def test_the_version_may_be_anywhere_in_a_request() -> None:
    """The API reads a file as it comes in."""
    for body in (b'{"rabbit_version": "3.5.7", "users": []}', b'{"users": [], "rabbit_version": "3.5.7"}'):
        assert trio.run(read_definitions, BodyParts(body)).rabbit_version == "3.5.7"
    assert trio.run(read_definitions, BodyParts(b'{"rabbit_version": [3, 5]}')).rabbit_version == ""


@pytest.mark.parametrize(("name", "value", "protocol"), [("one", AMQP_1_0, "amqp10"), ("two", LOCAL, "local")])
def test_a_shovel_of_another_protocol_is_kept(
    process: BrokerProcess, name: str, value: dict[str, Any], protocol: str
) -> None:
    """It is exported again, and its status and the log say that it does not run."""
    parameter = {"vhost": "/", "component": "shovel", "name": name, "value": value}
    imported(process, parameters=[parameter])
    (row,) = [row for row in process.tell("list_shovels") if row["name"] == name]
    reason = f"protocol {protocol} is not spoken here, only amqp091: the shovel is kept and does not run"
    assert (row["state"], row["reason"]) == ("terminated", reason)
    assert process.log().count(f"shovel '{name}': {reason}") == 1
    assert parameter in process.tell("export_definitions")["parameters"]
    process.tell("clear_parameter", vhost="/", component="shovel", name=name)
    assert name not in [row["name"] for row in process.tell("list_shovels")]


def test_every_field_of_a_virtual_host_that_exists(process: BrokerProcess) -> None:
    """The default queue type is in tests/conformance/queues/test_default_queue_types.py."""

    def shown() -> dict[str, Any]:
        return next(row for row in process.tell("list_vhosts") if row["name"] == "v")

    metadata = {"description": "first", "tags": ["a"], "default_queue_type": "undefined"}
    imported(process, vhosts=[{"name": "v", "metadata": metadata, "tracing": True}])
    assert (shown()["description"], shown()["tags"], shown()["tracing"]) == ("first", ["a"], True)
    imported(process, vhosts=[{"name": "v", "metadata": {"description": "second", "tags": "b,c"}, "limits": []}])
    assert (shown()["description"], shown()["tags"], shown()["tracing"]) == ("second", ["b", "c"], True)
    imported(process, vhosts=[{"name": "v", "description": "third", "tracing": False}])
    assert (shown()["description"], shown()["tracing"]) == ("third", False)


def test_a_directory_of_files(tmp_path: Path) -> None:
    """All are read, in the order of their names: each may refer to others."""
    directory = tmp_path / "definitions.d"
    directory.mkdir()
    permission = {"user": "ann", "vhost": "west", "configure": ".*", "write": ".*", "read": ".*"}
    (directory / "10-access.json").write_text(json.dumps({"permissions": [permission]}))
    (directory / "20-users.json").write_text(json.dumps({"users": [{"name": "ann", "password": "x", "tags": ""}]}))
    (directory / "30-hosts.json").write_text(json.dumps({"vhosts": [{"name": "west"}]}))
    process = BrokerProcess(tmp_path / "data", "--definitions", str(directory))
    process.start()
    Client.connect(process.address, user="ann", password="x", vhost="west").close()
    process.stop()
