"""`leveret policy|operator-policy ...`: what holds for queues and exchanges by their names."""

from __future__ import annotations

from typing import Any

import click

from broker.admin.commands.policy_admin import ClearOperatorPolicy, ClearPolicy, SetOperatorPolicy, SetPolicy
from broker.cli.list_command import show
from broker.cli.table_output import done
from broker.cli.target_broker import Command, Target, json_option, targeted, vhost_option
from broker.cli.usage.command_groups import Commands
from broker.cli.usage.json_argument import json_object


@click.group(cls=Commands)
def policy() -> None:
    """Policies: time to live, limits, dead-lettering and more, for queues and exchanges by name."""


@click.group(cls=Commands, name="operator-policy")
def operator_policy() -> None:
    """Operator policies: limits that neither policies nor arguments can exceed."""


def _definition(text: str) -> dict[str, Any]:
    return json_object(text, "a definition", '{"max-length": 5}')


def _setting(command: Command) -> Command:
    """The arguments and options of setting a policy of either kind."""
    for part in (
        click.option(
            "--apply-to", default="all", show_default=True, metavar="KIND", help="What it is for (see below)."
        ),
        click.option("--priority", type=int, default=0, show_default=True, help="The highest that matches counts."),
        click.argument("definition"),
        click.argument("pattern"),
        click.argument("name"),
        vhost_option,
    ):
        command = part(command)
    return command


@policy.command(name="set", example="short '^tmp' '{\"message-ttl\": 60000}' --apply-to queues", elsewhere="set_policy")
@targeted
@_setting
def set_policy(target: Target, definition: str, **options: Any) -> None:
    """Apply DEFINITION to queues and exchanges whose name matches PATTERN (a regular expression), at once.

    DEFINITION is JSON such as {"max-length": 1000, "dead-letter-exchange": "dead"}. KIND is all, queues, exchanges,
    classic_queues, quorum_queues or streams. A queue or exchange has one policy at a time.
    """
    target.run(SetPolicy(definition=_definition(definition), **options))
    done("policy {} is set", options["name"])


@operator_policy.command(
    name="set", example="ceiling '.*' '{\"max-length\": 1000000}'", elsewhere="set_operator_policy"
)
@targeted
@_setting
def set_operator_policy(target: Target, definition: str, **options: Any) -> None:
    """Limit queues whose name matches PATTERN (a regular expression) as DEFINITION says, at once.

    DEFINITION may have message-ttl, expires, max-length, max-length-bytes, max-in-memory-length,
    max-in-memory-bytes and delivery-limit. KIND is all, queues, classic_queues, quorum_queues or streams.
    """
    target.run(SetOperatorPolicy(definition=_definition(definition), **options))
    done("operator policy {} is set", options["name"])


@policy.command(name="clear", example="short", elsewhere="clear_policy")
@targeted
@vhost_option
@click.argument("name")
def clear_policy(target: Target, vhost: str, name: str) -> None:
    """Remove the policy NAME; the next one that matches applies instead."""
    target.run(ClearPolicy(vhost=vhost, name=name))
    done("policy {} is cleared", name)


@operator_policy.command(name="clear", example="ceiling", elsewhere="clear_operator_policy")
@targeted
@vhost_option
@click.argument("name")
def clear_operator_policy(target: Target, vhost: str, name: str) -> None:
    """Remove the operator policy NAME; the next one that matches applies instead."""
    target.run(ClearOperatorPolicy(vhost=vhost, name=name))
    done("operator policy {} is cleared", name)


@policy.command(name="list")
@targeted
@vhost_option
@json_option
def list_policies(target: Target, vhost: str, as_json: bool) -> None:
    """List the policies of the virtual host, those of the highest priority last."""
    show(target, "policies", (), vhost, as_json)


@operator_policy.command(name="list")
@targeted
@vhost_option
@json_option
def list_operator_policies(target: Target, vhost: str, as_json: bool) -> None:
    """List the operator policies of the virtual host, those of the highest priority last."""
    show(target, "operator-policies", (), vhost, as_json)


policy.add_command(clear_policy, "delete")
operator_policy.add_command(clear_operator_policy, "delete")
