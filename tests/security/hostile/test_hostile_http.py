"""Limits on clients that come by HTTP: time, number and size; meanwhile messages and honest readers go on."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from select import select
from typing import Any

import pytest

from harness.attacks.benign_client import Good
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import Caller, ask, basic, request, web_address, web_broker, write_segments
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Address, Client
from harness.process_figures import descriptors, own_memory
from harness.waiting import eventually
from tests.planted.planted_catalogue import with_mistake
from tests.unit.http.test_http_server import noise

Ends = Callable[..., Any]

SEGMENT = "/api/events/node-00000001-0000000000000001-0000000000000001.events"
SIZE = 16 << 20
"""More than sockets take at once, and much more than the broker may hold."""
IMPATIENT = "request_timeout_seconds = 1.5\nidle_timeout_seconds = 0.5\nsend_timeout_seconds = 1.5\n"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with eight connections by HTTP and little patience."""
    directory = tmp_path_factory.mktemp("hostile-http")
    write_segments(directory / "events", "node", 1, 1, filling=noise(SIZE))
    process = web_broker(directory, http=f"connections_max = 8\nbody_bytes_max = {BODY_MAX}\n{IMPATIENT}")
    process.start()
    yield process
    if process.running:
        process.kill()


@pytest.fixture
def call(target: BrokerProcess, ends: Ends) -> Callable[[], Caller]:
    return lambda: ends(Caller(web_address(target)))


def fetched(target: BrokerProcess, path: str = "/api/events") -> bool:
    """Somebody honest is served meanwhile, who tries again when the machine has held him up for too long."""

    def served() -> bool:
        try:
            return ask(web_address(target), path).status == 200
        except (OSError, http.client.HTTPException):
            return False

    return eventually(served, "an honest reader to be served")


def test_who_says_nothing_half_a_request_a_byte_at_a_time_or_nothing_more_goes(
    target: BrokerProcess, call: Callable[[], Caller]
) -> None:
    """A byte does not begin the time again."""
    silent, half, idle, slow = (call() for _ in range(4))
    half.say(request(SEGMENT)[:-1])
    idle.request("/api/events")
    assert idle.hear().status == 200
    slow.say(b"GET /")

    def said_too_much() -> bool:
        try:
            slow.say(b"a")
        except OSError:
            return True
        return False

    eventually(said_too_much, "the connection to be closed")
    answer = half.hear()
    assert (answer.status, json.loads(answer.body)["error"]) == (408, "request_timeout")
    assert [each.ended() for each in (silent, half, idle)] == [True] * 3
    assert target.log().count("incomplete request") >= 2


def test_who_does_not_take_the_answer_is_cut_off(target: BrokerProcess, call: Callable[[], Caller], good: Good) -> None:
    good.round_trip()  # the first commit opens what the later ones need
    before, memory = descriptors(target.pid), own_memory(target.pid)
    callers = [call() for _ in range(4)]
    for caller in callers:
        caller.request(SEGMENT)
    eventually(lambda: target.log().count("the client reads its answer too slowly") >= 4, "the log")
    good.round_trip()
    eventually(lambda: descriptors(target.pid) <= before, "sockets and files to be closed")
    assert own_memory(target.pid) < memory + SIZE // 2
    for caller in callers:
        status, headers = caller.head()
        assert status == 200
        assert len(caller.read(int(headers["content-length"]))) < SIZE


def test_the_idle_make_room(target: BrokerProcess, call: Callable[[], Caller], good: Good) -> None:
    callers = [call() for _ in range(60)]
    for caller in callers:
        caller.say(b"G")
    assert fetched(target)
    good.round_trip()
    assert "its address has 6 connections, and it is idle" in target.log()


def test_the_busy_stay(target: BrokerProcess, call: Callable[[], Caller]) -> None:
    """A client that is being served is served to the end, however many come."""
    busy = call()
    busy.request(SEGMENT)
    status, headers = busy.head()
    size = int(headers["content-length"])
    for _ in range(30):
        call().say(b"G")
        size -= len(busy.read(min(size, SIZE // 20)))
    assert (status, len(busy.read(size))) == (200, size)
    assert fetched(target)


@pytest.mark.parametrize(
    "said",
    [
        [b"GET /" + b"a" * 20_000],
        [b"a" * 20_000],
        [request("/api/events", "GET", "X: " + "a" * 20_000)],
        [request("/api/events", "GET", *(f"X-{number}: a" for number in range(2000)))],
        [b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 6000],
        # RFC 9112, 6.1: what follows two lengths may be what somebody else took for a body.
        [request("/api/events", "GET", "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n", request("/")],
    ],
    ids=["target", "line", "header", "headers", "empty headers", "two lengths"],
)
def test_what_is_too_large_or_ambiguous_is_the_last_request(call: Callable[[], Caller], said: list[bytes]) -> None:
    caller = call()
    for piece in said:
        caller.say(piece)
    assert caller.hear().status in (400, 431)
    assert caller.ended()


GET_MESSAGES = "/api/queues/%2F/none/get"
BODY_MAX = 1 << 20


def test_bodies_that_are_slow_or_too_large_are_refused(
    target: BrokerProcess, call: Callable[[], Caller], good: Good
) -> None:
    """The announced size counts, or the bytes that have come; a byte now and then buys no time. Little of them is in
    memory."""
    memory = own_memory(target.pid)
    slow, announced, chunked = call(), call(), call()
    slow.request(GET_MESSAGES, "POST", "Content-Length: 1000")
    announced.request(GET_MESSAGES, "POST", f"Content-Length: {10**12}")
    chunked.request(GET_MESSAGES, "POST", "Transfer-Encoding: chunked")
    with suppress(OSError):
        for _ in range(100):
            announced.say(bytes(1 << 16))
            chunked.say(b"10000\r\n" + bytes(1 << 16) + b"\r\n")

    def bytes_were_not_enough() -> bool:
        with suppress(OSError):
            slow.say(b" ")
        return bool(select([slow.sock], [], [], 0)[0])

    assert [each.hear().status for each in (announced, chunked)] == [413, 413]
    eventually(bytes_were_not_enough, "the slow one to be answered")
    assert slow.hear().status == 408
    good.round_trip()
    assert own_memory(target.pid) < memory + 6 * BODY_MAX


def test_a_pattern_that_explodes_holds_up_nobody(target: BrokerProcess, call: Callable[[], Caller], good: Good) -> None:
    name = "a" * 200 + "!"
    asked = request(f"/api/queues/%2F/{name}", "PUT", "Content-Length: 2") + b"{}"
    caller = call()
    caller.say(asked)
    assert caller.hear().status in (201, 204)
    for _ in range(3):
        caller.request("/api/queues?page=1&use_regex=true&name=%5E%28a%2B%29%2B%24")
        good.round_trip()
        assert caller.hear().status == 400, "it says nothing about the name"


@pytest.mark.parametrize(
    ("origin", "status"), [("http://evil.example", 403), ("null", 403), ("http://localhost", 204), ("", 204)]
)
def test_a_browser_elsewhere_cannot_act_for_its_user(call: Callable[[], Caller], origin: str, status: int) -> None:
    """It would send the user's credentials with whatever another site's page has it ask."""
    caller, body = call(), b'{"name":"it"}'
    lines = [f"Content-Length: {len(body)}", *([f"Origin: {origin}"] if origin else [])]
    caller.say(request("/api/cluster-name", "PUT", *lines) + body)
    answer = caller.hear()
    assert answer.status == status
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_flood_of_requests_holds_up_nobody(target: BrokerProcess, call: Callable[[], Caller], good: Good) -> None:
    flood = request("/api/events", user="guest:wrong") * 200 + request("/none") * 200
    callers = [call() for _ in range(4)]
    for caller in callers:
        caller.say(flood)
    for _ in range(5):
        good.round_trip()
    for caller in callers:
        assert [caller.hear().status for _ in range(400)] == [401] * 200 + [404] * 200


def test_clients_who_do_not_read_keep_no_reader_out(tmp_path: Path) -> None:
    """Their answers fill all buffers; that they have one coming does not keep them, without credentials."""
    write_segments(tmp_path / "events", "node", 1, 1)
    process = web_broker(tmp_path, http="connections_max = 4\n")
    process.start()
    with ExitStack() as ends:
        for _ in range(4):
            client = ends.enter_context(not_reading(web_address(process)))
            with suppress(ConnectionError):
                while select([], [client], [], 1.0)[1]:
                    client.send(request("/none") * 100)
        assert fetched(process)
    process.stop()


def not_reading(address: Address) -> socket.socket:
    """A connection with small buffers."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    client.connect(address)
    client.setblocking(False)
    return client


QUEUES = 8000
"""Queues of which a scrape of each, or a list, is more than sockets take at once."""


@pytest.fixture(scope="module")
def many_queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with many queues, the API and metrics, and the limits that it has by default."""
    process = BrokerProcess(tmp_path_factory.mktemp("many-queues") / "data", check_invariants=False)
    process.http = ("--management-listen", "127.0.0.1:0", "--prometheus-listen", "127.0.0.1:0")
    process.start()
    client = Client.connect(process.address)
    for number in range(QUEUES):
        client.send(queue_declare(f"many-queues-{number}", no_wait=True))
    client.ask(queue_declare("many-queues-last"))
    yield process
    client.close()
    if process.running:
        process.kill()


@pytest.mark.parametrize(("scheme", "path"), [("metrics", "/metrics/per-object"), ("http", "/api/queues")])
@pytest.mark.parametrize(("clients", "address"), [(10, "127.0.0.1"), (64, "127.0.0.9")])
def test_answers_that_nobody_reads_hold_no_place(
    many_queues: BrokerProcess, scheme: str, path: str, clients: int, address: str
) -> None:
    """Few of one address leave it places; as many as there may be connections leave them to other addresses."""
    assert fetched(many_queues, "/api/whoami"), "the clients of other tests have gone"
    where, memory = web_address(many_queues, scheme), own_memory(many_queues.pid)
    with ExitStack() as ends:
        for _ in range(clients):
            with suppress(ConnectionError):
                ends.enter_context(not_reading(where)).send(request(path))
        reader = ends.enter_context(closing(http.client.HTTPConnection(*where, 10.0, (address, 0))))
        reader.request("GET", path, headers=basic())
        answer = reader.getresponse()
        assert (answer.status, len(answer.read()) > QUEUES * 100) == (200, True)
        assert own_memory(many_queues.pid) < memory + (64 << 20)


def test_a_long_list_is_the_same_compressed_or_not(many_queues: BrokerProcess) -> None:
    where = web_address(many_queues)
    assert fetched(many_queues, "/api/whoami"), "the clients of other tests have gone"
    plain = ask(where, "/api/queues?disable_stats=true&columns=name,vhost")
    packed = ask(where, "/api/queues?disable_stats=true&columns=name,vhost", Accept_Encoding="gzip")
    assert plain.headers["transfer-encoding"] == packed.headers["transfer-encoding"] == "chunked"
    assert gzip.decompress(packed.body) == plain.body
    assert len(json.loads(plain.body)) == QUEUES + 1


def test_a_check_that_waits_for_an_alarm_to_end_holds_no_place(many_queues: BrokerProcess) -> None:
    """It waits for ten seconds; others of its address are answered meanwhile."""
    where = web_address(many_queues)
    assert fetched(many_queues, "/api/whoami"), "the clients of other tests have gone"
    many_queues.tell("set_vm_memory_high_watermark", bytes=1)
    try:
        eventually(lambda: ask(where, "/api/health/checks/alarms").status == 503, "the alarm")
        with closing(http.client.HTTPConnection(*where, 15.0)) as waiting:
            waiting.request("GET", "/api/aliveness-test/%2F", headers=basic())
            for _ in range(5):
                assert ask(where, "/api/health/checks/alarms").status == 503
                assert not select([waiting.sock], [], [], 0)[0], "it waits"
    finally:
        many_queues.tell("set_vm_memory_high_watermark", fraction=0.6)


def test_a_stop_waits_for_no_reader(tmp_path: Path, ends: Ends) -> None:
    write_segments(tmp_path / "events", "node", 1, 1, filling=noise(SIZE))
    process = web_broker(tmp_path)
    process.start()
    idle, busy = ends(Caller(web_address(process))), ends(Caller(web_address(process)))
    busy.request(SEGMENT)
    assert busy.head()[0] == 200
    assert process.stop() == 0
    assert idle.ended()
    assert len(busy.read(SIZE)) < SIZE
    assert "Traceback" not in process.log()


def test_a_broker_that_waits_for_slow_readers_is_found(tmp_path: Path, ends: Ends) -> None:
    """It sends somebody away who came later and had more time, and the slow one is still there."""
    write_segments(tmp_path / "events", "node", 1, 1, filling=noise(SIZE))
    process = web_broker(tmp_path, http="send_timeout_seconds = 0.1\nidle_timeout_seconds = 1\n")
    process.environment = with_mistake("slow readers stay")
    process.start()
    try:
        slow = ends(Caller(web_address(process)))
        slow.request(SEGMENT)
        assert slow.head()[0] == 200
        assert ends(Caller(web_address(process))).ended()
        assert "reads its answer too slowly" not in process.log()
    finally:
        process.kill()
