"""`leveret parameter|global-parameter|cluster-name ...`: runtime parameters of virtual hosts and of the broker."""

from __future__ import annotations

import click

from broker.admin.commands.parameter_admin import (
    ClearGlobalParameter,
    ClearParameter,
    SetClusterName,
    SetGlobalParameter,
    SetParameter,
)
from broker.cli.list_command import show
from broker.cli.table_output import done
from broker.cli.target_broker import Target, json_option, targeted, vhost_option
from broker.cli.usage.command_groups import Commands, CommandWithExample
from broker.cli.usage.json_argument import json_value


@click.group(cls=Commands)
def parameter() -> None:
    """Parameters of a virtual host, including operator policies and limits."""


@click.group(cls=Commands, name="global-parameter")
def global_parameter() -> None:
    """Parameters of the whole broker: values that programs keep there."""


@parameter.command(name="set", example="vhost-limits limits '{\"max-queues\": 100}'", elsewhere="set_parameter")
@targeted
@vhost_option
@click.argument("component")
@click.argument("name")
@click.argument("value")
def set_parameter(target: Target, vhost: str, component: str, name: str, value: str) -> None:
    """Set the parameter NAME of COMPONENT to VALUE, in JSON; components are operator_policy, shovel, vhost-limits.

    VALUE - is read from standard input, so that no process list shows a password in it.
    """
    target.run(SetParameter(vhost=vhost, component=component, name=name, value=json_value(value)))
    done("parameter {} of {} is set", name, component)


@parameter.command(name="clear", example="vhost-limits limits", elsewhere="clear_parameter")
@targeted
@vhost_option
@click.argument("component")
@click.argument("name")
def clear_parameter(target: Target, vhost: str, component: str, name: str) -> None:
    """Remove the parameter NAME of COMPONENT, which may be any component."""
    target.run(ClearParameter(vhost=vhost, component=component, name=name))
    done("parameter {} of {} is cleared", name, component)


@parameter.command(name="list")
@targeted
@vhost_option
@json_option
def list_parameters(target: Target, vhost: str, as_json: bool) -> None:
    """List the parameters of the virtual host, without passwords; policies have a list of their own.

    `leveret export definitions` has values as they were set.
    """
    show(target, "parameters", (), vhost, as_json)


@global_parameter.command(name="set", example="mine '{\"a\": 1}'", elsewhere="set_global_parameter")
@targeted
@click.argument("name")
@click.argument("value")
def set_global_parameter(target: Target, name: str, value: str) -> None:
    """Set the parameter NAME to VALUE, in JSON; - is read from standard input."""
    target.run(SetGlobalParameter(name=name, value=json_value(value)))
    done("global parameter {} is set", name)


@global_parameter.command(name="clear", example="mine", elsewhere="clear_global_parameter")
@targeted
@click.argument("name")
def clear_global_parameter(target: Target, name: str) -> None:
    """Remove the parameter NAME."""
    target.run(ClearGlobalParameter(name=name))
    done("global parameter {} is cleared", name)


@global_parameter.command(name="list")
@targeted
@json_option
def list_global_parameters(target: Target, as_json: bool) -> None:
    """List the parameters of the whole broker, without passwords."""
    show(target, "global-parameters", (), None, as_json)


@click.command(name="cluster-name", cls=CommandWithExample, example="shop-broker", elsewhere="set_cluster_name")
@targeted
@click.argument("name")
def cluster_name(target: Target, name: str) -> None:
    """Set the cluster name, which clients and tools read."""
    target.run(SetClusterName(name=name))
    done("cluster name is {}", name)
