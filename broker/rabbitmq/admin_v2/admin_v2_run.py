"""A command line of `rabbitmqadmin` version 2 carried out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus

import click

from broker.admin.protocol import AdministrationError
from broker.cli.table_output import echo
from broker.config import ConfigError
from broker.rabbitmq.admin.admin_http import RequestRefused
from broker.rabbitmq.admin_v2.actions.definition_transfers import TRANSFERS
from broker.rabbitmq.admin_v2.actions.link_changes import LINKS
from broker.rabbitmq.admin_v2.actions.listings import LISTINGS
from broker.rabbitmq.admin_v2.actions.node_edits import edit_nodes
from broker.rabbitmq.admin_v2.actions.node_reports import REPORTS, check_health
from broker.rabbitmq.admin_v2.actions.object_changes import CHANGES
from broker.rabbitmq.admin_v2.actions.policy_edits import EDITS, PolicyEdit
from broker.rabbitmq.admin_v2.command_call import CommandCall, refusal_text
from broker.rabbitmq.admin_v2.command_tree import Help, Parsed, parse
from broker.rabbitmq.admin_v2.run_settings import WRONG_DATA, Failure, run_settings
from broker.rabbitmq.admin_v2.styled_tables import DEFAULT, plain, styled
from broker.rabbitmq.admin_v2.usage_errors import WRONG_LINE, refusal

REASON = "closed via rabbitmqadmin v2"
"""The reason that clients are told when their connection is closed."""
ACTIONS: dict[str, Callable[[CommandCall], None]] = {**CHANGES, **LINKS, **LISTINGS, **REPORTS, **TRANSFERS}


def run(words: Sequence[str]) -> int:
    """Carry out a command line; the exit code."""
    try:
        return _carry_out(parse(words))
    except Help as help_asked:
        echo(str(help_asked), err=help_asked.code != 0)
        return help_asked.code
    except click.UsageError as error:
        echo(refusal(error), err=True)
        return WRONG_LINE
    except Failure as error:
        echo(str(error), err=True)
        return error.code
    except BrokenPipeError:
        raise  # it is standard output: click ends silently
    except (AdministrationError, ConfigError, OSError) as error:
        echo(str(error), err=True)
    except (ValueError, KeyError, TypeError) as error:
        echo(f"Response is incompatible with the target data type: {error!r}", err=True)
    return WRONG_DATA


def _carry_out(parsed: Parsed) -> int:
    if parsed.command.path[0] == "config_file":
        _show_nodes(parsed)
        return 0
    try:
        return _act(CommandCall(parsed, run_settings(parsed.options)), parsed)
    except RequestRefused as error:
        if error.status == HTTPStatus.NOT_FOUND and parsed.values.get("idempotently"):
            return 0
        raise Failure(refusal_text(error)) from error


def _show_nodes(parsed: Parsed) -> None:
    rows = edit_nodes(parsed)
    options = parsed.options
    if rows:
        bare = options.get("non_interactive")
        for line in plain(rows) if bare else styled(rows, options.get("table_style", DEFAULT)):
            echo(line)


def _act(call: CommandCall, parsed: Parsed) -> int:
    command = parsed.command
    if not command.request:
        if command.name in EDITS:
            what, edit = EDITS[command.name]
            edit(PolicyEdit(call, what))
        else:
            ACTIONS[command.name](call)
        return 0
    method, form, *rest = command.request
    if method == "CHECK":
        return check_health(call, form)
    if method == "GET":
        call.show(rest[0], call.list(call.path(form)))
    elif rest == ["close"]:
        call.ask(method, call.path(form), headers={"X-Reason": REASON})
    else:
        _change(call, method, form, absent_will_do="absent" in rest)
    return 0


def _change(call: CommandCall, method: str, form: str, *, absent_will_do: bool) -> None:
    try:
        call.ask(method, call.path(form), {} if form.startswith("rebalance") else None)
    except RequestRefused as error:
        if not (absent_will_do and error.status == HTTPStatus.NOT_FOUND):
            raise
