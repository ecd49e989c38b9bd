"""`leveret health ...`: checks of a running broker, one at a time, for probes and monitoring."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from broker.admin.commands.node_admin import ListAlarms, ListListeners, Status
from broker.admin.protocol import AdministrationError
from broker.cli.health_checks import SECONDS, expiring, protocol_of, unreachable
from broker.cli.target_broker import Target, targeted
from broker.cli.usage.command_groups import Commands


@click.group(cls=Commands)
def health() -> None:
    """Check one thing of the running broker: exit code 0 if it is well, else 1 and one line with the reason."""


@health.command(elsewhere="node_health_check check_running")
@targeted
def running(target: Target) -> None:
    """Check that the broker has started and answers."""
    click.echo(f"{target.ask(Status())['node']} is running")


@health.command(elsewhere="check_local_alarms check_alarms alarms")
@targeted
def alarms(target: Target) -> None:
    """Check that no alarm is raised."""
    raised = [alarm["resource"] for alarm in target.ask(ListAlarms())]
    if raised:
        raise _unhealthy(f"{' and '.join(raised)} {'alarms are' if raised[1:] else 'alarm is'} raised")
    click.echo("no alarms")


@health.command()
@targeted
def disk(target: Target) -> None:
    """Check that the disk answers: no write has been under way for disk.hang_seconds."""
    if hangs := target.ask(Status())["disk"]["hangs"]:
        raise _unhealthy(hangs)
    click.echo("the disk answers")


@health.command(elsewhere="check_port_connectivity")
@targeted
def connectivity(target: Target) -> None:
    """Check that each listener accepts a TCP connection."""
    listeners = target.ask(ListListeners())
    failed = [f"{listener['interface']}:{listener['port']}" for listener in unreachable(listeners)]
    if failed:
        raise _unhealthy(f"cannot connect to {', '.join(failed)}")
    click.echo(f"connected to {', '.join(dict.fromkeys(str(listener['port']) for listener in listeners))}")


@health.command(name="port", example="5672", elsewhere="check_port_listener")
@targeted
@click.argument("port", type=click.IntRange(1, 65535))
def port_listener(target: Target, port: int) -> None:
    """Check that a listener has PORT."""
    ports = sorted({listener["port"] for listener in target.ask(ListListeners())})
    if port not in ports:
        raise _unhealthy(f"port {port} is not listened on; these are: {', '.join(map(str, ports))}")
    click.echo(f"a listener has port {port}")


@health.command(name="protocol", example="amqp", elsewhere="check_protocol_listener")
@targeted
@click.argument("protocol")
def protocol_listener(target: Target, protocol: str) -> None:
    """Check that a listener has PROTOCOL: amqp, amqp/ssl, http, https or http/prometheus."""
    protocols = sorted({listener["protocol"] for listener in target.ask(ListListeners())})
    if protocol_of(protocol) not in protocols:
        raise _unhealthy(f"{protocol} is not listened for; these are: {', '.join(protocols)}")
    click.echo(f"a listener has protocol {protocol_of(protocol)}")


@health.command(example="--within 2 --unit months", elsewhere="check_certificate_expiration")
@targeted
@click.option("--within", type=click.IntRange(0), default=4, show_default=True, help="Number of units from now.")
@click.option("--unit", type=click.Choice(list(SECONDS)), default="weeks", show_default=True)
def certificates(target: Target, within: int, unit: str) -> None:
    """Check that no certificate expires soon."""
    ending = [
        f"{each['file']} expires on {datetime.fromtimestamp(each['until'], UTC).date()}"
        for each in expiring(target.ask, within, unit)
    ]
    if ending:
        raise _unhealthy("; ".join(ending))
    click.echo(f"no certificate expires within {within} {unit}")


@health.command(example="--within 10")
@targeted
@click.option("--within", type=click.FloatRange(0), default=60.0, show_default=True, help="Seconds it may be behind.")
def shipping(target: Target, within: float) -> None:
    """Check that the second place (ship.to) is not far behind; of a standby, that it is not far behind its place."""
    status = target.ask(Status())
    state = status.get("ship") or status.get("standby")
    if state is None:
        raise _unhealthy("nothing is shipped: ship.to is not set")
    who = state["to"] if "to" in state else f"the standby of {state['follows']}"
    behind = f"{who} is {state['lag_seconds']:.1f} s behind"
    if state["problem"] or state["lag_seconds"] > within:
        raise _unhealthy(f"{behind}: {state['problem']}" if state["problem"] else behind)
    click.echo(behind)


def _unhealthy(text: str) -> AdministrationError:
    return AdministrationError("failed", text)
