"""The API of the broker under test, ours or a RabbitMQ's, and a virtual host in it for each test."""

from __future__ import annotations

import json
import re

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import Reply, ask, web_address
from harness.brokers.rabbitmq_reference import REFERENCE, REFERENCE_HTTP
from harness.clients.wire_client import Address
from tests.conformance.http.request_table import Request, Send

VHOST = "v/1"
LONG = "l" * 256
"""Value of `{long}` in a table: one byte more than a name may have. `{node}` and `{port}` are the broker's."""
FIELD = re.compile(rb"\w+=")
"""Beginning of a body that is a form, and not JSON."""
FORM = "application/x-www-form-urlencoded"
TAGS = {"lim": ["management"], "no": ["management"], "plain": []}
"""Users of the tables. `lim` may enter the virtual host and do nothing there, `no` may not enter it."""
NOTHING = "^$"


@pytest.fixture(scope="module")
def shared_process(web_process: BrokerProcess) -> BrokerProcess:
    """Clients speak to the broker that has the API."""
    return web_process


@pytest.fixture
def send(request: pytest.FixtureRequest, broker: Address) -> Send:
    """A function that sends a request of a table, in a virtual host that is empty at first."""
    if REFERENCE:
        if not REFERENCE_HTTP:
            pytest.skip("LEVERET_REFERENCE_HTTP does not say where RabbitMQ's API is")
        host, _, port = REFERENCE_HTTP.rpartition(":")
        address = host, int(port)
        _prepare_by_http(address)
    else:
        process: BrokerProcess = request.getfixturevalue("web_process")
        address = web_address(process)
        _prepare(process)

    node = json.loads(ask(address, "/api/overview?columns=node").body)["node"]

    def sent(asked: Request) -> Reply:
        path = asked.path.replace("{long}", LONG).replace("{node}", node).replace("{port}", str(broker[1]))
        user = f"{asked.user}:{asked.user}" if asked.user else None
        body = asked.body and asked.body.replace(b"{node}", node.encode()).replace(b"{long}", LONG.encode())
        form = FORM if body and FIELD.match(body) else "application/json"
        return ask(address, f"/api/{path}", method=asked.method, user=user, body=body, Content_Type=form)

    return sent


def _prepare(process: BrokerProcess) -> None:
    if any(vhost["name"] == VHOST for vhost in process.tell("list_vhosts")):
        process.tell("delete_vhost", name=VHOST)
    process.tell("add_vhost", name=VHOST, description="", tags=[], default_queue_type="")
    process.tell("set_permissions", user="guest", vhost=VHOST, configure=".*", write=".*", read=".*")
    known = {user["name"] for user in process.tell("list_users")}
    for name, tags in TAGS.items():
        if name not in known:
            process.tell("add_user", name=name, password=name, tags=tags)
    process.tell("set_permissions", user="lim", vhost=VHOST, configure=NOTHING, write=NOTHING, read=NOTHING)


def _prepare_by_http(address: Address) -> None:
    def change(method: str, path: str, **body: object) -> None:
        ask(address, f"/api/{path}", method=method, body=json.dumps(body).encode())

    change("DELETE", "vhosts/v%2F1")
    change("PUT", "vhosts/v%2F1")
    for name, tags in TAGS.items():
        change("PUT", f"users/{name}", password=name, tags=",".join(tags))
    change("PUT", "permissions/v%2F1/lim", configure=NOTHING, write=NOTHING, read=NOTHING)
