"""Health checks and what they look at: alarms, listeners, certificates."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from broker.admin.commands.node_admin import ListAlarms, ListCertificates, ListListeners, Ping
from broker.cli.health_checks import SECONDS, expiring, protocol_of, unreachable
from broker.rabbitmq.ctl.line_options import Option
from broker.rabbitmq.ctl.outcomes import (
    DATA,
    UNAVAILABLE,
    ListedRows,
    Misuse,
    Outcome,
    ShownText,
    VerbRefusal,
    bad_argument,
)
from broker.rabbitmq.ctl.verb_call import VerbAction, VerbCall

ALARMS = {"memory": "Memory alarm on node {}", "disk": "Free disk space alarm on node {}"}


def alarm_texts(call: VerbCall) -> list[str]:
    """Return RabbitMQ's names of the alarms that are raised."""
    return [ALARMS[alarm["resource"]].format(alarm["node"]) for alarm in call.ask(ListAlarms())]


def listener_text(listener: Mapping[str, Any]) -> str:
    """One address that is listened on."""
    named = ("interface", "port", "protocol", "purpose")
    text = ", ".join(f"{name}: {listener[name]}" for name in named)
    return f"I{text[1:]}"


def running_text(call: VerbCall) -> str:
    """Return the text about a broker that answers."""
    return f"RabbitMQ on node {call.node} is fully booted and running"


def _check_running(call: VerbCall) -> Outcome:
    call.ask(Ping())
    return call.message(running_text(call))


def _is_running(call: VerbCall) -> Outcome:
    call.ask(Ping())
    return ShownText([running_text(call)], {"message": running_text(call), "result": True})


def _is_booting(call: VerbCall) -> Outcome:
    """A broker answers when it is through with its start."""
    call.ask(Ping())
    words = "is fully booted (check with is_running), stopped or has not started booting yet"
    return ShownText(
        [f"RabbitMQ on node {call.node} {words}"], {"message": f"RabbitMQ on node {call.node} {words}", "result": False}
    )


def _check_local_alarms(call: VerbCall) -> Outcome:
    raised = alarm_texts(call) if call.dialect.local_alarms else []
    if raised:
        message = f"Node {call.node} reported local alarms"
        json = {"local": raised, "message": message, "result": "error"}
        raise VerbRefusal(UNAVAILABLE, "\n".join(raised), json=json)
    return ShownText([f"Node {call.node} reported no local alarms"], {"result": "ok"}, hushed=True)


def _check_alarms(call: VerbCall) -> Outcome:
    raised = alarm_texts(call)
    if raised:
        json = {"global": [], "local": raised, "message": f"Node {call.node} reported alarms", "result": "error"}
        raise VerbRefusal(UNAVAILABLE, "\n".join(raised), headed=False, json=json, hushed=True)
    text = f"Node {call.node} reported no alarms, local or clusterwide"
    return ShownText([text], {"result": "ok"}, hushed=True)


def _alarms(call: VerbCall) -> Outcome:
    raised = alarm_texts(call)
    if not raised:
        text = f"Node {call.node} reported no alarms, local or clusterwide"
        return ShownText([text], {"alarms": [], "node": call.node, "result": "ok"})
    message = f"Node {call.node} reported alarms"
    return ShownText(raised, {"global": [], "local": raised, "message": message, "result": "ok"})


def _listeners(call: VerbCall) -> Outcome:
    listeners = call.ask(ListListeners())
    if call.options.get("formatter") == "csv":
        return ListedRows(("node", "protocol", "interface", "port", "purpose"), listeners)
    json = {"listeners": listeners, "node": call.node, "result": "ok"}
    return ShownText(list(map(listener_text, listeners)), json)


def _check_port_connectivity(call: VerbCall) -> Outcome:
    listeners = call.ask(ListListeners())
    failed = unreachable(listeners)
    if failed:
        ports = ", ".join(str(listener["port"]) for listener in failed)
        raise VerbRefusal(UNAVAILABLE, f"Connection to ports of the following listeners failed: {ports}")
    ports = ", ".join(sorted(str(listener["port"]) for listener in listeners))
    json = {"listeners": listeners, "node": call.node, "result": "ok"}
    return ShownText([f"Successfully connected to ports {ports} on node {call.node}."], json)


def _check_port_listener(call: VerbCall) -> Outcome:
    port, listeners = call.arguments[0], call.ask(ListListeners())
    ports = [listener["port"] for listener in listeners]
    if int(port) in ports:
        found = {"node": call.node, "port": port, "result": "ok"}
        return ShownText([f"A listener for port {port} is running on node {call.node}."], found)
    others = ", ".join(map(str, sorted(ports)))
    text = f"No listener for port {port} is active on node {call.node}. "
    text += f"Found listeners that use the following ports: {others}"
    json = {"listeners": listeners, "missing": port, "ports": ports, "result": "error"}
    raise VerbRefusal(UNAVAILABLE, text, headed=False, json=json)


def _check_port(call: VerbCall) -> None:
    if not call.arguments[0].isdigit() or int(call.arguments[0]) < 1:
        raise bad_argument("Argument must be a positive integer")


def _check_protocol_listener(call: VerbCall) -> Outcome:
    asked, listeners = call.arguments[0], call.ask(ListListeners())
    protocol, protocols = protocol_of(asked), list(dict.fromkeys(listener["protocol"] for listener in listeners))
    if protocol in protocols:
        found = {"node": call.node, "protocol": asked, "result": "ok"}
        return ShownText([f"A listener for protocol {protocol} is running on node {call.node}."], found)
    text = f"No listener for protocol {protocol} is active on node {call.node}. "
    text += f"Found listeners for the following protocols: {', '.join(sorted(protocols))}"
    json = {"listeners": listeners, "missing": protocol, "protocols": protocols, "result": "error"}
    raise VerbRefusal(UNAVAILABLE, text, json=json)


def _check_virtual_hosts(call: VerbCall) -> Outcome:
    call.ask(Ping())
    return ShownText([f"Node {call.node} reported all vhosts as running"], {"result": "ok"}, hushed=True)


def _only_node(text: str) -> Callable[[VerbCall], Outcome]:
    def run(call: VerbCall) -> Outcome:
        call.ask(Ping())
        return ShownText([text.format(f"Node {call.node}")], {"message": text.format("Target node"), "result": "ok"})

    return run


def _check_mirrors(call: VerbCall) -> Outcome:
    if call.dialect.mirrors_checked:
        return _only_node(_ALONE)(call)
    call.ask(Ping())
    return ShownText(["ok"], {"result": "ok"})


def _check_certificate_expiration(call: VerbCall) -> Outcome:
    within, unit = call.options.get("within", 4), call.options.get("unit", "weeks").lower()
    ending = expiring(call.ask, within, unit)
    span = f"{within} {unit.removesuffix('s') if within == 1 else unit}"
    if not ending:
        return ShownText([f"No certificates are expiring within {span}."], {"result": "ok"})
    lines = [f"Certificate {each['file']} ({each['subject']}) expires on {_day(each['until'])}" for each in ending]
    text = "\n".join([f"Certificates expiring within {span}:", *lines])
    raise VerbRefusal(UNAVAILABLE, text, json={"expired": ending, "result": "error"})


def _check_unit(call: VerbCall) -> None:
    unit = call.options.get("unit", "weeks")
    if unit.lower() not in SECONDS:
        raise Misuse(f"\"unit '{unit}' is not supported. Please use one of: {', '.join(SECONDS)}\"")


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def _certificates(call: VerbCall) -> Outcome:
    found = call.ask(ListCertificates())
    lines = [f"{each['file']}: {each['subject']}, valid until {_day(each['until'])}" for each in found]
    return ShownText(lines, found)


def _resolve_hostname(call: VerbCall) -> Outcome:
    family = socket.AF_INET6 if _family(call) == "IPv6" else socket.AF_INET
    try:
        found = socket.getaddrinfo(call.arguments[0], None, family, socket.SOCK_STREAM)
    except OSError as error:
        raise VerbRefusal(DATA, "Hostname does not resolve (resolution failed with an nxdomain)") from error
    return ShownText([str(address[4][0]) for address in found], [str(address[4][0]) for address in found])


def _family(call: VerbCall) -> str:
    return "IPv6" if call.options.get("address-family", "ipv4").lower() == "ipv6" else "IPv4"


def _resolve_banner(call: VerbCall) -> str:
    return f"Asking node {call.node} to resolve hostname {call.arguments[0]} to {_family(call)} addresses..."


_ALONE = "{} seems to be the only one in a single node cluster, the check does not apply"
_NOT_APPLICABLE = "Target node seems to be the only one in a single node cluster, the command does not apply"
LINES = """
[Monitoring, observability and health checks]
alarms d 0-0 [--timeout <timeout>]
  Lists the alarms of memory and disk
  Asking node {node} to report any known resource alarms ...
check_alarms d 0-0 [--timeout <timeout>]
  Fails while memory or disk is short
  Asking node {node} to report any local resource alarms ...
check_certificate_expiration d 0-0 until=3.13 [--within <period>] [--unit <unit>]
  Fails if a certificate expires soon: within a number of days, weeks, months or years, 4 weeks by default
  Checking certificate expiration on node {node} ...
check_certificate_expiration d 0-0 since=4.2 [--within <period>] [--unit <unit>]
  Fails if a certificate expires soon: within a number of days, weeks, months or years, 4 weeks by default
  Checking certificate expiration for all certificates on node {node} ...
check_if_node_is_mirror_sync_critical dq 0-0 until=3.13 [--timeout <timeout>]
  Never fails: no queue is mirrored
  Checking if node {node} is critical for data safety of any classic mirrored queues ...
check_if_node_is_mirror_sync_critical dq 0-0 since=4.2 [--timeout <timeout>]
  Does nothing: no queue is mirrored
  This command is DEPRECATED and is a no-op. It will be removed in a future version.
check_if_node_is_quorum_critical dq 0-0 until=3.13 [--timeout <timeout>]
  Never fails: there is one node
  Checking if node {node} is critical for quorum of any quorum queues ...
check_if_node_is_quorum_critical dq 0-0 since=4.2 [--timeout <timeout>]
  Never fails: there is one node
  Checking if node {node} is critical for quorum of any queues/streams ...
check_local_alarms d 0-0 until=4.2 [--timeout <timeout>]
  Fails while memory or disk is short
  Asking node {node} to report any local resource alarms ...
check_local_alarms d 0-0 since=4.3 [--timeout <timeout>]
  Does nothing, as in RabbitMQ: check_alarms fails while memory or disk is short
  This command is DEPRECATED and is a no-op. It will be removed in a future version.
check_port_connectivity d 0-0 [--timeout <timeout>]
  Fails if an address that is listened on takes no connection
  Testing TCP connections to all active listeners on node {node} ...
check_port_listener d 1-1 <port> [--timeout <timeout>]
  Fails if a port is not listened on
  Asking node {node} if there's an active listener on port {0} ...
check_protocol_listener d 1-1 <protocol> [--timeout <timeout>]
  Fails if a protocol is not listened for
  Asking node {node} if there's an active listener for protocol {0} ...
check_running d 0-0 [--timeout <timeout>]
  Fails if the broker does not run
  Checking if RabbitMQ is running on node {node} ...
check_virtual_hosts d 0-0 [--timeout <timeout>]
  Fails if the broker does not run; its virtual hosts do with it
  Checking if all vhosts are running on node {node} ...
is_booting d 0-0 [--timeout <timeout>]
  Says whether the broker is in its start
  Asking node {node} for its boot status ...
is_running d 0-0 [--timeout <timeout>]
  Says whether the broker runs
  Asking node {node} for its status ...
listeners d 0-0 [--timeout <timeout>]
  Lists what is listened on
  Asking node {node} to report its protocol listeners ...

[Configuration and Environment]
certificates d 0-0
  Lists the certificates in use
  Certificates of node {node} ...
resolve_hostname d 1-1 <hostname> [--address-family <ipv4 | ipv6>]
  Resolves a host's name
  Asking node {node} to resolve hostname {0} to {family} addresses...

[Upgrade]
await_online_quorum_plus_one u 0-0 until=3.13 [--timeout <timeout>]
  Does nothing: there is one node
  Will wait for a quorum + 1 of nodes to be online for all quorum queues for 120 seconds...
await_online_quorum_plus_one u 0-0 since=4.2 [--timeout <timeout>]
  Does nothing: there is one node
  Will wait for a quorum + 1 of nodes to be online for all quorum queues and streams for 120 seconds...
await_online_synchronized_mirror u 0-0 until=3.13 [--timeout <timeout>]
  Does nothing: no queue is mirrored
  Will wait for a synchronised mirror be online for all classic mirrored queues for 120 seconds...
"""

VERBS: dict[str, VerbAction] = {
    "check_running": VerbAction(_check_running),
    "is_running": VerbAction(_is_running),
    "is_booting": VerbAction(_is_booting),
    "check_local_alarms": VerbAction(_check_local_alarms),
    "check_alarms": VerbAction(_check_alarms),
    "alarms": VerbAction(_alarms),
    "listeners": VerbAction(_listeners),
    "check_port_connectivity": VerbAction(_check_port_connectivity),
    "check_port_listener": VerbAction(_check_port_listener, check=_check_port),
    "check_protocol_listener": VerbAction(_check_protocol_listener),
    "check_virtual_hosts": VerbAction(_check_virtual_hosts),
    "check_if_node_is_quorum_critical": VerbAction(_only_node(_ALONE)),
    "check_if_node_is_mirror_sync_critical": VerbAction(_check_mirrors),
    "await_online_quorum_plus_one": VerbAction(_only_node(_NOT_APPLICABLE)),
    "await_online_synchronized_mirror": VerbAction(_only_node(_NOT_APPLICABLE)),
    "check_certificate_expiration": VerbAction(
        _check_certificate_expiration, options=(Option("within", int), Option("unit", str)), check=_check_unit
    ),
    "certificates": VerbAction(_certificates),
    "resolve_hostname": VerbAction(
        _resolve_hostname, options=(Option("address-family", str),), banner=_resolve_banner, alone=True
    ),
}
