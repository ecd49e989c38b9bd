"""Our own routes: what is at risk, messages moved, streams read, tracing live; and what the page says to browsers."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.management.application import UnknownRoute, with_prefix
from broker.wire.field_tables import from_python
from broker.wire.methods import BasicGetOk, ConfirmSelect, TxSelect
from broker.wire.properties import BasicProperties, decode_properties
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import GUEST, SECONDS, ask, basic, web_address, web_broker
from harness.clients.shorthand import get, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually

pytestmark = pytest.mark.slow

PERSISTENT = BasicProperties(delivery_mode=2, headers=from_python({"CC": ["copies"], "n": 1}))


class Site(NamedTuple):
    """A broker, a client of it, and its API."""

    broker: BrokerProcess
    client: Client
    address: tuple[str, int]

    def send(self, method: str, path: str, body: Any = None, user: str = GUEST) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        reply = ask(self.address, f"/api/leveret/{path}", method=method, user=user, body=data)
        return reply.status, json.loads(reply.body) if reply.body else None

    def filled(self, queue: str, messages: int, arguments: dict[str, Any] | None = None) -> None:
        """Declare a durable queue, and publish persistent messages to it that are numbered."""
        self.client.ask(queue_declare(queue, durable=True, arguments=arguments))
        for number in range(messages):
            self.client.publish(b"%d" % number, key=queue, properties=PERSISTENT)
        self.depth(queue)

    def depth(self, queue: str, client: Client | None = None) -> int:
        return int((client or self.client).ask(queue_declare(queue, passive=True)).message_count)


@contextmanager
def served(broker: BrokerProcess) -> Iterator[Site]:
    """A broker with users of several tags, until the end of the block."""
    broker.start()
    for user, tag in (("mgmt", "management"), ("mon", "monitoring"), ("out", "management")):
        broker.tell("add_user", name=user, password="p", tags=[tag])
        if user != "out":
            broker.tell("set_permissions", user=user, vhost="/", configure="^$", write="^w", read="^(r|from)")
    client = Client.connect(broker.address)
    yield Site(broker, client, web_address(broker))
    client.close()
    assert broker.stop() == 0, broker.log()
    assert "Traceback" not in broker.log()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(web_broker(tmp_path_factory.mktemp("site"))) as site:
        yield site


@pytest.mark.parametrize(
    ("request_line", "statuses"),  # of an administrator, of monitoring, of management, of one who may not enter
    [
        ("GET permissions", [200, 200, 200, 200]),
        ("GET permissions/%2F/q", [200, 200, 200, 401]),
        ("GET permissions/nowhere/q", [404, 404, 404, 404]),
        ("GET alarms", [200, 200, 401, 401]),
        ("GET unconfirmed", [200, 200, 401, 401]),
        ("GET commits", [200, 200, 401, 401]),
        ("GET backups", [200, 401, 401, 401]),
        ("POST backups", [400, 401, 401, 401]),
        ("POST move/%2F/q", [400, 400, 400, 401]),
        ("POST streams/%2F/q", [400, 400, 400, 401]),
        ("POST trace/nowhere", [404, 401, 401, 401]),
        ("POST trace/%2F", [200, 401, 401, 401]),
    ],
)
def test_who_may_ask_what(site: Site, request_line: str, statuses: list[int]) -> None:
    method, path = request_line.split()
    users = [GUEST, "mon:p", "mgmt:p", "out:p"]
    if request_line == "POST trace/%2F":  # the answer to an administrator has no end: see below
        users, statuses = users[1:], statuses[1:]
    assert [site.send(method, path, {}, user)[0] for user in users] == statuses


def test_a_user_sees_its_own_permissions(site: Site) -> None:
    mine = {"vhost": "/", "configure": "^$", "write": "^w", "read": "^(r|from)"}
    assert site.send("GET", "permissions", user="mgmt:p") == (200, [mine])
    for name, expected in (("r1", [False, False, True, False]), ("w1", [False, True, False, False])):
        status, found = site.send("GET", f"permissions/%2F/{name}", user="mgmt:p")
        assert (status, list(found.values())) == (200, expected)


# Backups


def test_the_page_makes_backups_and_keeps_the_newest(tmp_path: Path) -> None:
    settings = f"[backup]\ndirectory = '{tmp_path / 'backups'}'\nkeep = 2\n"
    with served(web_broker(tmp_path, settings)) as site:
        assert site.send("GET", "backups")[1]["backups"] == []
        made = [site.send("POST", "backups")[1] for _ in range(3)]
        assert [each["deleted"] for each in made] == [[], [], [made[0]["name"]]]
        found = site.send("GET", "backups")[1]
    assert [row["name"] for row in found["backups"]] == [made[2]["name"], made[1]["name"]]
    assert all(row["bytes"] > 0 and abs(row["time"] - time.time()) < 600 for row in found["backups"])


# Moving


@pytest.fixture
def own_site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A broker for one test, with the settings that it is given."""
    with served(web_broker(tmp_path, getattr(request, "param", ""))) as site:
        yield site


def test_moved_messages_keep_their_order_and_are_in_one_place_after_a_crash(own_site: Site) -> None:
    site = own_site
    site.filled("copies", 0)
    site.filled("from", 600)
    site.filled("to", 1, {"x-queue-type": "quorum"})
    assert site.send("POST", "move/%2F/from", {"to": "to", "count": 450}) == (200, {"moved": 450})
    site.broker.kill_and_restart()
    client = Client.connect(site.broker.address)
    assert [site.depth(name, client) for name in ("from", "to", "copies")] == [150, 451, 601]
    client.send(*[get("to", no_ack=True)] * 451)
    messages = [client.expect_message(BasicGetOk) for _ in range(451)]
    assert [int(message.body) for message in messages] == [0, *range(450)]
    assert {message.method.routing_key for message in messages[1:]} == {"from"}
    assert all({"CC", "n"} <= (decode_properties(message.header).headers or {}).keys() for message in messages)
    client.close()


@pytest.mark.parametrize(
    ("source", "body", "user", "status"),
    [
        ("from", {"to": "nowhere", "count": 1}, GUEST, 404),
        ("nowhere", {"to": "full", "count": 1}, GUEST, 404),
        ("from", {"to": "from", "count": 1}, GUEST, 400),
        ("from", {"to": "full", "count": "x"}, GUEST, 400),
        ("log", {"to": "full", "count": 1}, GUEST, 400),
        ("from", {"to": "full", "count": 1}, "mgmt:p", 401),
        ("from", {"to": "full", "count": -1}, GUEST, 200),
    ],
)
def test_what_cannot_be_moved(site: Site, source: str, body: dict[str, Any], user: str, status: int) -> None:
    site.filled("from", 0)
    site.filled("full", 0, {"x-max-length": 3, "x-overflow": "reject-publish"})
    site.filled("log", 0, {"x-queue-type": "stream"})
    assert site.send("POST", f"move/%2F/{source}", body, user)[0] == status


def test_what_the_target_refuses_stays(site: Site) -> None:
    site.filled("many", 5)
    site.filled("few", 0, {"x-max-length": 3, "x-overflow": "reject-publish"})
    assert site.send("POST", "move/%2F/many", {"to": "few", "count": 5}) == (200, {"moved": 3})
    assert site.depth("many") == 2


# Streams


def test_a_stream_is_read_from_any_place(site: Site) -> None:
    site.filled("events", 30, {"x-queue-type": "stream"})
    eventually(lambda: len(read(site, "first", 100)) == 30, "everything to be on disk")
    assert read(site, 5, 10) == list(range(5, 15))
    assert read(site, "first", 3) == [0, 1, 2]
    assert read(site, 30, 3) == read(site, 10**12, 3) == []
    status, (message,) = site.send("POST", "streams/%2F/events", {"offset": 7, "count": 1, "truncate": 0})
    assert (status, message["payload"], message["payload_bytes"], message["routing_key"]) == (200, "", 1, "events")
    assert message["properties"]["headers"] == {"CC": ["copies"], "n": 1}
    for refused in ({"offset": "yesterday", "count": 1}, {"offset": 1, "count": 0}, {"offset": [], "count": 1}):
        assert site.send("POST", "streams/%2F/events", refused)[0] == 400
    assert site.send("POST", "streams/%2F/from", {"offset": 0, "count": 1})[0] in (400, 404)


def test_groups_commit_offsets_in_streams(own_site: Site) -> None:
    """They and their lag are in the stream's row, also after a crash, and go with the stream."""
    site = own_site
    for name in ("read", "log"):
        site.filled(name, 10, {"x-queue-type": "stream"})
    eventually(lambda: len(read(site, "first", 100, "log")) == 10, "everything to be on disk")
    assert site.send("GET", "stream-offsets") == (200, [])
    put = {"offsets": {"log": 4, "read": 10}}
    assert site.send("PUT", "stream-offsets/%2F/billing%2F1", put)[0] == 204
    assert site.send("PUT", "stream-offsets/%2F/other", {"offsets": {"read": 2}}, "mgmt:p")[0] == 204
    site.broker.kill_and_restart()
    site = site._replace(address=web_address(site.broker))
    assert [(row["queue"], row["group"], row["offset"], row["lag"]) for row in committed(site)] == [
        ("read", "billing/1", 10, 0),
        ("read", "other", 2, 8),
        ("log", "billing/1", 4, 6),
    ]
    row = json.loads(ask(site.address, "/api/queues/%2F/log").body)["committed_offsets"]
    assert [(each["group"], each["offset"], each["lag"]) for each in row] == [("billing/1", 4, 6)]
    assert site.send("DELETE", "stream-offsets/%2F/other")[0] == 204
    assert site.send("DELETE", "stream-offsets/%2F/other")[0] == 404
    ask(site.address, "/api/queues/%2F/read", method="DELETE")
    assert [row["queue"] for row in committed(site)] == ["log"]


def committed(site: Site) -> list[dict[str, Any]]:
    status, rows = site.send("GET", "stream-offsets/%2F")
    assert status == 200
    return list(rows)


@pytest.mark.parametrize(
    ("body", "user", "status", "words"),
    [
        ({"offsets": {"nowhere": 1}}, GUEST, 400, "there is no stream 'nowhere' in vhost '/'"),
        ({"offsets": {"rlog": -1}}, GUEST, 400, "rlog has a number from 0 to 9223372036854775807"),
        ({"offsets": {"rlog": "5"}}, GUEST, 400, "rlog has a number"),
        ({"offsets": {"log": 1}}, "mgmt:p", 401, "Access refused"),
        ({"offsets": {"rlog": 1}}, "out:p", 401, "User not authorised"),
        ({}, GUEST, 400, "key_missing,offsets"),
    ],
)
def test_offsets_that_are_refused(site: Site, body: dict[str, Any], user: str, status: int, words: str) -> None:
    for name in ("log", "rlog"):
        site.filled(name, 0, {"x-queue-type": "stream"})
    found, answer = site.send("PUT", "stream-offsets/%2F/g", body, user)
    assert (found, words in answer["reason"]) == (status, True), answer


def test_groups_of_a_stream_have_a_limit(site: Site) -> None:
    site.filled("crowded", 0, {"x-queue-type": "stream"})
    path = "stream-offsets/%2F/"
    for number in range(255):
        assert site.send("PUT", f"{path}{number}", {"offsets": {"crowded": 0}})[0] == 204
    status, answer = site.send("PUT", f"{path}one-more", {"offsets": {"crowded": 0}})
    assert (status, "committed offsets of 255 groups; the limit is 255" in answer["reason"]) == (400, True), answer
    assert site.send("PUT", f"{path}7", {"offsets": {"crowded": 1}})[0] == 204


def read(site: Site, offset: int | str, count: int, stream: str = "events") -> list[int]:
    status, messages = site.send("POST", f"streams/%2F/{stream}", {"offset": offset, "count": count})
    assert status == 200, messages
    assert all(message["payload"] == str(message["offset"]) for message in messages)
    return [message["offset"] for message in messages]


# At risk


def test_what_a_crash_would_undo(site: Site) -> None:
    publisher = Client.connect(site.broker.address, channels=(1, 2))
    publisher.ask(TxSelect(), channel=2)
    publisher.ask(queue_declare("transient"))
    before = site.send("GET", "unconfirmed")[1]
    publisher.publish(b"in memory", key="transient")
    for _ in range(3):
        publisher.publish(b"not committed", key="transient", channel=2)
    publisher.send(get("transient"))
    publisher.receive()
    site.depth("transient", publisher)
    publisher.ask(queue_declare("transient", passive=True), channel=2)
    now = site.send("GET", "unconfirmed")[1]
    assert [now[key] - before[key] for key in ("transient", "unacknowledged", "uncommitted")] == [1, 1, 3]
    (row,) = now["connections"]
    assert (row["user"], row["uncommitted"], row["unconfirmed"], now["publishers"]) == ("guest", 3, 0, 1)
    publisher.close()


def test_each_commit_is_in_the_histograms(site: Site) -> None:
    def counted() -> dict[str, Any]:
        return {name: each["count"] for name, each in site.send("GET", "commits")[1]["histograms"].items()}

    before = counted()
    site.filled("committed", 5)
    eventually(lambda: counted()["commit_messages"] > before["commit_messages"], "a commit to be gathered")
    for each in site.send("GET", "commits")[1]["histograms"].values():
        below = [count for _, count in each["buckets"]]
        assert (each["buckets"][-1], below) == ([None, each["count"]], sorted(below))


@pytest.mark.parametrize("own_site", ["[memory]\nhigh_watermark_bytes = 1\n"], indirect=True)
def test_publishers_that_an_alarm_holds(own_site: Site) -> None:
    site = own_site
    eventually(lambda: site.send("GET", "alarms")[1]["memory"]["raised"], "the alarm")
    for queue in ("q", "other"):
        site.client.ask(queue_declare(queue, durable=True))
    site.client.ask(ConfirmSelect(no_wait=False))
    site.client.publish(b"held", key="q", properties=PERSISTENT)
    alarms = eventually(lambda: (found := site.send("GET", "alarms")[1])["held"] and found, "a publisher to be held")
    assert (alarms["reason"], alarms["held_connections"], alarms["disk"]["raised"]) == ("low on memory", 1, False)
    assert alarms["held"][0]["blocked"]
    assert alarms["held"][0]["held_bytes"] > 0
    assert site.send("GET", "unconfirmed")[1]["unconfirmed"] == 1
    assert site.send("POST", "move/%2F/q", {"to": "q", "count": 1})[0] == 400
    assert site.send("POST", "move/%2F/q", {"to": "other", "count": 1})[0] == 503


# Tracing


def test_tracing_lasts_as_long_as_somebody_listens(site: Site) -> None:
    def traced() -> bool:
        return any(vhost["tracing"] for vhost in site.broker.tell("list_vhosts"))

    listening = http.client.HTTPConnection(*site.address, timeout=SECONDS)
    listening.request("POST", "/api/leveret/trace/%2F?pattern=%23", headers=basic())
    lines = listening.getresponse()
    assert (lines.status, traced()) == (200, True)
    site.filled("seen", 1)
    site.client.send(get("seen", no_ack=True))
    site.client.receive()
    found: list[dict[str, Any]] = []
    while not {"publish", "deliver"} <= {record.get("kind") for record in found}:
        found.append(json.loads(lines.readline()))
    published = next(record for record in found if record.get("kind") == "publish")
    assert {key: published[key] for key in ("key", "exchange", "routing_keys", "user", "payload", "payload_bytes")} == {
        "key": "publish.",
        "exchange": "",
        "routing_keys": ["seen", "copies"],
        "user": "guest",
        "payload": "0",
        "payload_bytes": 1,
    }
    assert next(record for record in found if record.get("kind") == "deliver")["queue"] == "seen"
    listening.close()
    eventually(lambda: not traced(), "tracing to end with its listener")


# The page


@pytest.mark.parametrize(
    ("path", "reached"),
    [("/mq", "301 /mq/"), ("/mq/", "/"), ("/mq/api/queues/", "/api/queues"), ("/mqx/", "404"), ("/", "404")],
)
async def test_everything_is_below_the_prefix(path: str, reached: str) -> None:
    found: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found.append(scope["path"])

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            location = dict(message["headers"]).get(b"location", b"").decode()
            found.append(f"{message['status']} {location}".strip())

    prefixed = with_prefix("/mq", app, UnknownRoute(as_4=False))
    await prefixed({"type": "http", "method": "GET", "path": path}, _nothing, send)
    assert found == [reached]


async def _nothing() -> Any:
    raise AssertionError("no body is read")


def test_the_page_may_load_its_own_files_and_nothing_else(site: Site) -> None:
    for path in ("/", "/script/main.js", "/style/theme.css", "/icon.svg"):
        headers = ask(site.address, path, user=None).headers
        assert "default-src 'none'; script-src 'self';" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert (headers["x-frame-options"], headers["referrer-policy"]) == ("DENY", "no-referrer")
    unchanged = ask(site.address, "/", user=None, If_None_Match=ask(site.address, "/", user=None).headers["etag"])
    assert unchanged.status == 304
    for path in ("/script/", "/none.js", "/..%2fcall.py", "/%00", "/api/none"):
        assert ask(site.address, path, user=None).status == 404
    policy = ask(site.address, "/api/whoami").headers["content-security-policy"]
    assert "'unsafe-eval'" in policy, "what RabbitMQ's page needs"
