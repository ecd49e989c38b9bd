"""Keys of policies by personality: taken, refused, merged with an operator policy's.

4.3 as measured on RabbitMQ 4.3.6, which has neither mirrors nor queue-master-locator; 3.13 and 4.2 from the sources.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.entities.arguments.personality import PERSONALITIES
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import ask, web_address, web_broker
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client

pytestmark = pytest.mark.skipif(bool(REFERENCE), reason="a RabbitMQ has one personality")

SETTINGS = '[identity]\npersonality = "{}"\n'
FAILED = "Validation failed\n\n{}\n"
ALL, OF_3, SINCE_3_13, SINCE_4, OF_4_3 = (
    frozenset(names.split()) for names in ("3.10 3.13 4.2 4.3", "3.10 3.13", "3.13 4.2 4.3", "4.2 4.3", "4.3")
)

POLICIES: list[tuple[dict[str, Any], frozenset[str]]] = [
    ({"ha-mode": "all"}, OF_3),
    ({"queue-master-locator": "min-masters"}, ALL - OF_4_3),
    ({"queue-mode": "lazy", "queue-version": 1, "max-in-memory-length": 5}, ALL),
    ({"target-group-size": 3, "stream-filter-size-bytes": 16}, SINCE_3_13),
    ({"consumer-timeout": 0, "initial-cluster-size": 0}, ALL),
    ({"consumer-disconnected-timeout": 5}, OF_4_3),
    ({"delayed-retry-type": "all", "delayed-retry-min": 5, "delayed-retry-max": 5}, OF_4_3),
    ({"delayed-retry-max": 5}, OF_4_3),
    ({"delayed-retry-type": "disabled"}, OF_4_3),
    ({"delivery-limit": -1}, SINCE_4),
]
OPERATORS: list[tuple[dict[str, Any], frozenset[str]]] = [
    ({"overflow": "reject-publish", "queue-version": 2, "target-group-size": 1}, SINCE_3_13),
    ({"ha-mode": "all"}, frozenset({"3.13"})),
    ({"delayed-retry-min": 5}, OF_4_3),
    ({"consumer-timeout": 5}, frozenset()),
    ({"max-age": "1h"}, frozenset()),
]
REFUSED_BY_4_3 = [
    ({"ha-mode": "all"}, '[{<<"ha-mode">>,<<"all">>}] are not recognised policy settings'),
    ({"queue-master-locator": "x"}, "use of deprecated queue-master-locator argument is not permitted"),
    ({"queue-mode": "foo"}, '<<"foo">> is not a valid queue-mode value'),
    ({"target-group-size": 0}, "0 is not a valid qq target count value"),
    ({"stream-filter-size-bytes": 5}, "5 is not a valid filter size. Valid range is 16-255"),
    ({"consumer-timeout": -1}, "-1 is not a valid consumer timeout"),
    ({"consumer-disconnected-timeout": -1}, "-1 is not a valid consumer disconnected timeout"),
    ({"delivery-limit": "unlimited"}, '<<"unlimited">> is not a valid delivery limit'),
    ({"delivery-limit": 1.5}, "1.5 is not a valid delivery limit"),
    (
        {"delayed-retry-type": "foo", "delayed-retry-min": 1},
        '<<"foo">> is not a valid delayed retry type. Must be one of: all, failed, returned, disabled',
    ),
    ({"delayed-retry-min": -1}, "-1 is not a valid delayed retry minimum delay. Must be a positive integer"),
    ({"delayed-retry-max": 0}, "0 is not a valid delayed retry maximum delay. Must be a positive integer"),
    ({"delayed-retry-type": "all"}, "delayed-retry-min is required when delayed-retry-type is all"),
    (
        {"delayed-retry-min": 5, "delayed-retry-max": 2},
        "delayed-retry-max (2) must not be smaller than delayed-retry-min (5)",
    ),
]


@pytest.fixture(scope="module", params=PERSONALITIES)
def personality(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def process(personality: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = web_broker(tmp_path_factory.mktemp("policies"), SETTINGS.format(personality))
    process.start()
    yield process
    process.stop()


def put(process: BrokerProcess, path: str, definition: dict[str, Any], **others: Any) -> tuple[int, str]:
    body = json.dumps({"pattern": "^q", "definition": definition, **others}).encode()
    reply = ask(web_address(process), f"/api/{path}", method="PUT", body=body, content_type="application/json")
    return reply.status, json.loads(reply.body)["reason"] if reply.body else ""


def test_keys_of_policies(process: BrokerProcess, personality: str) -> None:
    for definition, series in POLICIES:
        status, _ = put(process, "policies/%2F/p", definition)
        assert (status < 300) == (personality in series), definition
    for definition, series in OPERATORS:
        status, _ = put(process, "operator-policies/%2F/p", definition)
        assert (status < 300) == (personality in series), definition


def test_refusals_of_4_3(process: BrokerProcess, personality: str) -> None:
    if personality != "4.3":
        return
    for definition, text in REFUSED_BY_4_3:
        assert put(process, "policies/%2F/p", definition) == (400, FAILED.format(text))
    words = "'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'"
    refused = FAILED.format(f"apply-to 'nope' unrecognised; should be one of: {words}")
    assert put(process, "policies/%2F/p", {"max-length": 1}, **{"apply-to": "nope"}) == (400, refused)


def test_an_operators_word_counts(process: BrokerProcess, personality: str) -> None:
    """Since 3.13 for the overflow; the larger group size, the smaller length."""
    if personality == "3.10":
        return
    client = Client.connect(process.address)
    client.ask(queue_declare("qq", durable=True, arguments={"x-queue-type": "quorum"}))
    put(process, "policies/%2F/p", {"overflow": "drop-head", "max-length": 5, "target-group-size": 2})
    put(process, "operator-policies/%2F/o", {"overflow": "reject-publish", "max-length": 9, "target-group-size": 5})
    reply = ask(web_address(process), "/api/queues/%2F/qq?columns=effective_policy_definition")
    effective = json.loads(reply.body)["effective_policy_definition"]
    assert effective == {"overflow": "reject-publish", "max-length": 5, "target-group-size": 5}
    client.close()


def test_a_policy_of_another_personality_applies_after_a_restart(tmp_path: Path) -> None:
    """As in an upgraded RabbitMQ: an unknown key has no effect, the others go on."""
    process = web_broker(tmp_path, SETTINGS.format("3.13"))
    process.start()
    put(process, "policies/%2F/p", {"queue-master-locator": "min-masters", "max-length": 1})
    process.stop()
    settings = tmp_path / "web.toml"
    settings.write_text(settings.read_text().replace("3.13", "4.3"))
    process.start()
    client = Client.connect(process.address)
    client.ask(queue_declare("q", durable=True))
    reply = ask(web_address(process), "/api/queues/%2F/q?columns=policy")
    assert json.loads(reply.body) == {"policy": "p"}
    client.close()
    process.stop()
