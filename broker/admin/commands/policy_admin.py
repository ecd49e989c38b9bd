"""Policies and operator policies: set, cleared and listed. They apply at once, to existing and to new objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from broker.admin.commands.admin_command import AdminChange, LongQuestion, RowList, Text, VhostList
from broker.admin.commands.argument_values import json_value
from broker.admin.protocol import invalid, not_found
from storage.definitions.definition_rows import PolicyRow, Put, delete

if TYPE_CHECKING:
    from broker.admin.administration import Administration

POLICY_COLUMNS = ("vhost", "name", "pattern", "apply-to", "definition", "priority")


class _SetPolicy(AdminChange):
    """Set a policy, or replace the one with its name. An equal one changes nothing: expiry is not restarted."""

    operator: ClassVar[bool] = False
    vhost: Text
    name: Text
    pattern: object
    definition: object
    priority: object
    apply_to: Text

    async def apply(self, administration: Administration) -> None:
        from broker.admin.kinds.policy_check import checked, rehearse

        vhost = administration.vhost(self.vhost)
        definition = json_value(self.definition, "definition")
        if not isinstance(definition, dict):
            raise invalid("expected a definition as names with values")
        pattern = json_value(self.pattern, "pattern")
        given = self.name, pattern, self.apply_to, definition, self.priority
        policy = checked(*given, administration.broker.personality, operator=self.operator)
        where = vhost.name, self.name, self.apply_to, definition
        rehearse(administration.broker.watch, *where, operator=self.operator)
        if vhost.policy_application.policies.of(operator=self.operator).get(self.name) != policy:
            stored = policy.pattern.pattern, self.apply_to, json.dumps(definition), policy.priority
            await administration.change(Put(PolicyRow(vhost.name, self.name, *stored, self.operator)))


class _ClearPolicy(AdminChange):
    """Remove a policy. The next one that matches applies instead."""

    operator: ClassVar[bool] = False
    vhost: Text
    name: Text

    async def apply(self, administration: Administration) -> None:
        vhost = administration.vhost(self.vhost)
        policies = vhost.policy_application.policies.of(operator=self.operator)
        if self.name not in policies and not await self._is_stored(administration):
            raise not_found("Parameter does not exist")
        await administration.change(delete(PolicyRow, vhost=vhost.name, name=self.name, operator=self.operator))

    async def _is_stored(self, administration: Administration) -> bool:
        """Look into the store, which also has policies that a start could not apply."""
        stored = await administration.definitions.load()
        key = self.vhost, self.name, self.operator
        return any((row.vhost, row.name, row.operator) == key for row in stored.policies)


class SetPolicy(_SetPolicy):
    """Set a policy."""

    log_words: ClassVar[str] = "policy '{name}' of virtual host '{vhost}' is set"


class SetOperatorPolicy(_SetPolicy):
    """Set an operator policy."""

    operator: ClassVar[bool] = True
    log_words: ClassVar[str] = "operator policy '{name}' of virtual host '{vhost}' is set"


class ClearPolicy(_ClearPolicy):
    """Remove a policy."""

    log_words: ClassVar[str] = "policy '{name}' of virtual host '{vhost}' is cleared"


class ClearOperatorPolicy(_ClearPolicy):
    """Remove an operator policy."""

    operator: ClassVar[bool] = True
    log_words: ClassVar[str] = "operator policy '{name}' of virtual host '{vhost}' is cleared"


class ListPolicies(VhostList, RowList):
    """List policies, the highest priority last, as RabbitMQ does."""

    operator: ClassVar[bool] = False
    row_columns: ClassVar[tuple[str, ...]] = POLICY_COLUMNS

    def rows(self, administration: Administration) -> list[dict[str, Any]]:
        from broker.admin.kinds.policy_kind import value_of

        return [
            {"vhost": vhost.name, "name": policy.name, **value_of(policy)}
            for vhost in administration.vhosts(self.vhost)
            for policy in sorted(
                vhost.policy_application.policies.of(operator=self.operator).values(),
                key=lambda policy: policy.priority,
            )
        ]


class ListMatchingPolicies(LongQuestion):
    """List the policies that a queue could have, or an exchange, the one in force first.

    Raises AdministrationError `not_found` for a queue that does not exist.
    """

    vhost: Text
    name: Text
    of_exchange: bool = False

    async def answer(self, administration: Administration) -> list[dict[str, Any]]:
        from broker.admin.kinds.policy_kind import value_of
        from broker.admin.short_steps import in_steps
        from broker.entities.arguments.policy_keys import EXCHANGE

        vhost = administration.vhost(self.vhost)
        kind = EXCHANGE if self.of_exchange else administration.queue(self.vhost, self.name).type.name
        policies = vhost.policy_application.policies.ordinary
        strongest_first = sorted(policies.by_name.values(), key=lambda policy: (-policy.priority, policy.name))
        return [
            {"vhost": vhost.name, "name": policy.name, **value_of(policy)}
            async for policy in in_steps(strongest_first)
            if policies.applies(policy, kind, self.name)
        ]


class ListOperatorPolicies(ListPolicies):
    """List operator policies."""

    operator: ClassVar[bool] = True
