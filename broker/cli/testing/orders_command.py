"""`leveret testing`: orders of tests, on the command line."""

from __future__ import annotations

import json
from typing import Any

import click

from broker.admin.commands.node_admin import RequestOfTest
from broker.cli.table_output import show_tree
from broker.cli.target_broker import Target, json_option, targeted
from broker.cli.usage.command_groups import CommandWithExample


@click.command(cls=CommandWithExample, example="clock/step seconds=3600")
@targeted
@json_option
@click.argument("order", default="status")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
def testing(target: Target, as_json: bool, order: str, arguments: tuple[str, ...]) -> None:
    """Have a broker with [testing] in its settings carry out an ORDER of a test, such as reset or clock/step.

    A VALUE is JSON, otherwise text. docs/testing-with-leveret.md has the orders and their arguments.
    """
    given = dict(map(_argument, arguments))
    answer = target.ask(RequestOfTest(order=order, arguments=given), timeout_seconds=None)
    if isinstance(answer, dict) and not as_json:
        show_tree(answer, as_json)
    else:
        click.echo(json.dumps(answer, indent=2))


def _argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"expected NAME=VALUE, got {text}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
