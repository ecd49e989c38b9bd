"""Access by HTTP, from elsewhere and after wrong passwords; and facts known of segments.

Inside one trio run, so that clients may have any address and waiting takes no time.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import trio
import trio.testing

from broker.config import HttpSettings
from broker.entities.node.users import User
from broker.entities.statistics.totals import HTTP
from broker.management import segment_files
from broker.management.segment_files import SegmentFiles
from broker.management.work_slots import WorkSlots
from broker.server.http.http_connection import HttpConnection
from broker.session.login import authenticate
from broker.session.login.login_throttle import ThrottleLimits
from broker.session.login.passwords import SHA256, hash_password
from broker.session.login.sasl import Login
from broker.session.peer import Peer
from broker.session.registry import Registry
from broker.session.session_settings import SessionSettings
from harness.brokers.broker_core import Core
from harness.brokers.http_broker import Reply, event_log_application, request, write_segments

FAR = Peer("192.0.2.7", 50000, "192.0.2.1", 15672, loopback=False)
NEAR = FAR._replace(host="127.0.0.1", loopback=True)
PAGE = "/api/events"


@pytest.fixture
def registry(core: Core) -> Registry:
    users = core.broker.users.by_name
    users["guest"] = User("guest", hash_password(b"guest"), SHA256, ("administrator",))
    users["mon"] = User("mon", hash_password(b"right"), SHA256, ("monitoring",))
    return Registry(core.broker, SessionSettings(throttle=ThrottleLimits(3, 3600.0, 60.0)))


class Visitor:
    """A client at some address; each request over a connection of its own."""

    def __init__(self, registry: Registry, directory: Path, peer: Peer) -> None:
        self._application = event_log_application(registry, directory)
        self._peer = peer

    async def ask(self, user: str) -> Reply:
        ours, theirs = trio.testing.memory_stream_pair()
        connection = HttpConnection(theirs, self._peer, HttpSettings(), self._application, WorkSlots(4, 1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.serve)
            await ours.send_all(request(PAGE, "GET", "Connection: close", user=user))
            heard = bytearray()
            while data := await ours.receive_some():
                heard += data
            await ours.aclose()
        head, _, body = bytes(heard).partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = {line.partition(": ")[0].lower(): line.partition(": ")[2] for line in lines}
        return Reply(int(status.split()[1]), headers, body)


@pytest.fixture
def far(registry: Registry, tmp_path: Path) -> Visitor:
    return Visitor(registry, tmp_path, FAR)


async def test_guest_is_for_this_machine(registry: Registry, far: Visitor, tmp_path: Path) -> None:
    """RabbitMQ's words; it too looks at the password first."""
    refused = await far.ask("guest:guest")
    words = {"error": "not_authorised", "reason": "User can only log in via localhost"}
    assert (refused.status, json.loads(refused.body)) == (401, words)
    assert json.loads((await far.ask("guest:wrong")).body)["reason"] == "Login failed"
    near = await Visitor(registry, tmp_path, NEAR).ask("guest:guest")
    assert (near.status, near.body) == (200, b"[]"), "without a log there is nothing"
    assert (await far.ask("mon:right")).status == 200


async def test_who_guesses_has_to_wait(
    registry: Registry, core: Core, far: Visitor, autojump_clock: trio.testing.MockClock
) -> None:
    """Guesses over AMQP and HTTP are one sum."""
    for number in range(2):
        assert authenticate.check_login(registry, FAR, Login("mon", b"guess%d" % number), HTTP) is not None
        assert (await far.ask(f"mon:another guess{number}")).status == 401
    refused = await far.ask("mon:right")
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert json.loads(refused.body)["error"] == "too_many_requests"
    core.clock.time += 1001
    assert (await far.ask("mon:right")).status == 200


async def test_a_user_who_is_guessed_from_everywhere(
    registry: Registry, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Refusals take longer; the right password does not."""
    for number in range(8):
        visitor = Visitor(registry, tmp_path, FAR._replace(host=f"198.51.100.{number}"))
        before = trio.current_time()
        assert (await visitor.ask(f"mon:guess{number}")).status == 401
        took = trio.current_time() - before
    assert took >= 16
    before = trio.current_time()
    assert (await visitor.ask("mon:right")).status == 200
    assert trio.current_time() - before < 1


# Segments


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    (path,) = write_segments(tmp_path / "events", "one", 1, 5)
    return path


async def test_what_is_remembered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_files, "REMEMBERED_MAX", 2)
    paths = write_segments(tmp_path / "events", "one", 1, 1, 1, 1, 1)
    files = SegmentFiles(tmp_path / "events", 2)
    found, more = await files.behind({}, 10)
    assert ([str(each.name) for each in found], more) == ([path.name for path in paths], False)
    assert len(files._sha256) == 2


async def test_a_file_that_becomes_shorter_is_not_made_up(segment: Path) -> None:
    files = SegmentFiles(segment.parent, 2)
    found, _ = await files.behind({}, 1)
    opened = await files.open(found[0], 0, found[0].size)
    os.truncate(segment, 5)
    try:
        assert len(await opened.read()) == 5
        with pytest.raises(OSError, match="shorter"):
            await opened.read()
    finally:
        opened.close()
