"""Policies and operator policies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.responses import Response

from broker.admin.commands.policy_admin import (
    POLICY_COLUMNS,
    ClearOperatorPolicy,
    ClearPolicy,
    SetOperatorPolicy,
    SetPolicy,
)
from broker.admin.kinds.policy_kind import value_of
from broker.admin.short_steps import in_steps
from broker.admin.views.columns import columns_of
from broker.entities.arguments.policies import Policy
from broker.management.access import Tag
from broker.management.api_call import ApiCall, where_absent
from broker.management.list_query import list_response
from broker.management.resources import Resource, resource
from broker.management.responses import VARY_OF_ONE_TYPE, empty, in_json, not_found, vhost_not_found

Handler = Callable[[ApiCall], Awaitable[Response]]
COLUMNS = columns_of(*POLICY_COLUMNS)


class PolicyRoutes:
    """The handlers of policies, or of operator policies."""

    def __init__(self, *, operator: bool) -> None:
        self._operator = operator
        self._set = SetOperatorPolicy if operator else SetPolicy
        self._clear = ClearOperatorPolicy if operator else ClearPolicy

    async def list(self, call: ApiCall) -> Response:
        """List the policies of a virtual host, or of all that the user sees, by ascending priority."""
        policies = [(vhost.name, policy) for vhost in call.vhosts() for policy in self._of(call, vhost.name).values()]
        policies.sort(key=lambda pair: (pair[1].priority, pair[0], pair[1].name))
        rows = [_row(*pair) async for pair in in_steps(policies)]
        return await list_response(rows, COLUMNS, call.list_query(), lambda row: str(row["name"]))

    async def show(self, call: ApiCall) -> Response:
        """Show a policy."""
        policy = self._of(call, call.vhost.name).get(call.names["name"])
        if policy is None:
            raise not_found()
        return in_json(call.chosen(_row(call.vhost.name, policy)))

    async def put(self, call: ApiCall) -> Response:
        """Set a policy, or replace the one of its name."""
        vhost, name = call.names["vhost"], call.names["name"]
        existed = vhost in call.broker.vhosts and name in self._of(call, vhost)
        call.assert_vhost()
        fields = await call.fields()
        fields.require("pattern", "definition")
        values = {key: fields.values[key] for key in ("pattern", "definition")}
        values |= {"apply_to": fields.values.get("apply-to", "all"), "priority": fields.values.get("priority", 0)}
        with where_absent(vhost_not_found):
            await call.change(self._set.parse({**values, "vhost": vhost, "name": name}))
        return empty(204 if existed else 201)

    async def delete(self, call: ApiCall) -> Response:
        """Remove a policy."""
        await call.change(self._clear(vhost=call.names["vhost"], name=call.names["name"]))
        return empty(204)

    def _of(self, call: ApiCall, vhost: str) -> Mapping[str, Policy]:
        return call.broker.vhosts[vhost].policy_application.policies.of(operator=self._operator)


def _row(vhost: str, policy: Policy) -> dict[str, Any]:
    return {"vhost": vhost, "name": policy.name, **value_of(policy)}


_policies, _operator_policies = PolicyRoutes(operator=False), PolicyRoutes(operator=True)

RESOURCES: list[Resource] = [
    resource("/api/policies", GET=(Tag.ANY, _policies.list)),
    resource("/api/policies/{vhost}", in_vhost=True, GET=(Tag.ANY, _policies.list)),
    resource(
        "/api/policies/{vhost}/{name}",
        in_vhost=True,
        setting=True,
        GET=(Tag.POLICYMAKER, _policies.show),
        PUT=(Tag.POLICYMAKER, _policies.put),
        DELETE=(Tag.POLICYMAKER, _policies.delete),
    ),
    resource("/api/operator-policies", vary=VARY_OF_ONE_TYPE, GET=(Tag.ANY, _operator_policies.list)),
    resource(
        "/api/operator-policies/{vhost}", in_vhost=True, vary=VARY_OF_ONE_TYPE, GET=(Tag.ANY, _operator_policies.list)
    ),
    resource(
        "/api/operator-policies/{vhost}/{name}",
        vary=VARY_OF_ONE_TYPE,
        GET=(Tag.ADMINISTRATOR, _operator_policies.show),
        PUT=(Tag.ADMINISTRATOR, _operator_policies.put),
        DELETE=(Tag.ADMINISTRATOR, _operator_policies.delete),
    ),
]
