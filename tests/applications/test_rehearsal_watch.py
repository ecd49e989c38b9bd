"""The watch of the rehearsal: each application meets the rules that are known of it, and healthy ones none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from leveret.testing import Broker
from leveret.testing.rehearsal.rehearsal_runs import variables
from tests.applications.rehearsed_applications import BROKEN, HEALTHY, Application, connected, queue

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def watching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with the personality 3.13 that watches for 4.3."""
    with Broker(tmp_path_factory.mktemp("broker"), variables=variables("3.13", "4.3")) as broker:
        yield broker


def noted(broker: Broker, name: str) -> list[dict[str, Any]]:
    """The findings about a connection."""
    return [finding for finding in broker.findings()["findings"] if finding["connection"] == name]


@pytest.mark.parametrize("application", BROKEN, ids=lambda each: each.__name__)
def test_an_application_meets_its_rules(watching: Broker, application: Application) -> None:
    before = {json.dumps(finding) for finding in watching.findings()["findings"]}
    application(watching.url)
    found = [finding for finding in watching.findings()["findings"] if json.dumps(finding) not in before]
    assert {finding["rule"] for finding in found} == BROKEN[application]
    assert len({finding["connection"] for finding in found}) == 1
    assert all(finding["since"] in ("4.2", "4.3") and finding["remedy"] for finding in found)


@pytest.mark.parametrize("application", HEALTHY, ids=lambda each: each.__name__)
def test_a_healthy_application_meets_none(watching: Broker, application: Application) -> None:
    before = watching.findings()
    application(watching.url)
    assert watching.findings() == before


def test_findings_are_counted_by_object_and_client_and_logged_once(watching: Broker) -> None:
    for _ in range(3):
        with connected(watching.url, "reporter") as connection:
            connection.channel().queue_declare("report-0b6d2c1e-8f0a-4a55-9d3c-111122223333")
    with connected(watching.url, "reporter") as connection:
        connection.channel().queue_declare("report-99999999-8f0a-4a55-9d3c-111122223333")
    (finding,) = noted(watching, "reporter")
    assert (finding["name"], finding["count"], finding["level"]) == ("report-*", 4, "refused")
    assert watching.log().count("connection 'reporter': with 4.3: neither durable nor exclusive") == 1


def ask(broker: Broker, method: str, path: str, body: dict[str, Any] | None = None) -> None:
    """Send a request to the management API."""
    data = None if body is None else json.dumps(body).encode()
    asked = Request(f"{broker.http_url.replace('guest:guest@', '')}/api/{path}", data, method=method)
    asked.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
    asked.add_header("User-Agent", "NServiceBus")
    urlopen(asked).close()


def test_policies_and_questions_for_a_delivery_limit(watching: Broker) -> None:
    with connected(watching.url, "endpoint") as connection:
        queue(connection.channel(), "endpoint", queue_type="quorum")
    ask(watching, "GET", "queues/%2f/endpoint")
    (finding,) = noted(watching, "HTTP client NServiceBus")
    assert (finding["rule"], finding["name"], finding["detail"]) == ("limit-shown", "endpoint", "delivery_limit: 20")
    ask(watching, "PUT", "policies/%2f/mirrors", {"pattern": "^a", "definition": {"ha-mode": "all"}})
    (finding,) = noted(watching, "administration")
    assert (finding["rule"], finding["since"], finding["kind"]) == ("policy", "4.2", "policy")
    assert "ha-mode" in finding["detail"]


def test_a_timeout_is_noted(tmp_path: Path) -> None:
    settings = "[limits]\nconsumer_timeout_seconds = 60\n"
    with Broker(tmp_path, settings=settings, variables=variables("3.13", "4.3")) as broker:
        with connected(broker.url, "slow") as connection:
            channel = connection.channel()
            channel.basic_publish("", queue(channel, "slow"), b"")
            channel.basic_get("slow")
            broker.clock.step(180)
            (finding,) = noted(broker, "slow")
        assert (finding["rule"], finding["name"], finding["detail"]) == ("consumer-timeout", "slow", "60000 ms")
        (closure,) = broker.findings()["closures"]
        assert (closure["connection"], closure["code"]) == ("slow", 406)
        ask(broker, "DELETE", "rehearsal")
        assert broker.findings() == {"series": "3.13", "watch": "4.3", "findings": [], "closures": [], "missed": 0}


def test_a_cancelled_consumer_is_noted(tmp_path: Path) -> None:
    settings = "[limits]\nconsumer_timeout_seconds = 60\n"
    with Broker(tmp_path, settings=settings, variables=variables("4.3", "4.3")) as broker:
        with connected(broker.url, "slow") as connection:
            channel = connection.channel()
            channel.basic_publish("", queue(channel, "slow", queue_type="quorum"), b"")
            channel.basic_consume("slow", lambda *_: None)
            broker.expect("delivered", queue="slow")
            broker.clock.step(61)
            (closure,) = broker.findings()["closures"]
        assert (closure["connection"], closure["code"]) == ("slow", 0)
        assert closure["text"].startswith("a consumer of queue 'slow' is cancelled")


def test_without_the_setting_nothing_is_noted(tmp_path: Path) -> None:
    with Broker(tmp_path, variables=variables("3.13")) as broker:
        with connected(broker.url, "reporter") as connection:
            connection.channel().queue_declare("report")
        assert broker.findings() == {"series": "3.13", "watch": "", "findings": [], "closures": [], "missed": 0}
