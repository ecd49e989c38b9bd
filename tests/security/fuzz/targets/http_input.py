"""Target `web`: whatever is said by HTTP is answered in answers, or with the end; and no secret is told or logged."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import trio
import trio.testing

from broker.config import HttpSettings
from broker.entities.node.users import User
from broker.management.work_slots import WorkSlots
from broker.server.http.asgi_exchange import Application
from broker.server.http.http_connection import HttpConnection
from broker.session.login.login_throttle import ThrottleLimits
from broker.session.login.passwords import SHA256, hash_password
from broker.session.peer import Peer
from broker.session.registry import Registry
from broker.session.session_settings import SessionSettings
from harness.brokers.broker_core import Core
from harness.brokers.http_broker import event_log_application, write_segments
from tests.security.fuzz.broker_under_test import scratch_directory, watching_logs
from tests.security.fuzz.choices import Choices, once_in, pick

SECRET = "hunter2hunter2"
PEER = Peer("192.0.2.7", 50000, "192.0.2.1", 15672, loopback=False)
NAME = "one-00000001-0000000000000001-0000000000000002.events"
OUTSIDE = "out-00000001-0000000000000001-0000000000000002.events"
STATUSES = {200, 206, 304, 400, 401, 404, 405, 408, 413, 416, 429, 431, 501, 505}

_METHODS = ("GET", "HEAD", "POST", "CONNECT", "OPTIONS", "get", "G\0T")
_TARGETS = (
    "/api/events",
    "/api/events?",
    f"/api/events?after={NAME}&limit=1",
    "/api/events?limit=99999",
    "/api/events?after=%00&after=",
    f"/api/events/{NAME}",
    f"/api/events/{NAME}",
    f"/api/events/..%2F{OUTSIDE}",
    f"/api/events/../{OUTSIDE}",
    f"/api//events/./{NAME}?x",
    f"http://broker/api/events/{NAME}",
    "http://[",
    "*",
    "//",
    "/%",
    f"/{SECRET}",
)
_VERSIONS = ("HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.9", "")


def _basic(login: str) -> str:
    return f"Authorization: Basic {b64encode(login.encode()).decode()}"


_USUAL = ("Host: broker", _basic(f"mon:{SECRET}"))
_LINES = (
    *_USUAL,
    _basic(f"plain:{SECRET}"),
    _basic(f"nobody:{SECRET}"),
    _basic(SECRET),
    f"Authorization: Basic {SECRET}",
    f"Authorization\x01: {SECRET}",
    f" {SECRET}",
    "Range: bytes=0-4",
    "Range: bytes=4-",
    "Range: bytes=-0",
    "Range: bytes=9-1, 5-",
    'If-Range: "x"',
    'If-None-Match: "x", W/"y"',
    "If-None-Match: *",
    "Connection: close",
    "Connection: keep-alive, upgrade",
    "Upgrade: websocket",
    "Expect: 100-continue",
    "Content-Length: 0",
    "Content-Length: 5",
    "Content-Length: 99999999999999999999",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "X: " + "a" * 9000,
)
_BODIES = (b"", b"", b"", b"12345", b"0\r\n\r\n", b"5\r\n12345\r\n0\r\nT: x\r\n\r\n", b"ffffffffffffffff\r\n")


def _mostly(choices: Choices, options: tuple[str, ...]) -> str:
    """The first of them, as a rule."""
    return pick(choices, options) if once_in(choices, 6) else options[0]


def said(choices: Choices) -> list[bytes]:
    """Return a client's bytes, in pieces."""
    whole = b""
    for _ in range(choices.number(1, 4)):
        lines = [f"{_mostly(choices, _METHODS)} {pick(choices, _TARGETS)} {_mostly(choices, _VERSIONS)}"]
        lines += [line for line in _USUAL if not once_in(choices, 8)]
        lines += [pick(choices, _LINES) for _ in range(choices.number(0, 3))]
        whole += "\r\n".join([*lines, "", ""]).encode("latin-1") + pick(choices, _BODIES)
    if once_in(choices, 3):
        at = choices.number(0, len(whole))
        whole = whole[:at] + choices.data(30) + whole[at + choices.number(0, 20) :]
    pieces = []
    for _ in range(choices.number(0, 3)):
        at = choices.number(0, len(whole))
        pieces.append(whole[:at])
        whole = whole[at:]
    return [*pieces, whole]


async def converse(application: Application, pieces: list[bytes]) -> bytes:
    """Return the broker's answer to some pieces, and then the end."""
    ours, theirs = trio.testing.memory_stream_pair()
    connection = HttpConnection(theirs, PEER, HttpSettings(), application, WorkSlots(4, 1))
    heard = bytearray()

    async def speak() -> None:
        try:
            for piece in pieces:
                await ours.send_all(piece)
                await trio.testing.wait_all_tasks_blocked()
            await ours.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the broker has had enough

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve)
        nursery.start_soon(speak)
        while data := await ours.receive_some():
            heard += data
    return bytes(heard)


def check(heard: bytes) -> None:
    """Nothing but whole answers, save that a body is missing behind the answer to HEAD."""
    while heard:
        head, end, heard = heard.partition(b"\r\n\r\n")
        assert end, "half an answer"
        status, *lines = head.decode("ascii").split("\r\n")
        assert status.startswith("HTTP/1.1 ")
        assert int(status[9:12]) in STATUSES, status
        headers = dict(line.lower().split(": ", 1) for line in lines)
        assert "date" in headers
        size = int(headers.get("content-length", 0))
        if not heard.startswith(b"HTTP/1.1 ") and heard:
            assert len(heard) >= size, "half a body"
            heard = heard[size:]


@contextmanager
def opened() -> Iterator[Callable[[Choices], None]]:
    """The target, ready for inputs."""
    with scratch_directory() as directory, watching_logs(SECRET) as failures:
        with closing(Core(directory / "messages")) as core:
            application = _application(core, directory)

            def take(choices: Choices) -> None:
                clock = trio.testing.MockClock(autojump_threshold=0)
                heard = trio.run(converse, application, said(choices), clock=clock)
                assert SECRET.encode() not in heard
                check(heard)
                failures.check()

            yield take


def _application(core: Core, directory: Path) -> Application:
    write_segments(directory / "events", "one", 1, 2, 1)
    (directory / OUTSIDE).write_text(SECRET)
    users = core.broker.users.by_name
    for name, tags in (("mon", ("monitoring",)), ("plain", ())):
        users[name] = User(name, hash_password(SECRET.encode()), SHA256, tags)
    registry = Registry(core.broker, SessionSettings(throttle=ThrottleLimits(0, 1.0, 1.0)))
    return event_log_application(registry, directory / "events")
