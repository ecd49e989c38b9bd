"""Definitions changed on their way out of `rabbitmqadmin` version 2."""

from __future__ import annotations

from typing import Any

import pytest

from broker.rabbitmq.admin_v2.actions.definition_transformations import transformed
from broker.rabbitmq.admin_v2.run_settings import Failure


def queue(name: str, kind: str | None = None, vhost: str = "/", **arguments: object) -> dict[str, Any]:
    typed = {} if kind is None else {"x-queue-type": kind}
    return {"vhost": vhost, "name": name, "arguments": {**arguments, **typed}}


def policy(name: str, pattern: str, target: str = "queues", **definition: object) -> dict[str, Any]:
    keys = {key.replace("_", "-"): value for key, value in definition.items()}
    return {"vhost": "/", "name": name, "pattern": pattern, "apply-to": target, "definition": keys}


def test_queues_that_were_mirrored_become_quorum_queues() -> None:
    definitions = {
        "policies": [policy("ha", "^m", ha_mode="all", expires=5), policy("all", ".*", max_length=9)],
        "queues": [queue("m1"), queue("m2", "stream"), queue("m3", vhost="other"), queue("n")],
    }
    found = transformed(definitions, ["strip_cmq_keys_from_policies"])
    assert [each["definition"] for each in found["policies"]] == [{"expires": 5}, {"max-length": 9}]
    assert [each["arguments"].get("x-queue-type") for each in found["queues"]] == ["quorum", "stream", None, None]


def test_what_quorum_queues_have_not_got_goes_or_becomes_the_nearest() -> None:
    definitions = {
        "policies": [policy("ha", "^q", ha_mode="all", queue_mode="lazy", overflow="reject-publish-dlx")],
        "queues": [queue("q", **{"x-ha-mode": "all", "x-overflow": "reject-publish-dlx", "x-expires": 1})],
    }
    found = transformed(definitions, ["prepare_for_quorum_queue_migration"])
    assert found["policies"][0]["definition"] == {"overflow": "reject-publish"}
    assert found["queues"][0]["arguments"] == {
        "x-overflow": "reject-publish",
        "x-expires": 1,
        "x-queue-type": "quorum",
    }


def test_policies_without_keys_are_dropped() -> None:
    definitions = {"policies": [policy("ha", "a", ha_mode="all"), policy("b", "b", expires=1)]}
    names = ["strip_cmq_keys_from_policies", "drop_empty_policies"]
    assert [each["name"] for each in transformed(definitions, names)["policies"]] == ["b"]


def test_names_and_passwords_of_users_are_replaced() -> None:
    definitions = {
        "users": [{"name": "ann", "password_hash": "h", "tags": ["administrator"]}],
        "permissions": [{"user": "ann", "vhost": "/"}, {"user": "gone", "vhost": "/"}],
    }
    found = transformed(definitions, ["obfuscate_usernames"])
    (user,) = found["users"]
    assert (user["name"], user["tags"], len(user["password_hash"])) == ("obfuscated-user-1", ["administrator"], 48)
    assert [each["user"] for each in found["permissions"]] == ["obfuscated-user-1", "gone"]


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("exclude_users", {"permissions", "parameters", "policies"}),
        ("exclude_permissions", {"users", "parameters", "policies"}),
        ("exclude_runtime_parameters", {"users", "permissions", "policies"}),
        ("exclude_policies", {"users", "permissions", "parameters"}),
        ("no_op", {"users", "permissions", "parameters", "policies"}),
    ],
)
def test_parts_are_left_out(name: str, left: set[str]) -> None:
    parts = ("users", "permissions", "parameters", "policies")
    found = transformed({part: [{"name": part}] for part in parts}, [name])
    assert {part for part in parts if found[part]} == left


def test_a_transformation_that_is_not_known_is_an_error() -> None:
    with pytest.raises(Failure, match="nosuch; known: prepare_for"):
        transformed({}, ["no_op", "nosuch"])
