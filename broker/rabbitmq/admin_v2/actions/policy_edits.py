"""Policies declared, and their definitions changed key by key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.rabbitmq.admin_v2.command_call import CommandCall

Policy = dict[str, Any]
POLICIES, OPERATOR_POLICIES = "policies", "operator-policies"
BLANKET_PRIORITY = -20
"""The highest priority of a blanket policy."""
OVERRIDE = "overrides."
NAME_LENGTH = 255


class PolicyEdit:
    """Changes of policies, or of operator policies: `what` is their path."""

    def __init__(self, call: CommandCall, what: str) -> None:
        self._call, self._what = call, what

    def declare(self) -> None:
        """Declare the policy of the command line."""
        values = self._call.values
        self._put(
            {
                "vhost": self._call.vhost,
                "name": values["name"],
                "pattern": values["pattern"],
                "apply-to": values["apply_to"],
                "priority": self._call.whole("priority", signed=True),
                "definition": self._call.json("definition"),
            }
        )

    def declare_override(self) -> None:
        """Declare a copy of a policy with some keys more, that goes before it."""
        policy = self._named()
        name = self._call.values["override_name"] or f"{OVERRIDE}{policy['name'][: NAME_LENGTH - len(OVERRIDE)]}"
        definition = {**policy["definition"], **self._call.json("definition")}
        self._put({**policy, "name": name, "priority": policy["priority"] + 100, "definition": definition})

    def declare_blanket(self) -> None:
        """Declare a policy for all that no other one of the virtual host takes."""
        lowest = min((policy["priority"] for policy in self._of_vhost()), default=0)
        values = self._call.values
        self._put(
            {
                "vhost": self._call.vhost,
                "name": values["name"],
                "pattern": ".*",
                "apply-to": values["apply_to"],
                "priority": min(lowest - 1, BLANKET_PRIORITY),
                "definition": self._call.json("definition"),
            }
        )

    def patch(self) -> None:
        """Merge keys into a policy's definition."""
        policy, more = self._named(), self._call.json("definition")
        self._put({**policy, "definition": {**policy["definition"], **more}})

    def update(self) -> None:
        """Set one key of a policy."""
        self._set(self._named())

    def update_of_vhost(self) -> None:
        """Set one key of all policies of the virtual host."""
        for policy in self._of_vhost():
            self._set(policy)

    def update_all(self) -> None:
        """Set one key of all policies."""
        for policy in self._call.list(self._what):
            self._set(policy)

    def delete_keys(self) -> None:
        """Delete keys of a policy."""
        self._put(self._without_keys(self._named()))

    def delete_keys_of_vhost(self) -> None:
        """Delete keys of all policies of the virtual host; one that would have none left keeps them."""
        self._delete_keys_of(self._of_vhost())

    def delete_keys_of_all(self) -> None:
        """Delete keys of all policies; one that would have none left keeps them."""
        self._delete_keys_of(self._call.list(self._what))

    def _delete_keys_of(self, policies: list[Policy]) -> None:
        for policy in map(self._without_keys, policies):
            if policy["definition"]:
                self._put(policy)

    def _without_keys(self, policy: Policy) -> Policy:
        gone = self._call.values["definition_keys"]
        kept = {key: value for key, value in policy["definition"].items() if key not in gone}
        return {**policy, "definition": kept}

    def _set(self, policy: Policy) -> None:
        value = self._call.any_json(self._call.values["new_value"])
        self._put({**policy, "definition": {**policy["definition"], self._call.values["definition_key"]: value}})

    def _named(self) -> Policy:
        found: Policy = self._call.get(self._call.path(f"{self._what}/{{vhost}}/{{name}}"))
        return found

    def _of_vhost(self) -> list[Policy]:
        return self._call.list(self._call.path(f"{self._what}/{{vhost}}"))

    def _put(self, policy: Policy) -> None:
        path = self._call.path(f"{self._what}/{{vhost}}/{{name}}", vhost=policy["vhost"], name=policy["name"])
        body = {key: policy[key] for key in ("pattern", "apply-to", "priority", "definition")}
        self._call.ask("PUT", path, body)


EDITS: dict[str, tuple[str, Callable[[PolicyEdit], None]]] = {
    "declare policy": (POLICIES, PolicyEdit.declare),
    "declare operator_policy": (OPERATOR_POLICIES, PolicyEdit.declare),
    "policies declare_override": (POLICIES, PolicyEdit.declare_override),
    "policies declare_blanket": (POLICIES, PolicyEdit.declare_blanket),
    "policies patch": (POLICIES, PolicyEdit.patch),
    "operator_policies patch": (OPERATOR_POLICIES, PolicyEdit.patch),
    "policies update_definition": (POLICIES, PolicyEdit.update),
    "operator_policies update_definition": (OPERATOR_POLICIES, PolicyEdit.update),
    "policies update_definitions_of_all_in": (POLICIES, PolicyEdit.update_of_vhost),
    "operator_policies update_definitions_of_all_in": (OPERATOR_POLICIES, PolicyEdit.update_of_vhost),
    "policies update_definitions_of_all": (POLICIES, PolicyEdit.update_all),
    "policies delete_definition_keys": (POLICIES, PolicyEdit.delete_keys),
    "operator_policies delete_definition_keys": (OPERATOR_POLICIES, PolicyEdit.delete_keys),
    "policies delete_definition_keys_from_all_in": (POLICIES, PolicyEdit.delete_keys_of_vhost),
    "operator_policies delete_definition_keys_from_all_in": (OPERATOR_POLICIES, PolicyEdit.delete_keys_of_vhost),
    "policies delete_definition_keys_from_all": (POLICIES, PolicyEdit.delete_keys_of_all),
}
"""By the names of their commands: the path of the policies, and the change."""
