"""Bodies of requests that are work: refused with a reason, on every route that takes one; meanwhile others go on."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest

from broker.management.json_bodies import BODY_BYTES_MAX
from harness.attacks.benign_client import Good
from harness.brokers.body_routes import Route, changing_routes, routes_with_bodies
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import Reply, ask, web_address
from harness.process_figures import own_memory

pytestmark = pytest.mark.slow

SIZE = 15 << 20
CONFIRM_SECONDS = 5.0
"""Longest wait for a confirm, also on a busy machine; beside a broker that reads such a body at once it is longer."""
MEMORY_MAX = 128 << 20
"""More than the broker takes for one body, and a tenth of what the worst of them would become."""

NUMBERS = b"[" + b"1," * (SIZE // 2) + b"1]"
LISTS = b"[" + b"[]," * (SIZE // 3) + b"1]"
KEYS = b"{" + b",".join(b'"%d":1' % number for number in range(1_200_000)) + b"}"
WORK = {"numbers": NUMBERS, "lists": LISTS, "keys": KEYS}

PUBLISH = "/api/exchanges/%2F/amq.topic/publish"
FAULTS = {
    "nesting": b"[" * 900 + b"]" * 900,
    "bytes that are not UTF-8": b'"\xff"',
    "half a surrogate pair": b'"\xed\xa0\x80"',
    "NaN": b"NaN",
    "Infinity": b"-Infinity",
    "1e999": b"1e999",
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with its API."""
    process = BrokerProcess(tmp_path_factory.mktemp("hostile-bodies") / "data")
    process.http = ("--management-listen", "127.0.0.1:0", "--prometheus-listen", "off")
    process.start()
    yield process
    if process.running:
        process.kill()


def ask_json(target: BrokerProcess, path: str, method: str, body: bytes) -> Reply:
    return ask(web_address(target), path, method=method, body=body, Content_Type="application/json")


@pytest.fixture(scope="module")
def routes(target: BrokerProcess) -> list[Route]:
    """The routes that read a body."""
    node = json.loads(ask(web_address(target), "/api/overview").body)["node"]
    found = routes_with_bodies(web_address(target), node)
    assert len(changing_routes(node)) > len(found) > 20
    return found


def body_for(path: str, value: bytes) -> bytes:
    """A body that has a value wherever a route may look for one; as headers, where a message is published."""
    if path.endswith("/publish"):
        return b'{"routing_key":"x","payload":"","payload_encoding":"string","properties":{"headers":{"x":%b}}}' % value
    return b'{"arguments":{"x":%b},"value":%b}' % (value, value) if len(value) < SIZE // 2 else b'{"value":%b}' % value


@pytest.mark.parametrize("fault", FAULTS)
def test_json_that_cannot_be_kept_is_refused_with_a_reason_everywhere(
    target: BrokerProcess, routes: list[Route], fault: str
) -> None:
    for route in routes:
        reply = ask_json(target, route.path, method=route.method, body=body_for(route.path, FAULTS[fault]))
        assert reply.status == 400, route
        assert json.loads(reply.body)["reason"], route
    assert "Traceback" not in target.log()


def reads_large_bodies(route: Route) -> bool:
    return route.path.endswith("/publish") or "definitions" in route.path or "all-configuration" in route.path


@pytest.mark.parametrize("work", WORK)
def test_a_body_of_millions_of_values_is_refused_while_others_are_confirmed(
    target: BrokerProcess, routes: list[Route], good: Good, work: str
) -> None:
    """With every body as large as it may be: 400 or 413, and nobody waits for it.

    Each route is sent one of the bodies, and those that read a large body all of them: reading is the same for all.
    """
    before = own_memory(target.pid)
    stop, longest, highest = threading.Event(), 0.0, before

    def publish() -> None:
        nonlocal longest, highest
        while not stop.is_set():
            began = time.monotonic()
            good.round_trip()
            longest = max(longest, time.monotonic() - began)
            highest = max(highest, own_memory(target.pid))

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        for route in [*routes[list(WORK).index(work) :: len(WORK)], *filter(reads_large_bodies, routes)]:
            body = body_for(route.path, WORK[work])
            reply = ask_json(target, route.path, method=route.method, body=body)
            reason = json.loads(reply.body)["reason"]
            expected = (400, "values") if route.path.endswith("/publish") else (413, str(BODY_BYTES_MAX))
            if route.path.endswith("/publish") or not reads_large_bodies(route):
                assert (reply.status, expected[1] in reason) == (expected[0], True), (route, reason)
            assert reply.status in (400, 413), (route, reason)
    finally:
        stop.set()
        publisher.join()
    assert longest < CONFIRM_SECONDS
    assert highest - before < MEMORY_MAX


@pytest.mark.parametrize(
    ("path", "method", "body", "words"),
    [
        ("/api/queues/%2F/bodies", "PUT", '{"arguments":{"x":%s}}', "5000 values"),
        ("/api/exchanges/%2F/bodies", "PUT", '{"type":"fanout","arguments":{"x":%s}}', "5000 values"),
        ("/api/bindings/%2F/e/amq.topic/e/amq.fanout", "POST", '{"arguments":{"x":%s}}', "5000 values"),
        ("/api/definitions", "POST", '{"queues":[{"name":"x","vhost":"/","arguments":{"x":%s}}]}', "5000 values"),
    ],
)
def test_arguments_have_few_values(target: BrokerProcess, path: str, method: str, body: str, words: str) -> None:
    reply = ask_json(target, path, method=method, body=(body % json.dumps([0] * 6000)).encode())
    assert (reply.status, words in json.loads(reply.body)["reason"]) == (400, True)


def test_a_table_fits_a_frame(target: BrokerProcess) -> None:
    body = json.dumps({"arguments": {"x": "x" * 140_000}}).encode()
    reply = ask_json(target, "/api/queues/%2F/bodies", method="PUT", body=body)
    assert (reply.status, "limits.frame_max_bytes" in json.loads(reply.body)["reason"]) == (400, True)


def test_large_messages_and_large_definitions_go_on_working(target: BrokerProcess) -> None:
    """A payload of 10 MiB in each encoding, and a file of 20,000 queues."""
    payload = "é" * (5 << 20)
    message = {"routing_key": "x", "properties": {}, "payload": payload, "payload_encoding": "string"}
    assert ask_json(target, PUBLISH, method="POST", body=json.dumps(message, ensure_ascii=False).encode()).status == 200
    message |= {"payload": "QUJD" * (3 << 20), "payload_encoding": "base64"}
    assert ask_json(target, PUBLISH, method="POST", body=json.dumps(message).encode()).status == 200
    message |= {"payload": "QUJD" * (3 << 20) + "=" * 8}
    refused = ask_json(target, PUBLISH, method="POST", body=json.dumps(message).encode())
    assert (refused.status, json.loads(refused.body)["reason"][0]) == (400, "not_base64")
    queues = [{"name": f"many-{number}", "vhost": "/", "durable": False} for number in range(20_000)]
    assert (
        ask_json(target, "/api/definitions", method="POST", body=json.dumps({"queues": queues}).encode()).status == 204
    )
