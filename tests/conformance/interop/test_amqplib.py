"""Node's amqplib: a client that shares no code with Python's, installed by the test itself with npm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.clients.wire_client import Address

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None or shutil.which("npm") is None, reason="node or npm is missing"),
]

VERSION = "2.3.1"
SCRIPT = Path(__file__).parent / "amqplib_client.js"
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which node finds amqplib, installed once into pytest's cache; without a cache, each time."""
    cache: pytest.Cache | None = getattr(request.config, "cache", None)
    directory = tmp_path_factory.mktemp("amqplib") if cache is None else cache.mkdir(f"amqplib-{VERSION}")
    modules = directory / "node_modules"
    if not (modules / "amqplib").is_dir():
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(directory), f"amqplib@{VERSION}"]
        subprocess.run(command, check=True, capture_output=True, timeout=SECONDS_MAX)
    return {**os.environ, "NODE_PATH": str(modules)}


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
