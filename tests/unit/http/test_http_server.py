"""The event log by HTTP: what is served, to whom, and in which words. Those of refusals are RabbitMQ 3.10.8's.

They were asked of rabbitmq_management on 2026-11-21, with /api/nodes, which the same users may see.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.admin import protocol
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.certificate_authority import Authority
from harness.brokers.http_broker import (
    GUEST,
    Caller,
    Reply,
    ask,
    basic,
    reply_of,
    request,
    web_address,
    web_broker,
    write_segments,
)
from harness.clients.wire_client import Address
from harness.process_figures import descriptors
from harness.project import ROOT
from harness.waiting import eventually

pytestmark = pytest.mark.slow

LARGE = 4 << 20
"""More than sockets take at once."""


def say(path: Path) -> str:
    return f"/api/events/{path.name}"


def reason(reply: Reply) -> tuple[int, dict[str, str]]:
    return reply.status, json.loads(reply.body)


class Site:
    """A broker with segments of two nodes: three boots of `one`, one of `two`, and a large segment of `zebra`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "events"
        self.files = [
            *write_segments(self.directory, "one", 1, 2, 1),
            *write_segments(self.directory, "one", 2, 3),
            *write_segments(self.directory, "one", 10, 1),
            *write_segments(self.directory, "two", 1, 1, 1),
            *write_segments(self.directory, "zebra", 1, 1, filling=noise(LARGE)),
        ]
        (self.directory / "_tmp.one-00000011-0000000000000001").write_bytes(b"half")
        (self.directory / "notes.txt").write_bytes(b"not a segment")
        (directory / "outside-00000001-0000000000000001-0000000000000001.events").write_bytes(b"secret")
        self.broker = web_broker(directory)
        self.broker.start()
        self.address = web_address(self.broker)
        for name, tags in (("plain", []), ("mgmt", ["management"]), ("pol", ["policymaker"]), ("mon", ["monitoring"])):
            user = {"name": name, "password": "p:ä", "tags": tags}
            protocol.ask(self.broker.data_dir, "add_user", user, 10)

    def ask(self, path: str, **options: Any) -> Reply:
        return ask(self.address, path, **options)

    def listed(self, query: str = "") -> list[dict[str, Any]]:
        reply = self.ask(f"/api/events{query}")
        assert reply.status == 200
        found: list[dict[str, Any]] = json.loads(reply.body)
        return found


def noise(size: int) -> bytes:
    """Bytes that do not compress."""
    return random.Random(1).randbytes(size)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"))
    yield site
    if site.broker.running:
        assert site.broker.stop() == 0


@pytest.fixture
def caller(site: Site) -> Iterator[Caller]:
    caller = Caller(site.address)
    yield caller
    caller.close()


# The list


def test_the_list_has_what_is_sealed_in_order(site: Site) -> None:
    listed = site.listed()
    assert [segment["name"] for segment in listed] == [path.name for path in site.files]
    for segment, path in zip(listed, site.files, strict=True):
        content = path.read_bytes()
        assert (segment["bytes"], segment["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert {key: listed[1][key] for key in ("node", "boot", "first", "last")} == {
        "node": "one",
        "boot": 1,
        "first": 3,
        "last": 3,
    }


def test_after_names_the_last_segment_of_each_node(site: Site) -> None:
    """As the offsets of the Spark source do. Of a node that is not named all segments are new."""
    one, two = site.files[2].name, site.files[4].name
    assert [each["name"] for each in site.listed(f"?after={one}")] == [path.name for path in site.files[3:]]
    behind = [path.name for path in (site.files[3], *site.files[5:])]
    assert [each["name"] for each in site.listed(f"?after={one}&after={two}")] == behind
    assert [each["name"] for each in site.listed(f"?after={site.files[0].name}&after={one}&after={two}")] == behind


def test_after_a_segment_that_has_gone(site: Site) -> None:
    gone = "one-00000005-0000000000000001-0000000000000009.events"
    assert [each["name"] for each in site.listed(f"?after={gone}")] == [path.name for path in site.files[3:]]


def test_pages_lead_through_all_nodes(site: Site) -> None:
    path, found = "/api/events?limit=2", []
    while path:
        reply = site.ask(path)
        page = json.loads(reply.body)
        assert 0 < len(page) <= 2
        found += [each["name"] for each in page]
        link = re.fullmatch(r'<(.*)>; rel="next"', reply.headers.get("link", ""))
        path = link[1] if link else ""
    assert found == [path.name for path in site.files]


def test_behind_the_newest_there_is_nothing(site: Site) -> None:
    query = "&".join(f"after={site.files[number].name}" for number in (3, 5, 6))
    reply = site.ask(f"/api/events?{query}")
    assert (reply.status, reply.body) == (200, b"[]")
    assert "link" not in reply.headers


@pytest.mark.parametrize(
    "query",
    ["after=notes.txt", "after=", "limit=0", "limit=1001", "limit=x", "limit=-1", "limit=٣", "afterr=x", "after", "&&"],
)
def test_parameters_that_mean_nothing_are_refused(site: Site, query: str) -> None:
    from urllib.parse import quote

    assert site.ask(f"/api/events?{quote(query, safe='=&')}").status == 400


# A segment


def test_a_segment_is_its_bytes(site: Site) -> None:
    for path in site.files:
        content = path.read_bytes()
        reply = site.ask(say(path))
        assert (reply.status, reply.body) == (200, content)
        assert reply.headers["content-length"] == str(len(content))
        assert reply.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
        assert reply.headers["accept-ranges"] == "bytes"


def test_head_says_the_same_without_the_bytes(site: Site) -> None:
    for path in (say(site.files[6]), "/api/events"):
        whole, head = site.ask(path), site.ask(path, method="HEAD")
        assert (head.status, head.body) == (200, b"")
        kept = {name: value for name, value in whole.headers.items() if name != "date"}
        assert kept == {name: value for name, value in head.headers.items() if name != "date"}


def test_who_has_it_is_told_so(site: Site) -> None:
    tag = site.ask(say(site.files[0])).headers["etag"]
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        reply = site.ask(say(site.files[0]), If_None_Match=known)
        assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", tag)
    assert site.ask(say(site.files[0]), If_None_Match='"x"').status == 200


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [("0-0", 0, 0), ("5-9", 5, 9), ("7-", 7, -1), ("-4", -4, -1), ("3-999999", 3, -1), ("-999999999", 0, -1)],
)
def test_a_range(site: Site, asked: str, first: int, last: int) -> None:
    content = site.files[0].read_bytes()
    first, last = first % len(content), last % len(content)
    reply = site.ask(say(site.files[0]), Range=f"bytes={asked}")
    assert (reply.status, reply.body) == (206, content[first : last + 1])
    assert reply.headers["content-range"] == f"bytes {first}-{last}/{len(content)}"


@pytest.mark.parametrize("asked", ["bytes=0-1,4-5", "lines=1-2", "bytes=", "bytes=-", "bytes=5-2", "bytes=x-1"])
def test_ranges_that_need_not_be_understood_are_none(site: Site, asked: str) -> None:
    """RFC 9110, 14.2 allows it."""
    assert site.ask(say(site.files[0]), Range=asked).status == 200


@pytest.mark.parametrize("asked", ["999999-", "999999-9999999", "-0"])
def test_a_range_behind_the_end(site: Site, asked: str) -> None:
    reply = site.ask(say(site.files[0]), Range=f"bytes={asked}")
    assert (reply.status, reply.headers["content-range"]) == (416, f"bytes */{site.files[0].stat().st_size}")


def test_a_range_of_what_it_was(site: Site) -> None:
    tag = site.ask(say(site.files[0])).headers["etag"]
    assert site.ask(say(site.files[0]), Range="bytes=1-2", If_Range=tag).status == 206
    assert site.ask(say(site.files[0]), Range="bytes=1-2", If_Range='"other"').status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/events/notes.txt",
        "/api/events/",
        "/api/events/_tmp.one-00000011-0000000000000001",
        "/api/events/one-00000099-0000000000000001-0000000000000001.events",
        "/api/events/../outside-00000001-0000000000000001-0000000000000001.events",
        "/api/events/..%2Foutside-00000001-0000000000000001-0000000000000001.events",
        "/api/events/%2e%2e%2foutside-00000001-0000000000000001-0000000000000001.events",
        "/api/events/..%5coutside-00000001-0000000000000001-0000000000000001.events",
        "/api/events/%2Fetc%2Fpasswd",
        "/api/events/one%00-00000001-0000000000000001-0000000000000002.events",
        "/api/events/one-00000001-0000000000000001-000000000000000٢.events".replace("٢", "%D9%A2"),
        "/api/events/" + "a" * 101 + "-00000001-0000000000000001-0000000000000002.events",
        "/api/events/" + "a" * 4000 + "-00000001-0000000000000001-0000000000000002.events",
        "/api/event",
        "/",
        "/api/events/x/y",
        "//api/events",
    ],
)
def test_what_is_no_segment_is_not_found(site: Site, path: str) -> None:
    assert reason(site.ask(path)) == (404, {"error": "Object Not Found", "reason": "Not Found"})


def test_a_segment_that_is_removed_while_it_is_fetched(site: Site, caller: Caller) -> None:
    (path,) = write_segments(site.directory, "brief", 1, 1, filling=noise(LARGE))
    content = path.read_bytes()
    caller.request(say(path))
    status, headers = caller.head()
    path.unlink()
    assert (status, caller.read(int(headers["content-length"]))) == (200, content)
    caller.request(say(path))
    assert caller.hear().status == 404


def test_a_client_that_goes_while_it_is_served(site: Site) -> None:
    before = descriptors(site.broker.pid)
    for _ in range(5):
        caller = Caller(site.address)
        caller.request(say(site.files[6]))
        assert caller.head()[0] == 200
        caller.close()
    eventually(lambda: descriptors(site.broker.pid) <= before, "sockets and files to be closed")
    assert site.ask(say(site.files[6])).body == site.files[6].read_bytes()


# Requests


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "FOO"])
def test_nothing_can_be_changed(site: Site, method: str) -> None:
    """RabbitMQ names OPTIONS too, and has 501 for a method that nobody knows."""
    reply = site.ask("/api/events", method=method)
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")


def test_connect_and_upgrades_lead_nowhere(caller: Caller) -> None:
    caller.say(b"CONNECT /api/events HTTP/1.1\r\nHost: broker\r\n\r\n")
    assert caller.hear().status == 405
    assert caller.ended()


def test_an_upgrade_is_passed_over(caller: Caller) -> None:
    caller.request("/api/events", "GET", "Connection: upgrade", "Upgrade: h2c")
    assert caller.hear().status == 200


def test_a_body_is_not_wanted(site: Site) -> None:
    for method, status in (("GET", 413), ("HEAD", 413), ("POST", 405)):
        reply = site.ask("/api/events", method=method, body=bytes(1 << 18))
        assert (reply.status, reply.headers["connection"]) == (status, "close")


@pytest.mark.parametrize("framing", ["Content-Length: 5", "Transfer-Encoding: chunked", "Expect: 100-continue"])
def test_how_a_body_is_announced(caller: Caller, framing: str) -> None:
    caller.request("/api/events", "GET", framing)
    assert caller.hear().status == (200 if framing.startswith("Expect") else 413)


@pytest.mark.parametrize(
    "said",
    [
        b"\r\n\r\n\r\nnonsense\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nbroken line\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET nowhere HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /api/events?" + b"a=&" * 500 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        bytes(range(256)),
    ],
)
def test_what_is_no_request(site: Site, caller: Caller, said: bytes) -> None:
    caller.say(said)
    answer = caller.hear()
    assert (answer.status, json.loads(answer.body)["error"]) == (400, "bad_request")
    assert caller.ended()
    assert site.ask("/api/events").status == 200


def test_a_later_http(caller: Caller) -> None:
    caller.say(b"GET / HTTP/2.0\r\nHost: a\r\n\r\n")
    assert caller.hear().status == 505


def test_the_whole_url_is_a_target_too(caller: Caller) -> None:
    caller.request("http://broker/api/events")
    assert caller.hear().status == 200


def test_bytes_may_come_one_by_one(caller: Caller, site: Site) -> None:
    for byte in request(say(site.files[0])):
        caller.say(bytes([byte]))
    assert caller.hear().body == site.files[0].read_bytes()


def test_requests_may_come_all_at_once(caller: Caller, site: Site) -> None:
    """They are answered one after the other, in their order."""
    order = [0, 6, 1, 99, 2, 6]
    paths = [say(site.files[number]) if number < 99 else "/none" for number in order]
    caller.say(b"".join(map(request, paths)) + request("/api/events", "GET", "Connection: close"))
    for number in order:
        answer = caller.hear()
        if number == 99:
            assert answer.status == 404
        else:
            assert answer.body == site.files[number].read_bytes()
    assert caller.hear().headers["connection"] == "close"
    assert caller.ended()


def test_a_connection_serves_again_and_again(site: Site) -> None:
    connection = http.client.HTTPConnection(*site.address, timeout=15)
    ports = set()
    for path in site.files:
        connection.request("GET", say(path), headers=basic())
        assert reply_of(connection.getresponse()).body == path.read_bytes()
        assert connection.sock is not None
        ports.add(connection.sock.getsockname())
    assert len(ports) == 1
    connection.close()


def test_http_1_0(caller: Caller, site: Site) -> None:
    caller.say(request(say(site.files[0])).replace(b"HTTP/1.1", b"HTTP/1.0"))
    answer = caller.hear()
    assert (answer.body, answer.headers["connection"]) == (site.files[0].read_bytes(), "close")
    assert caller.ended()


# Users

FAILED = {"error": "not_authorized", "reason": "Login failed"}


@pytest.mark.parametrize("user", ["guest:wrong", "nobody:guest", "guest:", ":", "mon:p"])
def test_a_wrong_login(site: Site, user: str) -> None:
    reply = site.ask("/api/events", user=user)
    assert reason(reply) == (401, FAILED)
    assert reply.headers["www-authenticate"] == 'Basic realm="Leveret"'


def test_no_login(site: Site) -> None:
    """RabbitMQ has no words for it, only the challenge."""
    for headers in ({}, {"Authorization": "Bearer abc"}, {"Authorization": "Basic"}):
        reply = ask(site.address, "/api/events", user=None, **headers)
        assert reply.status in (400, 401)
    assert reason(ask(site.address, "/api/events", user=None)) == (401, FAILED)
    assert reason(ask(site.address, "/api/events", user=None, Authorization="Bearer abc")) == (401, FAILED)


@pytest.mark.parametrize("credentials", ["!!!", "Z3Vlc3Q", "Z3Vlc3Q=", "Z3Vlc3Q6 Z3Vlc3Q=", ""])
def test_credentials_that_are_none(site: Site, credentials: str) -> None:
    assert ask(site.address, "/api/events", user=None, Authorization=f"Basic {credentials}").status == 400


def test_two_logins_are_none(caller: Caller) -> None:
    caller.request("/api/events", "GET", "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=")
    assert caller.hear().status == 400


@pytest.mark.parametrize(
    ("user", "words"), [("plain", "Not management user"), ("mgmt", "Not monitor user"), ("pol", "Not monitor user")]
)
def test_users_who_may_not(site: Site, user: str, words: str) -> None:
    for path in ("/api/events", say(site.files[0]), say(site.files[0]).replace("one", "none")):
        refused = reason(site.ask(path, user=f"{user}:p:ä"))
        assert refused == (401, {"error": "not_authorised", "reason": words})


@pytest.mark.parametrize("user", [GUEST, "mon:p:ä"])
def test_users_who_may(site: Site, user: str) -> None:
    assert site.ask("/api/events", user=user).status == 200


def test_refusals_are_logged_without_passwords(site: Site) -> None:
    site.ask("/api/events", user="guest:hunter2")
    eventually(lambda: "login refused: user 'guest' - invalid credentials" in site.broker.log(), "the refusal")
    site.ask("/api/events", user="plain:p:ä")
    eventually(lambda: "access denied: user 'plain' - Not management user" in site.broker.log(), "the refusal")
    assert "hunter2" not in site.broker.log()


# The broker around it


def test_the_status_shows_where(site: Site) -> None:
    status = protocol.ask(site.broker.data_dir, "status", {}, 10)
    assert status["http_listeners"] == [f"127.0.0.1:{site.address[1]}"]


def test_an_amqp_client_is_told_apart(site: Site, caller: Caller) -> None:
    caller.say(b"AMQP\0\0\x09\x01")
    assert caller.ended()
    eventually(lambda: "an AMQP client on an HTTP port" in site.broker.log(), "the log")


def test_what_the_broker_records_is_served_and_outlasts_it(tmp_path: Path) -> None:
    process = web_broker(tmp_path, events="enabled = true\nsegment_seconds = 0.1")
    process.start()
    try:
        found = eventually(lambda: json.loads(ask(web_address(process), "/api/events").body), "a first segment")
        process.kill_and_restart()
        again = json.loads(ask(web_address(process), "/api/events").body)
        assert again[: len(found)] == found
    finally:
        process.kill()


def test_without_a_log_there_is_nothing(tmp_path: Path) -> None:
    process = web_broker(tmp_path)
    process.start()
    try:
        assert ask(web_address(process), "/api/events").body == b"[]"
        assert process.stop() == 0
    finally:
        if process.running:
            process.kill()


def test_who_wants_no_http_does_not_load_it() -> None:
    code = "import broker.server.serve, sys; print([name for name in sys.modules if name.startswith('h11')])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_address_in_use_ends_the_start(site: Site, tmp_path: Path) -> None:
    config = tmp_path / "leveret.toml"
    config.write_text(f'[http]\nlisten = ["127.0.0.1:{site.address[1]}"]\n')
    command = [sys.executable, "-m", "broker", "serve", "--config", str(config), "--data-dir", str(tmp_path / "data")]
    ended = subprocess.run(
        [*command, "--listen", "127.0.0.1:0"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 1
    assert f"cannot listen on 127.0.0.1:{site.address[1]}: another program listens there" in ended.stderr


# TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("secured")
    write_segments(directory / "events", "one", 1, 1, filling=noise(LARGE))
    process = web_broker(directory, tls=authority.config(listen=()))
    process.start()
    yield process
    assert process.stop() == 0


def https(process: BrokerProcess) -> Address:
    return web_address(process, "https")


def test_the_same_by_tls(secured: BrokerProcess, authority: Authority) -> None:
    (segment,) = json.loads(ask(https(secured), "/api/events", security=authority.client()).body)
    reply = ask(https(secured), f"/api/events/{segment['name']}", security=authority.client())
    assert hashlib.sha256(reply.body).hexdigest() == segment["sha256"]
    assert len(reply.body) > LARGE


def test_certificates_are_read_again(secured: BrokerProcess, authority: Authority) -> None:
    def shown() -> bytes | None:
        connection = http.client.HTTPSConnection("localhost", https(secured)[1], context=authority.client())
        connection.connect()
        certificate: bytes | None = connection.sock.getpeercert(binary_form=True)  # type: ignore[attr-defined]
        connection.close()
        return certificate

    before = shown()
    authority.issue("server", "localhost", "127.0.0.1")
    secured.signal(signal.SIGHUP)
    eventually(lambda: "certificates reloaded" in secured.log(), "the log")
    assert shown() != before


@pytest.mark.parametrize("said", [request("/api/events"), b"AMQP\0\0\x09\x01", b"\x16\x03\x01\x00\x02\x01\x00"])
def test_what_is_no_handshake(secured: BrokerProcess, authority: Authority, said: bytes) -> None:
    logged = "TLS handshake failed"
    before = secured.log().count(logged)
    caller = Caller(https(secured))
    caller.say(said)
    caller.close()
    eventually(lambda: secured.log().count(logged) > before, "the log")
    assert ask(https(secured), "/api/events", security=authority.client()).status == 200


def test_a_client_that_vanishes_from_tls(secured: BrokerProcess, authority: Authority) -> None:
    before = descriptors(secured.pid)
    (segment,) = json.loads(ask(https(secured), "/api/events", security=authority.client()).body)
    for _ in range(3):
        connection = http.client.HTTPSConnection("localhost", https(secured)[1], context=authority.client(), timeout=15)
        connection.request("GET", f"/api/events/{segment['name']}", headers=basic())
        response = connection.getresponse()
        assert response.read(100)
        response.close()
        connection.close()
    eventually(lambda: descriptors(secured.pid) <= before, "sockets and files to be closed")
