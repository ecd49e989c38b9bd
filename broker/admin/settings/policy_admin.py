"""Policies and operator policies: set, cleared and listed. They hold at once, for what exists and what comes."""

from __future__ import annotations

import json
from functools import partial

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.kinds.policy_check import checked
from broker.admin.kinds.policy_kind import value_of
from broker.admin.protocol import invalid, not_found
from broker.admin.views.listing import Row, View, cells, vhosts
from broker.entities.arguments.policies import Policy
from storage.definitions.definition_rows import PolicyRow, Put, delete


async def _set(administration: Administration, arguments: Arguments, *, operator: bool) -> None:
    """Set a policy, or replace the one of its name. The same once more changes nothing, so no time of expiry begins
    anew."""
    vhost = administration.vhost(arguments.text("vhost"))
    name, definition, priority = arguments.text("name"), arguments.json("definition"), arguments.value("priority")
    if not isinstance(definition, dict):
        raise invalid("expected a definition as names with values")
    apply_to = arguments.text("apply_to")
    policy = checked(name, arguments.json("pattern"), apply_to, definition, priority, operator=operator)
    if vhost.policy_application.policies.of(operator=operator).get(name) != policy:
        pattern = policy.pattern.pattern
        row = PolicyRow(vhost.name, name, pattern, apply_to, json.dumps(definition), policy.priority, operator)
        await administration.change(Put(row))


async def _clear(administration: Administration, arguments: Arguments, *, operator: bool) -> None:
    """Remove a policy. Whatever else matches what it applied to takes its place."""
    vhost, name = administration.vhost(arguments.text("vhost")), arguments.text("name")
    policies = vhost.policy_application.policies.of(operator=operator)
    if name not in policies and not await _stored(administration, vhost.name, name, operator=operator):
        raise not_found("Parameter does not exist")
    await administration.change(delete(PolicyRow, vhost=vhost.name, name=name, operator=operator))


async def _stored(administration: Administration, vhost: str, name: str, *, operator: bool) -> bool:
    """Whether the store has a policy: it also has those that a start could not apply."""
    stored = await administration.definitions.load()
    return any((row.vhost, row.name, row.operator) == (vhost, name, operator) for row in stored.policies)


def _list(administration: Administration, arguments: Arguments, *, operator: bool) -> list[Row]:
    """The policies, those of the highest priority last, as RabbitMQ lists them."""
    return [
        {"vhost": vhost.name, "name": policy.name, **value_of(policy)}
        for vhost in vhosts(administration, arguments)
        for policy in sorted(vhost.policy_application.policies.of(operator=operator).values(), key=_priority)
    ]


def _priority(policy: Policy) -> int:
    return policy.priority


set_policy = partial(_set, operator=False)
set_operator_policy = partial(_set, operator=True)
clear_policy = partial(_clear, operator=False)
clear_operator_policy = partial(_clear, operator=True)
POLICY_COLUMNS = ("vhost", "name", "pattern", "apply-to", "definition", "priority")
POLICIES = View(partial(_list, operator=False), cells(*POLICY_COLUMNS))
OPERATOR_POLICIES = View(partial(_list, operator=True), cells(*POLICY_COLUMNS))
