"""The event log by HTTP: what is served, to whom, and in which words. Those of refusals are RabbitMQ 3.10.8's.

They were asked of rabbitmq_management on 2026-11-21, with /api/nodes, which the same users may see.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.brokers.http_broker import GUEST, Caller, Reply, ask, request, web_address, web_broker, write_segments
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
            self.broker.tell("add_user", name=name, password="p:ä", tags=tags)

    def ask(self, path: str, **options: Any) -> Reply:
        return ask(self.address, path, **options)

    def listed(self, query: str = "") -> list[dict[str, Any]]:
        reply = self.ask(f"/api/events{query}")
        assert reply.status == 200
        found: list[dict[str, Any]] = json.loads(reply.body)
        return found

    def behind(self, *names: str) -> list[int]:
        """The places of the segments that are listed after these."""
        found = {segment["name"] for segment in self.listed("?" + "&".join(f"after={name}" for name in names))}
        return [number for number, path in enumerate(self.files) if path.name in found]


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
    """Pages lead through all of it."""
    listed = site.listed()
    assert [segment["name"] for segment in listed] == [path.name for path in site.files]
    for segment, path in zip(listed, site.files, strict=True):
        content = path.read_bytes()
        assert (segment["bytes"], segment["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert listed[1] | {"node": "one", "boot": 1, "first": 3, "last": 3} == listed[1]
    pages = list[list[dict[str, Any]]]()
    path = "/api/events?limit=2"
    while path:
        reply = site.ask(path)
        pages.append(json.loads(reply.body))
        link = re.fullmatch(r'<(.*)>; rel="next"', reply.headers.get("link", ""))
        path = link[1] if link else ""
    assert [len(page) for page in pages] == [2, 2, 2, 1]
    assert [segment for page in pages for segment in page] == listed


def test_after_names_the_last_segment_of_each_node(site: Site) -> None:
    """They count as the offsets of the Spark source do. All segments of a node that is not named are new."""
    one, two, name = site.files[2].name, site.files[4].name, [path.name for path in site.files]
    assert site.behind(one) == [3, 4, 5, 6]
    assert site.behind(one, two) == site.behind(name[0], one, two) == [3, 5, 6]
    assert site.behind("one-00000005-0000000000000001-0000000000000009.events") == [3, 4, 5, 6], "one that has gone"
    newest = site.ask("/api/events?" + "&".join(f"after={name[number]}" for number in (3, 5, 6)))
    assert (newest.status, newest.body, "link" in newest.headers) == (200, b"[]", False)


def test_parameters_that_mean_nothing_are_refused(site: Site) -> None:
    limits = ("limit=0", "limit=1001", "limit=x", "limit=-1", "limit=%D9%A3")
    for query in ("after=notes.txt", "after=", *limits, "afterr=x", "after"):
        assert site.ask(f"/api/events?{query}").status == 400, query


# A segment


def test_a_segment_is_its_bytes(site: Site) -> None:
    """HEAD has the same headers without them."""
    for path in site.files:
        content = path.read_bytes()
        reply = site.ask(say(path))
        assert (reply.status, reply.body) == (200, content)
        assert reply.headers["content-length"] == str(len(content))
        assert reply.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
        assert reply.headers["accept-ranges"] == "bytes"
    for named in (say(site.files[6]), "/api/events"):
        whole, head = site.ask(named), site.ask(named, method="HEAD")
        assert (head.status, head.body) == (200, b"")
        assert whole.headers | {"date": ""} == head.headers | {"date": ""}


def test_who_has_it_is_told_so(site: Site) -> None:
    path = say(site.files[0])
    tag = site.ask(path).headers["etag"]
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        reply = site.ask(path, If_None_Match=known)
        assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", tag)
    assert site.ask(path, If_None_Match='"x"').status == 200
    assert site.ask(path, Range="bytes=1-2", If_Range=tag).status == 206
    assert site.ask(path, Range="bytes=1-2", If_Range='"other"').status == 200


@pytest.mark.parametrize(
    ("asked", "status", "part"),
    [
        ("bytes=0-0", 206, (0, 0)),
        ("bytes=5-9", 206, (5, 9)),
        ("bytes=7-", 206, (7, -1)),
        ("bytes=-4", 206, (-4, -1)),
        ("bytes=3-999999", 206, (3, -1)),
        ("bytes=-999999999", 206, (0, -1)),
        *((behind, 416, None) for behind in ("bytes=999999-", "bytes=999999-9999999", "bytes=-0")),
        *((passed_over, 200, None) for passed_over in ("bytes=0-1,4-5", "lines=1-2", "bytes=", "bytes=-")),
        *((passed_over, 200, None) for passed_over in ("bytes=5-2", "bytes=x-1")),
    ],
)
def test_a_range(site: Site, asked: str, status: int, part: tuple[int, int] | None) -> None:
    """Those that need not be understood are none: RFC 9110, 14.2 allows it."""
    content = site.files[0].read_bytes()
    reply = site.ask(say(site.files[0]), Range=asked)
    assert reply.status == status
    if part:
        first, last = (end % len(content) for end in part)
        assert reply.body == content[first : last + 1]
        assert reply.headers["content-range"] == f"bytes {first}-{last}/{len(content)}"
    elif status == 416:
        assert reply.headers["content-range"] == f"bytes */{len(content)}"


def test_what_is_no_segment_is_not_found(site: Site) -> None:
    name = "-00000001-0000000000000001-0000000000000001.events"
    for path in (
        "/api/events/notes.txt",
        "/api/events/_tmp.one-00000011-0000000000000001",
        "/api/events/one-00000099-0000000000000001-0000000000000001.events",
        *(f"/api/events/{up}outside{name}" for up in ("../", "..%2F", "%2e%2e%2f", "..%5c")),
        "/api/events/%2Fetc%2Fpasswd",
        "/api/events/one%00-00000001-0000000000000001-0000000000000002.events",
        "/api/events/one-00000001-0000000000000001-000000000000000%D9%A2.events",
        *(f"/api/events/{'a' * long}{name}" for long in (101, 4000)),
        "/api/event",
        "/api/events/x/y",
        "//api/events",
    ):
        assert reason(site.ask(path)) == (404, {"error": "Object Not Found", "reason": "Not Found"}), path


def test_a_segment_that_is_removed_while_it_is_fetched(site: Site, caller: Caller) -> None:
    (path,) = write_segments(site.directory, "brief", 1, 1, filling=noise(LARGE))
    content = path.read_bytes()
    caller.request(say(path))
    status, headers = caller.head()
    path.unlink()
    assert (status, caller.read(int(headers["content-length"]))) == (200, content)
    caller.request(say(path))
    assert caller.hear().status == 404


# Requests


def test_nothing_can_be_changed(site: Site) -> None:
    """RabbitMQ has 501 for a method that nobody knows."""
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "FOO"):
        reply = site.ask("/api/events", method=method)
        status = 200 if method == "OPTIONS" else 405
        assert (reply.status, reply.headers["allow"], reply.body) == (status, "HEAD, GET, OPTIONS", b""), method


@pytest.mark.parametrize(
    ("said", "status", "ends"),
    [
        (b"CONNECT /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, True),
        (request("/api/events", "GET", "Connection: upgrade", "Upgrade: h2c"), 200, False),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, True),
        (request("http://broker/api/events"), 200, False),
        (request("/api/events").replace(b"HTTP/1.1", b"HTTP/1.0"), 200, True),
    ],
    ids=["connect", "an upgrade is passed over", "a later HTTP", "a whole URL", "an earlier HTTP"],
)
def test_other_ways_to_ask(caller: Caller, said: bytes, status: int, ends: bool) -> None:
    caller.say(said)
    assert caller.hear().status == status
    if ends:
        assert caller.ended()


@pytest.mark.parametrize(
    ("size", "lines", "status", "connection"),
    [
        (100, ["Content-Length: 100"], 200, None),
        (0, ["Transfer-Encoding: chunked"], 200, None),
        (0, ["Content-Length: 100", "Expect: 100-continue"], 200, "close"),
        (1 << 18, [f"Content-Length: {1 << 18}"], 200, "close"),
    ],
    ids=["short", "chunked", "not asked for", "long"],
)
def test_a_body_that_nothing_reads(
    caller: Caller, size: int, lines: list[str], status: int, connection: str | None
) -> None:
    """A short one is passed over, and the connection goes on; behind another one it ends."""
    caller.request("/api/events", "GET", *lines)
    caller.say(bytes(size) if size else b"0\r\n\r\n" if "chunked" in lines[0] else b"")
    answer = caller.hear()
    assert (answer.status, answer.headers.get("connection")) == (status, connection)
    if connection is None:
        caller.request("/api/events")
        assert caller.hear().status == 200


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


def test_requests_may_come_byte_by_byte_and_all_at_once(caller: Caller, site: Site) -> None:
    """They are answered one after the other, in their order."""
    order = [0, 6, 1, 99, 2, 6]
    paths = [say(site.files[number]) if number < 99 else "/none" for number in order]
    for byte in request(paths[0]):
        caller.say(bytes([byte]))
    caller.say(b"".join(map(request, paths[1:])) + request("/api/events", "GET", "Connection: close"))
    for number in order:
        answer = caller.hear()
        if number == 99:
            assert answer.status == 404
        else:
            assert answer.body == site.files[number].read_bytes()
    assert caller.hear().headers["connection"] == "close"
    assert caller.ended()


# Users


def refused(words: str, error: str = "not_authorized") -> tuple[int, dict[str, str]]:
    return 401, {"error": error, "reason": words}


def test_a_wrong_login(site: Site, caller: Caller) -> None:
    """RabbitMQ has no words for none at all, only the challenge."""
    for user in ("guest:wrong", "nobody:guest", "guest:", ":", "mon:p"):
        reply = site.ask("/api/events", user=user)
        assert reason(reply) == refused("Login failed")
        assert reply.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'
        logged = f"login refused: user '{user.partition(':')[0]}' - invalid credentials"
        eventually(lambda logged=logged: logged in site.broker.log(), "the log")  # type: ignore[misc]
    for headers in ({}, {"Authorization": "Bearer abc"}):
        reply = site.ask("/api/events", user=None, **headers)
        assert (reply.status, reply.body) == (401, b"")
        assert reply.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'
    for credentials in ("", " !!!", " Z3Vlc3Q", " Z3Vlc3Q=", " Z3Vlc3Q6 Z3Vlc3Q=", " "):
        assert site.ask("/api/events", user=None, Authorization=f"Basic{credentials}").status == 400, credentials
    caller.request("/api/events", "GET", "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=")
    assert caller.hear().status == 400, "two logins"


def test_who_may_read(site: Site) -> None:
    """Administrators and monitors; the others hear no more of what is not there than of what is."""
    for user in (GUEST, "mon:p:ä"):
        assert site.ask("/api/events", user=user).status == 200
    for user, words in (("plain", "Not management user"), ("mgmt", "Not monitor user"), ("pol", "Not monitor user")):
        for path in ("/api/events", say(site.files[0]), say(site.files[0]).replace("one", "none")):
            assert reason(site.ask(path, user=f"{user}:p:ä")) == refused(words, "not_authorised")
        denied = f"access denied: user '{user}' - {words}"
        eventually(lambda denied=denied: denied in site.broker.log(), "the log")  # type: ignore[misc]


# The broker around it


def test_an_amqp_client_is_told_apart(site: Site, caller: Caller) -> None:
    assert site.broker.tell("status")["http_listeners"] == [f"127.0.0.1:{site.address[1]}"]
    caller.say(b"AMQP\0\0\x09\x01")
    assert caller.ended()
    eventually(lambda: "an AMQP client on an HTTP port" in site.broker.log(), "the log")
