"""Changes of exported definitions on their way: for a move to quorum queues, or without secrets."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from secrets import token_bytes
from typing import Any

from broker.rabbitmq.admin_v2.actions.listings import applies, matches
from broker.rabbitmq.admin_v2.run_settings import WRONG_LINE, Failure

Definitions = dict[str, Any]
MIRRORING = frozenset(
    {"ha-mode", "ha-params", "ha-promote-on-shutdown", "ha-promote-on-failure", "ha-sync-mode", "ha-sync-batch-size"}
)
"""Policy keys of mirrored queues, which RabbitMQ had before 4.0."""
NOT_OF_QUORUM = MIRRORING | {"queue-mode"}
ARGUMENTS_NOT_OF_QUORUM = {f"x-{key}" for key in NOT_OF_QUORUM} | {"x-max-priority"}
MIRRORING_ARGUMENTS = {f"x-{key}" for key in MIRRORING}
REJECTING = {"reject-publish-dlx": "reject-publish"}
"""Values of overflow that quorum queues have not got, and their nearest ones."""
TARGETS = {"quorum": "quorum_queues", "stream": "streams"}
HASH_BYTES = 36
"""Bytes of a salt and a hash by SHA-256."""


def _prepare_for_quorum_queues(definitions: Definitions) -> None:
    _strip_mirroring(definitions)
    for policy in definitions.get("policies", ()):
        policy["definition"] = _kept(policy["definition"], NOT_OF_QUORUM, "overflow")
    for queue in definitions.get("queues", ()):
        queue["arguments"] = _kept(queue.get("arguments", {}), MIRRORING_ARGUMENTS, "x-overflow")


def _kept(values: dict[str, Any], gone: frozenset[str] | set[str], overflow: str) -> dict[str, Any]:
    found = {key: value for key, value in values.items() if key not in gone}
    if overflow in found:
        found[overflow] = REJECTING.get(found[overflow], found[overflow])
    return found


def _strip_mirroring(definitions: Definitions) -> None:
    """Make classic queues that a policy mirrored quorum queues, and delete the keys that did so."""
    for policy in definitions.get("policies", ()):
        if not MIRRORING.intersection(policy["definition"]):
            continue
        policy["definition"] = _kept(policy["definition"], MIRRORING, "")
        for queue in _classic_queues(definitions, policy):
            queue.setdefault("arguments", {})["x-queue-type"] = "quorum"


def _classic_queues(definitions: Definitions, policy: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The classic queues that a policy matches."""
    for queue in definitions.get("queues", ()):
        kind = queue.get("arguments", {}).get("x-queue-type", "classic")
        target = policy.get("apply-to", "all")
        same = queue.get("vhost") == policy.get("vhost")
        if (
            same
            and kind == "classic"
            and applies(target, "classic_queues")
            and matches(policy["pattern"], queue["name"])
        ):
            yield queue


def _drop_empty_policies(definitions: Definitions) -> None:
    if "policies" in definitions:
        definitions["policies"] = [policy for policy in definitions["policies"] if policy["definition"]]


def _obfuscate_usernames(definitions: Definitions) -> None:
    """Give users other names and passwords that nobody knows, with the same permissions."""
    names = {user["name"]: f"obfuscated-user-{number}" for number, user in enumerate(definitions.get("users", ()), 1)}
    for user in definitions.get("users", ()):
        user["name"], user["password_hash"] = names[user["name"]], b64encode(token_bytes(HASH_BYTES)).decode()
    for permission in [*definitions.get("permissions", ()), *definitions.get("topic_permissions", ())]:
        permission["user"] = names.get(permission["user"], permission["user"])


def _without(*keys: str) -> Callable[[Definitions], None]:
    def exclude(definitions: Definitions) -> None:
        for key in keys:
            if key in definitions:
                definitions[key] = []

    return exclude


TRANSFORMATIONS: dict[str, Callable[[Definitions], None]] = {
    "prepare_for_quorum_queue_migration": _prepare_for_quorum_queues,
    "strip_cmq_keys_from_policies": _strip_mirroring,
    "drop_empty_policies": _drop_empty_policies,
    "obfuscate_usernames": _obfuscate_usernames,
    "exclude_users": _without("users"),
    "exclude_permissions": _without("permissions", "topic_permissions"),
    "exclude_runtime_parameters": _without("parameters"),
    "exclude_policies": _without("policies"),
    "no_op": _without(),
}
"""By their names on the command line."""


def transformed(definitions: Definitions, names: Sequence[str]) -> Definitions:
    """Definitions changed by transformations in turn. Raises Failure for a name that is not known."""
    for name in names:
        if name not in TRANSFORMATIONS:
            known = ", ".join(TRANSFORMATIONS)
            text = f"Unsupported argument value for property (field) transformations: {name}; known: {known}"
            raise Failure(text, WRONG_LINE)
        TRANSFORMATIONS[name](definitions)
    return definitions
