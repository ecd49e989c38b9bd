"""`leveret trace on|off`: the firehose."""

from __future__ import annotations

import click

from broker.admin.commands.vhost_admin import TraceOff, TraceOn
from broker.cli.table_output import done
from broker.cli.target_broker import Target, targeted, vhost_option
from broker.cli.usage.command_groups import Commands


@click.group(cls=Commands)
def trace() -> None:
    """Publish a copy of every message of a virtual host to its exchange amq.rabbitmq.trace, until the broker stops."""


@trace.command(name="on", example="-p /", elsewhere="trace_on")
@targeted
@vhost_option
def trace_on(target: Target, vhost: str) -> None:
    """Start tracing, with keys publish.EXCHANGE and deliver.QUEUE. It reduces throughput."""
    target.ask(TraceOn(vhost=vhost))
    done("tracing of virtual host {} is on, to its exchange amq.rabbitmq.trace", vhost)


@trace.command(name="off", example="-p /", elsewhere="trace_off")
@targeted
@vhost_option
def trace_off(target: Target, vhost: str) -> None:
    """Stop tracing."""
    target.ask(TraceOff(vhost=vhost))
    done("tracing of virtual host {} is off", vhost)
