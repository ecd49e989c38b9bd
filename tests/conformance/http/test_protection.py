"""Virtual hosts that are protected from deletion, and users that the HTTP API may not change: since 4.0 and 4.2.

Measured on RabbitMQ 4.3.6; 3.13 knows neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import Reply, ask, web_address, web_broker
from harness.brokers.rabbitmq_reference import REFERENCE

pytestmark = pytest.mark.skipif(bool(REFERENCE), reason="a RabbitMQ has one personality")

SETTINGS = '[identity]\npersonality = "{}"\n'
PROTECTED = {"metadata": {"description": "", "tags": [], "protected_from_deletion": True}}


@pytest.fixture(scope="module")
def of_4_3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = web_broker(tmp_path_factory.mktemp("protection"), SETTINGS.format("4.3"))
    process.start()
    yield process
    process.stop()


def request(process: BrokerProcess, method: str, path: str, body: object = None) -> Reply:
    sent = b"" if body is None else json.dumps(body).encode()
    return ask(web_address(process), f"/api/{path}", method=method, body=sent, content_type="application/json")


def refusal(reply: Reply) -> tuple[int, str, str]:
    found = json.loads(reply.body)
    return reply.status, found["error"], found["reason"]


def row(process: BrokerProcess, vhost: str) -> Any:
    return json.loads(request(process, "GET", f"vhosts/{vhost}").body)


def test_a_protected_virtual_host_is_not_deleted(of_4_3: BrokerProcess) -> None:
    """Until its protection is lifted. What is put does not change it, and says nothing of it."""
    assert request(of_4_3, "PUT", "vhosts/kept", {"protected_from_deletion": True}).status == 201
    assert row(of_4_3, "kept")["protected_from_deletion"] is False
    assert "protected_from_deletion" not in row(of_4_3, "kept")["metadata"]
    of_4_3.tell("update_vhost", name="kept", protected_from_deletion=True)
    assert request(of_4_3, "PUT", "vhosts/kept", {"description": "again"}).status == 204
    text = "Refusing to delete virtual host 'kept' because it is protected from deletion"
    assert refusal(request(of_4_3, "DELETE", "vhosts/kept")) == (412, "precondition_failed", text)
    assert row(of_4_3, "kept")["protected_from_deletion"] is True
    of_4_3.tell("update_vhost", name="kept", protected_from_deletion=False)
    assert row(of_4_3, "kept")["metadata"]["protected_from_deletion"] is False
    assert request(of_4_3, "DELETE", "vhosts/kept").status == 204


def test_definitions_carry_the_protection(of_4_3: BrokerProcess) -> None:
    """In `metadata` alone. A file that says nothing of it leaves it."""
    vhosts = [{"name": "carried", **PROTECTED}, {"name": "bare", "protected_from_deletion": True}]
    assert request(of_4_3, "POST", "definitions", {"vhosts": vhosts}).status == 204
    assert request(of_4_3, "POST", "definitions", {"vhosts": [{"name": "carried"}]}).status == 204
    exported = {each["name"]: each["metadata"] for each in of_4_3.tell("export_definitions")["vhosts"]}
    assert exported["carried"]["protected_from_deletion"] is True
    assert "protected_from_deletion" not in exported["bare"]
    assert [request(of_4_3, "DELETE", f"vhosts/{name}").status for name in ("carried", "bare")] == [412, 204]


def test_3_13_deletes_what_4_3_protected(tmp_path: Path) -> None:
    process = web_broker(tmp_path, SETTINGS.format("4.3"))
    process.start()
    process.tell("import_definitions", definitions={"vhosts": [{"name": "kept", **PROTECTED}]})
    process.stop()
    settings = tmp_path / "web.toml"
    settings.write_text(settings.read_text().replace('"4.3"', '"3.13"'))
    process.start()
    assert "protected_from_deletion" not in row(process, "kept")
    assert request(process, "DELETE", "vhosts/kept").status == 204
    process.stop()


def test_a_protected_user_is_changed_by_the_command_line_alone(of_4_3: BrokerProcess) -> None:
    text = "Protected users cannot be modified via the HTTP API"
    for user, tags in (("anna", "protected"), ("bert", "")):
        assert request(of_4_3, "PUT", f"users/{user}", {"password": "x", "tags": tags}).status == 201
    assert refusal(request(of_4_3, "PUT", "users/anna", {"password": "y", "tags": ""})) == (400, "bad_request", text)
    assert refusal(request(of_4_3, "DELETE", "users/anna")) == (400, "bad_request", text)
    assert request(of_4_3, "POST", "users/bulk-delete", {"users": ["anna", "bert"]}).status == 204
    assert {user["name"] for user in of_4_3.tell("list_users", columns=["name"])} == {"guest", "anna"}
    of_4_3.tell("set_user_tags", name="anna", tags=[])
    assert request(of_4_3, "DELETE", "users/anna").status == 204
    of_4_3.tell("add_user", name="anna", password="x", tags=["protected"])
    of_4_3.tell("delete_user", name="anna")
