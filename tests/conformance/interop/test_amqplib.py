"""Node's amqplib: a client that shares no code with Python's, installed by the test itself with npm."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.clients.node_amqplib import SECONDS_MAX, needs_node, node_environment
from harness.clients.wire_client import Address

pytestmark = [pytest.mark.slow, needs_node]

SCRIPT = Path(__file__).parent / "amqplib_client.js"


@pytest.fixture(scope="module")
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """In which node finds amqplib."""
    return node_environment(request.config, tmp_path_factory)


PROPERTIES = {
    "contentType": "text/plain",
    "contentEncoding": "utf-8",
    "headers": {
        "none": None,
        "yes": True,
        "small": 7,
        "big": 2**40,
        "float": 2.5,
        "text": "Häschen",
        "deep": {"list": [1, "two", {"three": 3}]},
    },
    "deliveryMode": 2,
    "priority": 3,
    "correlationId": "corr",
    "replyTo": "back",
    "expiration": "60000",
    "messageId": "id",
    "timestamp": 1_700_000_000,
    "type": "kind",
    "userId": "guest",
    "appId": "app",
}
RETURNED = {"code": 312, "text": "NO_ROUTE", "key": "nobody", "body": "x", "order": ["return", "confirm"]}
ERRORS = {
    "missing": [404, "NOT_FOUND - no queue 'no-such-queue' in vhost '/'"[:40]],
    "different": [406, "PRECONDITION_FAILED - inequivalent arg 'type'"[:40]],
    "reserved": [403, "ACCESS_REFUSED - exchange name 'amq.mine'"[:40]],
    "locked": [405, "RESOURCE_LOCKED - cannot obtain exclusive access"[:40]],
    "alive": 0,
}
ANSWERS = [["1", 2], ["2", 4], ["3", 6]]


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        ("confirms", {"count": 1000, "inOrder": True}),
        ("properties", PROPERTIES),
        ("returned", RETURNED),
        ("rpc", {"queue": ANSWERS, "direct": ANSWERS}),
        ("errors", ERRORS),
    ],
)
def test_a_scenario(broker: Address, environment: dict[str, str], scenario: str, expected: Any) -> None:
    command = ["node", str(SCRIPT), f"amqp://guest:guest@{broker[0]}:{broker[1]}", scenario]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == expected
