"""Regular expressions that keep an engine busy, set by whoever may set them: another client's confirms go on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from broker.wire.methods import BasicPublish, ConfirmSelect
from harness.attacks.benign_client import Good
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import WITHOUT_METRICS, ask, web_address
from harness.clients.shorthand import queue_bind, queue_declare
from harness.clients.wire_client import Client
from tests.planted.planted_catalogue import with_mistake

QUEUES = 300
PATIENCE = 2.0
"""Seconds in which a confirm comes, on any machine; an expression that is not given up takes many."""

PATTERNS = [
    r"(a+)\1+$",
    "(a|aa)+$",
    "(.*)*x$",
    "((a{0,5}){0,5}){0,5}b",
    "(((a{1,1000}){1,1000}))z",
    "(a|aa)" * 40 + "b",
    "|".join(["(a+)+!x"] * 300),
]

pytestmark = pytest.mark.slow


def name(number: int) -> str:
    """A name of 240 characters that the patterns nearly match, in any of many ways."""
    return f"{'a' * 230}!{number:07}xb"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with 300 queues of long names, and a user who may set policies and administers nothing."""
    process = broker(tmp_path_factory.mktemp("hostile-patterns"))
    yield process
    if process.running:
        process.kill()


def broker(directory: Path, environment: dict[str, str] | None = None) -> BrokerProcess:
    settings = directory / "web.toml"
    settings.write_text('[management]\nlisten = ["127.0.0.1:0"]\n')
    process = BrokerProcess(directory / "data", "--config", str(settings), environment=environment)
    process.http = WITHOUT_METRICS
    process.start()
    client = Client.connect(process.address)
    for number in range(QUEUES):
        client.ask(queue_declare(name(number), durable=True))
    client.close()
    for user, tags in (("policymaker", "policymaker"), ("tenant", "")):
        assert changed(process, f"users/{user}", {"password": "secret", "tags": tags}, user="guest:guest") == 201
        allowed = {"configure": ".*", "write": ".*", "read": ".*"}
        assert changed(process, f"permissions/%2F/{user}", allowed, user="guest:guest") == 201
    return process


def changed(process: BrokerProcess, path: str, body: Any, *, user: str = "policymaker:secret") -> int:
    """Put something; the status of the answer."""
    sent = json.dumps(body).encode()
    return ask(web_address(process), f"/api/{path}", method="PUT", user=user, body=sent).status


def policy(pattern: str) -> dict[str, Any]:
    return {"pattern": pattern, "definition": {"max-length": 1000}, "priority": 0, "apply-to": "queues"}


def longest_wait(process: BrokerProcess, begin: Callable[[], Future[Any]]) -> float:
    """Return the longest time of a message, from its publish to its confirm and delivery, until `begin`'s future is
    done."""
    good, longest = Good(process.address, timeout=2 * PATIENCE), 0.0
    work = begin()
    try:
        while longest < PATIENCE:
            done, began = work.done(), time.monotonic()
            good.round_trip()
            longest = max(longest, time.monotonic() - began)
            if done:
                work.result()
                break
    except TimeoutError:
        return inf
    finally:
        good.client.close()
    return longest


@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
def test_policies(target: BrokerProcess, pattern: str) -> None:
    """At a change of policy, at declarations, at another change, and at a start."""
    path, client = "policies/%2F/slow", Client.connect(target.address)
    with ThreadPoolExecutor() as threads:
        for body in (policy(pattern), {**policy(pattern), "priority": 1}):
            assert longest_wait(target, partial(threads.submit, put_policy, target, path, body)) < PATIENCE
        assert longest_wait(target, partial(threads.submit, declare_many, client)) < PATIENCE
    client.close()
    began = time.monotonic()
    target.kill_and_restart()
    assert time.monotonic() - began < 10 * PATIENCE
    told = ask(web_address(target), f"/api/queues/%2F/{quote(name(0))}")
    assert json.loads(told.body)["name"] == name(0)
    with ThreadPoolExecutor() as threads:
        assert longest_wait(target, partial(threads.submit, clear_policy, target, path)) < PATIENCE


def put_policy(process: BrokerProcess, path: str, body: Any) -> None:
    assert changed(process, path, body) in {201, 204}


def clear_policy(process: BrokerProcess, path: str) -> None:
    assert ask(web_address(process), f"/api/{path}", method="DELETE", user="policymaker:secret").status == 204


def declare_many(client: Client) -> None:
    for number in range(50):
        client.ask(queue_declare(f"{name(number)}-new", exclusive=True))


def test_the_log_names_once_what_is_given_up(target: BrokerProcess) -> None:
    """A policy, however many names it is given up on, and a permission, however often a client tries."""
    assert changed(target, "policies/%2F/once", policy(PATTERNS[1])) == 201
    assert target.log().count("policy 'once' of vhost '/' is not applied") == 1
    assert ask(web_address(target), "/api/policies/%2F/once", method="DELETE").status == 204
    permission = {"configure": PATTERNS[1], "write": ".*", "read": ".*"}
    assert changed(target, "permissions/%2F/tenant", permission, user="guest:guest") == 204
    client, before = Client.connect(target.address, user="tenant", password="secret"), target.log().count(REFUSED)
    refused_queues(client)
    client.close()
    assert target.log().count(REFUSED) == before + 1


@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
def test_permissions(target: BrokerProcess, pattern: str) -> None:
    """A pattern that is given up is refused: 403."""
    permission = {"configure": pattern, "write": ".*", "read": ".*"}
    assert changed(target, "permissions/%2F/tenant", permission, user="guest:guest") == 204
    client = Client.connect(target.address, user="tenant", password="secret")
    with ThreadPoolExecutor() as threads:
        assert longest_wait(target, partial(threads.submit, refused_queues, client)) < PATIENCE
    client.close()


REFUSED = "user 'tenant', vhost '/': configure is refused: regular expression"


def refused_queues(client: Client) -> None:
    for number in range(50):
        assert "channel 403" in client.refusal(queue_declare(f"{name(number)}!"))


@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
def test_topic_permissions(target: BrokerProcess, pattern: str) -> None:
    allowed = {"configure": ".*", "write": ".*", "read": ".*"}
    assert changed(target, "permissions/%2F/tenant", allowed, user="guest:guest") == 204
    topic = {"exchange": "amq.topic", "write": pattern, "read": pattern}
    assert changed(target, "topic-permissions/%2F/tenant", topic, user="guest:guest") in {201, 204}
    client = Client.connect(target.address, user="tenant", password="secret")
    client.ask(queue_declare("topics", exclusive=True))
    with ThreadPoolExecutor() as threads:
        assert longest_wait(target, partial(threads.submit, refused_topics, client)) < PATIENCE
    client.ask(ConfirmSelect(False))
    client.publish(b"", exchange="amq.topic", key=name(0) + "!")
    assert "403" in client.closing(BasicPublish)
    client.close()


def refused_topics(client: Client) -> None:
    for number in range(50):
        assert "channel 403" in client.refusal(queue_bind("topics", "amq.topic", f"{name(number)}!"))


@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
def test_filters_of_lists(target: BrokerProcess, pattern: str) -> None:
    path = f"/api/queues?page=1&use_regex=true&name={quote(pattern)}"
    with ThreadPoolExecutor() as threads:
        assert longest_wait(target, partial(threads.submit, filter_queues, target, path)) < PATIENCE


def filter_queues(process: BrokerProcess, path: str) -> None:
    assert ask(web_address(process), path).status in {200, 400}


def test_what_is_too_large_is_refused(target: BrokerProcess) -> None:
    for pattern in ("a|" * 5000 + "b", "(?:(?:ab){1,1000}){1,1000}", "(?<n>)" * 5000):
        reply = ask(
            web_address(target),
            "/api/policies/%2F/large",
            method="PUT",
            user="policymaker:secret",
            body=json.dumps(policy(pattern)).encode(),
        )
        assert reply.status == 400
        assert b"regular expression is too large" in reply.body


def test_a_broker_that_does_all_at_once_is_found_out(tmp_path: Path) -> None:
    process = broker(tmp_path, with_mistake("patterns without a limit"))
    try:
        with ThreadPoolExecutor() as threads:
            setting = partial(threads.submit, put_policy, process, "policies/%2F/slow", policy(PATTERNS[1]))
            assert longest_wait(process, setting) > PATIENCE
            process.kill()
    finally:
        if process.running:
            process.kill()
