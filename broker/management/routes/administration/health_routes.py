"""Health checks: 200 if a check passes, 503 with the reason if it fails."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import trio
from starlette.responses import Response

from broker.entities.arguments.personality import Series
from broker.management.access import Tag, denied
from broker.management.api_call import ApiCall
from broker.management.resources import Handler, Resource, resource
from broker.management.responses import JsonResponse, Problem, bad_request, encoded, in_json, not_found
from broker.management.rows.certificate_expiry import expiring
from broker.management.rows.listener_rows import listeners
from broker.session.direct_session import Refused
from broker.wire import methods
from broker.wire.assembler import Command
from broker.wire.constants import ReplyCode
from broker.wire.properties import encode_header

ALIVENESS = "aliveness-test"
"""The queue that the aliveness test leaves behind, as RabbitMQ's does."""
DAYS = {"days": 1, "weeks": 7, "months": 30, "years": 365}
ALIASES = {
    "amqp091": "amqp",
    "amqp0.9.1": "amqp",
    "amqp0-9-1": "amqp",
    "amqp0_9_1": "amqp",
    "amqps": "amqp/ssl",
    "http1": "http",
    "http1.1": "http",
    "http_api": "http",
    "management": "http",
    "management_ui": "http",
    "ui": "http",
    "prometheus": "http/prometheus",
    "cli": "clustering",
    "distribution": "clustering",
}
"""Aliases of the protocols of listeners, as in RabbitMQ."""


def healthy(**details: object) -> Response:
    """200: the check passes."""
    return in_json({"status": "ok", **details})


def failed(reason: str, **details: object) -> Response:
    """503: the check fails."""
    answer = JsonResponse([encoded({"status": "failed", "reason": reason, **details})])
    answer.status_code = 503
    return answer


async def check_alarms(call: ApiCall) -> Response:
    """Check that no alarm is raised."""
    return _alarms(call, "There are alarms in effect in the cluster")


async def check_local_alarms(call: ApiCall) -> Response:
    """Check that no alarm is raised on this node, the only one."""
    return _alarms(call, "There are alarms in effect on the node")


def _alarms(call: ApiCall, reason: str) -> Response:
    call.api.update_alarms()
    alarms = [{"node": call.api.settings.node, "resource": name} for name in call.api.status()["alarms"]]
    return failed(reason, alarms=alarms) if alarms else healthy()


async def check_disk(call: ApiCall) -> Response:
    """Check that the disk answers. RabbitMQ has no such check."""
    hangs = call.api.status()["disk"]["hangs"]
    return failed(hangs) if hangs else healthy()


async def check_certificates(call: ApiCall) -> Response:
    """Check that no certificate of a listener expires within a number of days, weeks, months or years."""
    unit = call.names["unit"].lower()
    if not re.fullmatch("[+-]?[0-9]{1,6}", call.names["within"]):
        raise bad_request("Invalid expiration value.")
    if unit not in DAYS:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    settings = call.api.settings
    try:
        before = datetime.now(UTC) + timedelta(days=int(call.names["within"]) * DAYS[unit])
    except OverflowError:
        raise bad_request("Invalid expiration value.") from None
    secured = [each for each in _listeners(call) if each["protocol"] in ("amqp/ssl", "https")]
    found = await trio.to_thread.run_sync(expiring, secured, settings.certificate_file, settings.ca_file, before)
    return failed("Certificates expiring", expired=found) if found else healthy()


def _listeners(call: ApiCall) -> list[dict[str, Any]]:
    return listeners(call.api.status(), call.api.settings.node, call.api.series)


async def check_port(call: ApiCall) -> Response:
    """Check that there is a listener on a port."""
    if not re.fullmatch("[0-9]{1,9}", call.names["port"]):
        raise bad_request("Invalid port")
    port, ports = int(call.names["port"]), [listener["port"] for listener in _listeners(call)]
    if port in ports:
        return healthy(port=port)
    return failed("No active listener", missing=port, ports=ports)


async def check_protocol(call: ApiCall) -> Response:
    """Check that there are listeners for a protocol, or for all of several with commas between, as in RabbitMQ 4."""
    asked = call.names["protocol"].lower()
    wanted = [ALIASES.get(name.strip(), name.strip()) for name in asked.split(",")]
    spoken = list(dict.fromkeys(listener["protocol"] for listener in _listeners(call)))
    missing = [name for name in wanted if name not in spoken]
    if call.api.series >= (4, 0):
        listed: dict[str, object] = {"protocols": spoken}
        return failed("No active listener", missing=missing, **listed) if missing else healthy(**listed)
    if missing:
        return failed("No active listener", missing=",".join(missing), protocols=spoken)
    return healthy(protocol=",".join(wanted))


async def check_nothing(call: ApiCall) -> Response:
    """Pass: all virtual hosts run while the broker runs, and it is in service."""
    return healthy()


async def check_single_node(call: ApiCall) -> Response:
    """Pass: there is one node, so no replica depends on another."""
    return healthy(reason="single node cluster")


async def check_connections(call: ApiCall) -> Response:
    """Check that the connection limit is not reached."""
    limit = call.api.registry.settings.connections_max
    connections = len(call.api.registry.network_connections)
    if limit and connections >= limit:
        return failed("node connection limit is reached", connections=connections)
    return healthy()


async def check_ready(call: ApiCall) -> Response:
    """Check that AMQP clients can connect."""
    if not any(listener["protocol"].startswith("amqp") for listener in _listeners(call)):
        return failed("no active listeners for AMQP/AMQPS")
    return await check_connections(call)


async def check_node(call: ApiCall) -> Response:
    """Pass: the broker answers. The check of earlier versions."""
    if call.names.get("node", call.api.settings.node) != call.api.settings.node:
        raise not_found()
    return healthy()


async def check_aliveness(call: ApiCall) -> Response:
    """Check that a message can be published to a queue and fetched from it. RabbitMQ 4 no longer tries."""
    if not call.account.enters(call.vhost.name):
        raise denied(call.account.name, "Access refused.")
    if call.api.series >= (4, 0):
        return healthy()
    try:
        found = await _there_and_back(call, b"test_message")
    except Refused as refused:
        if refused.code != ReplyCode.ACCESS_REFUSED:
            raise
        raise Problem(401, "not_authorised", refused.text) from None
    if isinstance(found.method, methods.BasicGetOk):
        return healthy()
    return failed(f"{ALIVENESS} queue is empty")


async def _there_and_back(call: ApiCall, body: bytes) -> Command:
    call.api.update_alarms()
    async with call.session() as session:
        await call.answered(session.ask(methods.QueueDeclare(ALIVENESS, False, False, False, False, False, {})))
        await call.answered(session.ask(methods.ConfirmSelect(False)))
        confirmed = session.publish("", ALIVENESS, encode_header(len(body)))
        session.add_body(body)
        await call.answered(confirmed)
        return await call.answered(session.ask(methods.BasicGet(ALIVENESS, True)))


CHECKS = {
    "alarms": check_alarms,
    "local-alarms": check_local_alarms,
    "certificate-expiration/{within}/{unit}": check_certificates,
    "port-listener/{port}": check_port,
    "protocol-listener/{protocol}": check_protocol,
    "virtual-hosts": check_nothing,
    "node-is-quorum-critical": check_single_node,
    "disk": check_disk,
}
"""The checks of RabbitMQ 3.13, and those of 4 that apply here; and our own one of the disk."""
_CLUSTER_SIZE = "reached-target-cluster-size"
_WITHOUT_LEADERS = "quorum-queues-without-elected-leaders"
CHECKS_OF_4 = {
    "metadata-store/initialized": check_nothing,
    "metadata-store/initialized/with-data": check_nothing,
    f"{_WITHOUT_LEADERS}/all-vhosts": check_nothing,
    f"{_WITHOUT_LEADERS}/all-vhosts/pattern/{{pattern}}": check_nothing,
    f"{_WITHOUT_LEADERS}/vhost/{{vhost}}": check_nothing,
    f"{_WITHOUT_LEADERS}/vhost/{{vhost}}/pattern/{{pattern}}": check_nothing,
}
"""Checks of a cluster, which one node passes; a virtual host need not be there."""
WITHOUT_CREDENTIALS = {
    "is-in-service": check_nothing,
    "ready-to-serve-clients": check_ready,
    "below-node-connection-limit": check_connections,
}
"""Checks that anybody may ask for in RabbitMQ 4.3."""


def _check(name: str, check: Handler, since: Series = (3, 10), until: Series = (99, 0)) -> Resource:
    path, of_vhost = f"/api/health/checks/{name}", "{vhost}" in name
    return resource(path, in_vhost=of_vhost, monitored=True, GET=(Tag.ANY, check), since=since, until=until)


RESOURCES: list[Resource] = [
    *(_check(name, check) for name, check in CHECKS.items()),
    *(_check(name, check, since=(4, 0)) for name, check in CHECKS_OF_4.items()),
    *(_check(name, check, until=(4, 3)) for name, check in WITHOUT_CREDENTIALS.items()),
    *(
        resource(f"/api/health/checks/{name}", GET=(None, check), since=(4, 3))
        for name, check in {**WITHOUT_CREDENTIALS, _CLUSTER_SIZE: check_nothing}.items()
    ),
    _check(_CLUSTER_SIZE, check_nothing, since=(4, 0), until=(4, 3)),
    _check("node-is-mirror-sync-critical", check_single_node, until=(4, 0)),
    resource("/api/healthchecks/node", GET=(Tag.ANY, check_node)),
    resource("/api/healthchecks/node/{node}", GET=(Tag.ANY, check_node)),
    resource("/api/aliveness-test/{vhost}", in_vhost=True, waits=True, GET=(Tag.ANY, check_aliveness)),
]
