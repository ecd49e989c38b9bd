"""Requests of tests, under /api/testing, with arguments in the body, the query and the path."""

from __future__ import annotations

from starlette.responses import Response

from broker.admin.administration import NOT_MET, TESTING_OFF
from broker.admin.commands.node_admin import RequestOfTest
from broker.admin.protocol import AdministrationError
from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.resources import Handler, Operation, Resource, resource
from broker.management.responses import Problem, in_json

STATUSES = {"not_found": 404, NOT_MET: 409}
"""Statuses of errors whose reason tests need."""


def ordering(order: str) -> Handler:
    """Return the handler of an order; the names in the path are among its arguments."""

    async def carry_out(call: ApiCall) -> Response:
        if call.api.administration.testing is None:
            raise Problem(403, "testing_disabled", TESTING_OFF)
        given = {**(await call.fields()).values, **call.parameters, **call.names}
        try:
            return in_json(await call.change(RequestOfTest(order=order, arguments=given)))
        except AdministrationError as error:
            if error.kind not in STATUSES:
                raise
            raise Problem(STATUSES[error.kind], error.kind, str(error)) from None

    return carry_out


def _resource(path: str, **orders: str) -> Resource:
    operations = {method: Operation(Tag.ADMINISTRATOR, ordering(order)) for method, order in orders.items()}
    return resource(f"/api/testing{path}", waits=True)._replace(operations=operations)


RESOURCES: list[Resource] = [
    _resource("", GET="status"),
    _resource("/clock", GET="clock"),
    _resource("/clock/stop", POST="clock/stop"),
    _resource("/clock/start", POST="clock/start"),
    _resource("/clock/step", POST="clock/step"),
    _resource("/clock/set", POST="clock/set"),
    _resource("/reset", POST="reset"),
    _resource("/faults", GET="faults", POST="faults/order", DELETE="faults/lift-all"),
    _resource("/faults/{id}", DELETE="faults/lift"),
    _resource("/fault-table", GET="faults/table"),
    _resource("/snapshots", GET="snapshots"),
    _resource("/snapshots/{name}", PUT="snapshots/save", DELETE="snapshots/delete"),
    _resource("/snapshots/{name}/restore", POST="snapshots/restore"),
    _resource("/restore", POST="restore"),
    _resource("/history", GET="history", DELETE="history/clear"),
    _resource("/expect", POST="expect"),
    _resource("/idle", POST="idle"),
]
