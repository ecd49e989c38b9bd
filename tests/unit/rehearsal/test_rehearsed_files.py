"""`leveret rehearse`: definitions and a rabbitmq.conf, as RabbitMQ 4.3.6 was seen to read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from broker.cli.testing.rehearse_command import rehearse
from broker.rehearsal.rehearsed_files import findings


def queue(name: str, *, durable: bool = True, vhost: str = "/", **arguments: Any) -> dict[str, Any]:
    """A queue of a definitions file; underscores of arguments stand for hyphens."""
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return {"name": name, "vhost": vhost, "durable": durable, "auto_delete": False, "arguments": given}


def policy(name: str, pattern: str, apply_to: str = "queues", **definition: Any) -> dict[str, Any]:
    """A policy of a definitions file."""
    given = {key.replace("_", "-"): value for key, value in definition.items()}
    return {"vhost": "/", "name": name, "pattern": pattern, "apply-to": apply_to, "definition": given, "priority": 0}


def binding(source: str, key: str) -> dict[str, Any]:
    """A binding of a definitions file."""
    ends = {"source": source, "destination": "q", "destination_type": "queue"}
    return {"vhost": "/", **ends, "routing_key": key, "arguments": {}}


def operator_policy(name: str, **value: Any) -> dict[str, Any]:
    """A parameter of a definitions file that is an operator policy."""
    return {"vhost": "/", "component": "operator_policy", "name": name, "value": value}


DEFINITIONS: list[tuple[dict[str, Any], list[tuple[str, str, str]]]] = [
    ({"queues": [queue("t", durable=False)]}, [("transient-queue", "t", "4.3")]),
    ({"queues": [queue("l", queue_master_locator="min-masters")]}, [("master-locator", "l", "4.3")]),
    ({"queues": [queue("v", queue_version=1)]}, [("queue-argument", "v", "4.3")]),
    ({"queues": [queue("c", consumer_timeout=1000)]}, [("queue-argument", "c", "4.3")]),
    ({"bindings": [binding("amq.topic", "#.a.#.b.#")]}, [("topic-wildcards", "amq.topic", "4.3")]),
    ({"bindings": [binding("amq.topic", "#.a.#"), binding("amq.direct", "#.#.#")]}, []),
    ({"policies": [policy("mirrors", "^a", ha_mode="all")]}, [("policy", "mirrors", "4.2")]),
    ({"policies": [policy("located", "^a", queue_master_locator="random")]}, [("policy", "located", "4.3")]),
    ({"policies": [policy("lazy", "^a", queue_mode="lazy", queue_version=1)]}, []),
    (
        {"parameters": [operator_policy("mirrors", pattern="^a", definition={"ha-mode": "all"}, priority=0)]},
        [("policy", "mirrors", "4.2")],
    ),
    (
        {"queues": [queue("mem1"), queue("loc1")], "policies": [policy("mem", "^mem", max_in_memory_length=9)]},
        [("policy-scope", "mem1", "4.2")],
    ),
    (
        {"queues": [queue("a", queue_type="quorum"), queue("b", queue_type="quorum", delivery_limit=5)]},
        [("default-limit", "a", "4.2")],
    ),
    (
        {
            "queues": [queue("a", queue_type="quorum"), queue("b", queue_type="quorum", delivery_limit=-1)],
            "policies": [policy("limits", "^a", "quorum_queues", delivery_limit=50)],
        },
        [],
    ),
    (
        {"vhosts": [{"name": "v", "default_queue_type": "quorum"}], "queues": [queue("a", vhost="v"), queue("b")]},
        [("default-limit", "a", "4.2")],
    ),
    (
        {"vhosts": [{"name": "v", "metadata": {"default_queue_type": "quorum"}}], "queues": [queue("a", vhost="v")]},
        [("default-limit", "a", "4.2")],
    ),
    ({"queues": [queue("fine", max_priority=5, queue_mode="lazy"), queue("s", queue_type="stream")]}, []),
]


@pytest.mark.parametrize(("definitions", "expected"), DEFINITIONS)
def test_definitions(tmp_path: Path, definitions: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(definitions))
    found = findings(file, None, "3.13", "4.3")
    assert [(finding["rule"], finding["name"], finding["since"]) for finding in found] == expected


def test_queues_that_would_lose_messages_are_named(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    queues = [queue(f"q{number}", queue_type="quorum") for number in range(12)]
    file.write_text(json.dumps({"queues": [*queues, queue("safe", queue_type="quorum", dead_letter_exchange="")]}))
    (finding,) = findings(file, None, "3.13", "4.2")
    assert (finding["count"], finding["name"]) == (13, f"{', '.join(f'q{number}' for number in range(10))} and 3 more")
    assert finding["detail"].startswith("limit 20; without a dead letter exchange: q0, ")


CONF = """
listeners.tcp.default = 5672
mqtt.default_user = guest
classic_queue.default_version = 1
channel_max = 100
deprecated_features.permit.ram_node_type = true
deprecated_features.permit.transient_nonexcl_queues = true
consumer_timeout = 900000
"""


def test_a_conf_and_what_it_permits(tmp_path: Path) -> None:
    (tmp_path / "definitions.json").write_text(json.dumps({"queues": [queue("t", durable=False)]}))
    (tmp_path / "rabbitmq.conf").write_text(CONF)
    files = "--definitions", str(tmp_path / "definitions.json"), "--conf", str(tmp_path / "rabbitmq.conf")
    ended = CliRunner().invoke(rehearse, [*files, "--format", "json"])
    report = json.loads(ended.output)
    assert (ended.exit_code, report["series"], report["runs"]) == (3, ["3.13", "4.3"], [])
    assert {(finding["rule"], finding["name"]) for finding in report["findings"]} == {
        ("conf-key", "mqtt.default_user"),
        ("conf-key", "classic_queue.default_version"),
        ("conf-renamed", "channel_max"),
        ("conf-permit", "deprecated_features.permit.ram_node_type"),
        ("conf-timeout", "consumer_timeout"),
    }
    ended = CliRunner().invoke(rehearse, [*files, "--to", "4.2"])
    assert (ended.exit_code, ended.output.splitlines()[0]) == (0, "Rehearsal with 3.13, 4.2: nothing differs")


@pytest.mark.parametrize("options", [[], ["--conf", "rabbitmq.conf", "--from", "4.2", "--to", "4.2"]])
def test_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rabbitmq.conf").write_text("")
    assert CliRunner().invoke(rehearse, [*options]).exit_code == 2
