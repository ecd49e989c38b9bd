"""Default queue types of virtual hosts and of the node, by personality.

4.3 as measured on RabbitMQ 4.3.6; 3.13 from the sources v3.13.7; 3.10, which ignores most of it, is in
tests/unit/admin/test_vhost_settings.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import Reply, ask, web_address, web_broker
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client

pytestmark = pytest.mark.skipif(bool(REFERENCE), reason="the node's default is a setting")

SETTINGS = '[identity]\npersonality = "{}"\n[defaults]\nqueue_type = "{}"\n'
CLASSIC, QUORUM, STREAM = ({"x-queue-type": name} for name in ("classic", "quorum", "stream"))


class Host:
    """A broker of a personality, and requests to its API."""

    def __init__(self, process: BrokerProcess, personality: str) -> None:
        self.process = process
        self.of_4 = personality.startswith("4")

    def request(self, method: str, path: str, body: object = None) -> Reply:
        sent = b"" if body is None else json.dumps(body).encode()
        return ask(web_address(self.process), f"/api/{path}", method=method, body=sent, content_type="application/json")

    def get(self, path: str) -> Any:
        return json.loads(self.request("GET", path).body)

    def shown(self, vhost: str) -> tuple[str, str | None]:
        """The default queue type in the row of a virtual host, and in its metadata."""
        row = self.get(f"vhosts/{vhost}")
        return row["default_queue_type"], row["metadata"].get("default_queue_type")

    def declared(self, vhost: str) -> dict[str, dict[str, str]]:
        """Declare queues of four kinds, and return the arguments of each."""
        client = Client.connect(self.process.address, vhost=vhost)
        client.ask(queue_declare("durable", durable=True))
        client.ask(queue_declare("auto", durable=True, auto_delete=True))
        client.ask(queue_declare("mine", exclusive=True))
        client.ask(queue_declare("told", durable=True, arguments=STREAM))
        client.ask(queue_declare("durable", durable=True))
        rows = self.get(f"queues/{vhost}?columns=name,type,arguments")
        client.close()
        for row in rows:
            assert row["arguments"].get("x-queue-type", "classic") == row["type"]
        return {row["name"]: row["arguments"] for row in rows}


@pytest.fixture(scope="module", params=[("3.13", ""), ("3.13", "quorum"), ("4.3", "classic"), ("4.3", "quorum")])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, str]]:
    personality, node_type = request.param
    process = web_broker(tmp_path_factory.mktemp("types"), SETTINGS.format(personality, node_type))
    process.start()
    yield Host(process, personality), node_type
    process.stop()


def test_a_virtual_host_without_a_type_has_the_nodes(host: tuple[Host, str]) -> None:
    """4.x shows it, and adds the argument to each queue; 3.x where a default was chosen."""
    of, node_type = host
    assert of.request("PUT", "vhosts/plain", {}).status == 201
    assert of.shown("plain") == ((node_type, node_type) if of.of_4 else ("undefined", None))
    assert of.shown("%2F") == of.shown("plain")
    added = {"x-queue-type": node_type} if node_type else {}
    fallback = CLASSIC if node_type else {}
    assert of.declared("plain") == {"durable": added, "auto": fallback, "mine": fallback, "told": STREAM}


def test_a_type_of_its_own(host: tuple[Host, str]) -> None:
    """Queues that cannot be of it are classic, and say so. It has to be said again with each change over HTTP."""
    of, node_type = host
    assert of.request("PUT", "vhosts/own", {"default_queue_type": "quorum"}).status == 201
    assert of.shown("own") == ("quorum", "quorum")
    assert of.declared("own") == {"durable": QUORUM, "auto": CLASSIC, "mine": CLASSIC, "told": STREAM}
    assert of.request("PUT", "vhosts/own", {"description": "without a type"}).status == 204
    assert of.shown("own") == ((node_type, node_type) if of.of_4 else ("undefined", None))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("nope", "nope is not a valid queue type"),
        ("", "default_queue_type must not be an empty string"),
        (5, "5 is not a valid default_queue_type value"),
        (True, "true is not a valid queue type"),
        ({"a": [1, "b"]}, '#{<<"a">> => [1,<<"b">>]} is not a valid default_queue_type value'),
    ],
)
def test_a_type_that_is_none(host: tuple[Host, str], given: object, reason: str) -> None:
    of, _ = host
    reply = of.request("PUT", "vhosts/refused", {"default_queue_type": given})
    if of.of_4:
        assert (reply.status, json.loads(reply.body)["reason"]) == (400, reason)
    else:
        assert reply.status == (400 if given else 201)


def test_definitions_bring_the_type_of_a_virtual_host_that_exists(host: tuple[Host, str]) -> None:
    """As the file of a 4.x node whose `/` says quorum; its queues without a type are of it."""
    of, _ = host
    of.request("PUT", "vhosts/there", {"default_queue_type": "stream"})
    for vhost in ("there", "new"):
        metadata = {"description": "d", "tags": [], "default_queue_type": "quorum"}
        queue = {"name": "q", "vhost": vhost, "durable": True, "auto_delete": False, "arguments": {}}
        definitions = {"vhosts": [{"name": vhost, "metadata": metadata}], "queues": [queue]}
        assert of.request("POST", "definitions", definitions).status == 204
        assert of.shown(vhost) == ("quorum", "quorum")
        assert of.get(f"queues/{vhost}/q?columns=type,arguments") == {"type": "quorum", "arguments": QUORUM}
    assert of.request("POST", "definitions", {"vhosts": [{"name": "there"}]}).status == 204
    assert of.shown("there") == ("quorum", "quorum")
    refused = {"vhosts": [{"name": "bad", "metadata": {"default_queue_type": "nope"}}]}
    assert of.request("POST", "definitions", refused).status == 400


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("nope", "nope is not a valid queue type"),
        (5, "badarg"),
        (False, "false is not a valid queue type"),
        (["nope"], "nope is not a valid queue type"),
    ],
)
def test_a_type_of_definitions_that_is_none(host: tuple[Host, str], given: object, reason: str) -> None:
    of, _ = host
    reply = of.request("POST", "definitions", {"vhosts": [{"name": "bad", "metadata": {"default_queue_type": given}}]})
    assert reply.status == 400
    if of.of_4:
        assert json.loads(reply.body)["reason"] == reason


def test_where_definitions_have_a_description(host: tuple[Host, str]) -> None:
    """4.3: the one in `metadata` counts, and a queue type beside it is not looked at. It may be a module's name."""
    of, node_type = host
    beside = {"name": "two", "description": "beside", "default_queue_type": "stream"}
    definitions = {"vhosts": [beside | {"metadata": {"description": "within"}}]}
    assert of.request("POST", "definitions", definitions).status == 204
    assert of.shown("two") == ((node_type, node_type) if of.of_4 else ("stream", "stream"))
    assert of.get("vhosts/two")["description"] == ("within" if of.of_4 else "beside")
    put = of.request("PUT", "vhosts/two", {"default_queue_type": "rabbit_quorum_queue"})
    assert (put.status, of.shown("two")[0]) == ((204, "quorum") if of.of_4 else (400, "stream"))


def test_a_queue_that_the_type_does_not_take(host: tuple[Host, str]) -> None:
    """Nothing of the queue is made where the type of a virtual host in the same file refuses its arguments."""
    of, _ = host
    queue = {"name": "q", "vhost": "both", "durable": True, "arguments": {"x-max-priority": 5}}
    vhost = {"name": "both", "metadata": {"default_queue_type": "quorum"}}
    reply = of.request("POST", "definitions", {"vhosts": [vhost], "queues": [queue]})
    assert reply.status == 400
    assert "invalid arg 'x-max-priority' for queue 'q'" in json.loads(reply.body)["reason"]
    assert of.get("queues/both") == []


def test_the_type_survives_a_restart_under_another_default(host: tuple[Host, str]) -> None:
    """4.x keeps what the virtual host was made with."""
    of, _ = host
    if of.of_4:
        of.request("PUT", "vhosts/kept", {})
        shown = of.shown("kept")
        of.process.kill_and_restart()
        assert of.shown("kept") == shown
