"""Policies, parameters, and definitions files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from broker.admin.commands.admin_command import ListCommand
from broker.admin.commands.definitions_admin import ExportDefinitions, ImportDefinitions
from broker.admin.commands.parameter_admin import (
    ClearGlobalParameter,
    ClearParameter,
    ListGlobalParameters,
    ListParameters,
    SetClusterName,
    SetGlobalParameter,
    SetParameter,
)
from broker.admin.commands.policy_admin import (
    ClearOperatorPolicy,
    ClearPolicy,
    ListMatchingPolicies,
    ListOperatorPolicies,
    ListPolicies,
    SetOperatorPolicy,
    SetPolicy,
)
from broker.admin.json_input.strict_json import decode_json
from broker.admin.json_terms import binary_pairs
from broker.admin.protocol import AdministrationError
from broker.credentials import without_credentials
from broker.rabbitmq.ctl.formatters import json_text
from broker.rabbitmq.ctl.line_options import Option
from broker.rabbitmq.ctl.outcomes import DATA, UNAVAILABLE, ListedRows, Outcome, ShownText, VerbRefusal, bad_argument
from broker.rabbitmq.ctl.verb_call import VerbAction, VerbCall, asking, generally_refused
from broker.rabbitmq.ctl.verbs.vhost_verbs import no_vhost, parsed_json, sorted_json

POLICY_COLUMNS = ("vhost", "name", "pattern", "apply-to", "definition", "priority")


def _set_policy(command: type[SetPolicy | SetOperatorPolicy]) -> Callable[[VerbCall], Outcome]:
    def run(call: VerbCall) -> Outcome:
        name, pattern, definition = call.arguments
        call.ask(
            command(
                vhost=call.vhost,
                name=name,
                pattern=pattern,
                definition=parsed_json(call, definition),
                priority=call.options.get("priority", 0),
                apply_to=call.options.get("apply-to", "all"),
            )
        )
        return call.done()

    return run


def _policy_banner(kind: str) -> Callable[[VerbCall], str]:
    def banner(call: VerbCall) -> str:
        name, pattern, definition = call.arguments
        priority = call.options.get("priority", 0)
        return (
            f'Setting {kind} "{name}" for pattern "{pattern}" to "{definition}" with priority "{priority}" '
            f'for vhost "{call.vhost}" ...'
        )

    return banner


def _no_parameter(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    """Return the refusal: in a virtual host that does not exist, no parameter exists."""
    if error.kind == "not_found":
        return VerbRefusal(UNAVAILABLE, "Parameter does not exist")
    return generally_refused(call, error)


def _list_policies(command: type[ListPolicies]) -> Callable[[VerbCall], Outcome]:
    def run(call: VerbCall) -> Outcome:
        rows = _in_text(call.ask(command(vhost=call.vhost)), "definition")
        return ListedRows(POLICY_COLUMNS, rows, streamed=False)

    return run


def _matching(call: VerbCall) -> Outcome:
    kind = call.options.get("object-type", "queue")
    try:
        rows = call.ask(ListMatchingPolicies(vhost=call.vhost, name=call.arguments[0], of_exchange=kind == "exchange"))
    except AdministrationError as error:
        if error.kind == "not_found" and call.options.get("formatter") == "json":
            message = "object (queue, exchange) not found"
            return ShownText((), {"message": message, "policies": [], "result": "error"})
        raise
    if call.options.get("formatter") == "json":
        return ShownText((), {"result": "ok", "policies": rows})
    shown = [{**row, "definition": binary_pairs(row["definition"])[1:-1]} for row in rows]
    return ListedRows(POLICY_COLUMNS, shown, streamed=False)


def _absent_object(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    return call.dialect.absent.refusal() if error.kind == "not_found" else generally_refused(call, error)


def _check_object_type(call: VerbCall) -> None:
    if call.options.get("object-type", "queue") not in ("queue", "exchange"):
        raise bad_argument("Object type should be either queue or exchange")


def _matching_banner(call: VerbCall) -> str:
    kind = call.options.get("object-type", "queue")
    return f"Listing policies that match {kind} '{call.arguments[0]}' in vhost '{call.vhost}' ..."


# Mirrors of classic queues: the policies that ask for them


def _mirroring(call: VerbCall, command: type[ListPolicies]) -> list[dict[str, Any]]:
    return [row for row in call.ask(command()) if any(key.startswith("ha-") for key in row["definition"])]


def _list_mirroring(command: type[ListPolicies]) -> VerbAction:
    def run(call: VerbCall) -> Outcome:
        return ListedRows(POLICY_COLUMNS, _in_text(_mirroring(call, command), "definition"), streamed=False)

    return VerbAction(run)


def _check_mirroring(call: VerbCall) -> Outcome:
    policies, operator = _mirroring(call, ListPolicies), _mirroring(call, ListOperatorPolicies)
    if not policies and not operator:
        return ShownText(
            ["Cluster reported no policies that enable classic queue mirroring"], {"result": "ok"}, hushed=True
        )
    lines = [f"Policy {row['name']} enables classic queue mirroring" for row in policies]
    lines += (f"Operator policy {row['name']} enables classic queue mirroring" for row in operator)
    message = "Cluster reported policies enabling classic queue mirroring"
    json = {"message": message, "operator_policies": operator, "policies": policies, "result": "error"}
    raise VerbRefusal(UNAVAILABLE, "\n".join(lines), headed=False, json=json, hushed=True)


def _remove_mirroring(call: VerbCall) -> Outcome:
    """A policy that is left without keys is cleared."""
    kinds = ((ListPolicies, SetPolicy, ClearPolicy), (ListOperatorPolicies, SetOperatorPolicy, ClearOperatorPolicy))
    for listing, setting, clearing in kinds:
        for row in _mirroring(call, listing):
            kept = {key: value for key, value in row["definition"].items() if not key.startswith("ha-")}
            given = {name.replace("-", "_"): value for name, value in row.items()}
            call.ask(setting(**{**given, "definition": kept}) if kept else clearing(row["vhost"], row["name"]))
    return call.done()


def _in_text(rows: Iterable[Mapping[str, Any]], column: str) -> list[dict[str, Any]]:
    """Rows with one value as a text in JSON, in RabbitMQ's order of names."""
    return [{**row, column: sorted_json(row[column])} for row in rows]


def _set_parameter(call: VerbCall) -> Outcome:
    component, name, value = call.arguments
    if component == "policy":
        raise VerbRefusal(UNAVAILABLE, "policies may not be set using this method")
    call.ask(SetParameter(vhost=call.vhost, component=component, name=name, value=parsed_json(call, value)))
    return call.done()


def _list_parameters(call: VerbCall) -> Outcome:
    rows = _in_text(_listed(call, ListParameters(vhost=call.vhost)), "value")
    return ListedRows(("component", "name", "value"), rows, streamed=False)


def _listed(call: VerbCall, command: ListCommand) -> Any:
    """Rows with values as they were set, credentials included: scripts read them, as from RabbitMQ."""
    rows = call.ask(command)
    return without_credentials(rows) if call.conceals else rows


def _list_global_parameters(call: VerbCall) -> Outcome:
    rows = _in_text(_listed(call, ListGlobalParameters()), "value")
    return ListedRows(("name", "value"), rows, streamed=False)


# Definitions


def _form(call: VerbCall) -> None:
    if call.options.get("format", "json").lower() not in ("json", "erlang"):
        raise bad_argument("Format should be either json or erlang")


def _check_export(call: VerbCall) -> None:
    _form(call)
    directory = Path(call.arguments[0]).parent
    if call.arguments[0] != "-" and not directory.is_dir():
        raise bad_argument(f"Directory {directory} does not exist")


def _check_import(call: VerbCall) -> None:
    _form(call)
    file = _file(call)
    if file is not None and not file.exists():
        raise bad_argument(f"File {file} does not exist")


def _file(call: VerbCall) -> Path | None:
    """The file that is named; None for standard input."""
    return Path(call.arguments[0]) if call.arguments and call.arguments[0] != "-" else None


def _export_definitions(call: VerbCall) -> Outcome:
    _refuse_erlang(call)
    written = json_text(call.ask(ExportDefinitions()))
    if call.arguments[0] == "-":
        return ShownText([written], {"message": written})
    # It holds password hashes.
    descriptor = os.open(call.arguments[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as out:  # noqa: PTH123
        out.write(written)
    return ShownText((), None)


def _export_banner(call: VerbCall) -> str:
    return "" if call.arguments[0] == "-" else f'Exporting definitions in JSON to a file at "{call.arguments[0]}" ...'


def _import_definitions(call: VerbCall) -> Outcome:
    _refuse_erlang(call)
    file = _file(call)
    text = sys.stdin.read() if file is None else file.read_text(encoding="utf-8", errors="surrogateescape")
    try:
        definitions = decode_json(text)
    except ValueError as error:
        raise VerbRefusal(DATA, f"Failed to deserialise input (format: JSON) (error: {error})") from error
    call.ask(ImportDefinitions(definitions=definitions))
    text = "Successfully started definition import. This process is asynchronous and can take some time."
    text += call.dialect.import_notice
    return ShownText([] if call.quiet else [text], {"node": call.node, "result": "ok"})


def _import_banner(call: VerbCall) -> str:
    file = _file(call)
    source = "standard input" if file is None else f'a file at "{file}"'
    return f"Importing definitions in JSON from {source} ..."


def _refuse_erlang(call: VerbCall) -> None:
    if call.options.get("format", "json").lower() == "erlang":
        raise VerbRefusal(UNAVAILABLE, "Definitions are written and read in JSON only: there is no Erlang here")


def _not_imported(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    if "Virtual host" in str(error):
        return VerbRefusal(DATA, str(error), headed=False)
    return generally_refused(call, error)


_POLICY = (Option("priority", int), Option("apply-to", str))
_FORMAT = (Option("format", str), Option("skip-if-unchanged", bool))
LINES = """
[Monitoring, observability and health checks]
check_if_cluster_has_classic_queue_mirroring_policy dq 0-0 since=3.13 [--timeout <timeout>]
  Fails if a policy asks for mirrors of classic queues
  Checking if cluster has any classic queue mirroring policy ...
list_operator_policies_with_classic_queue_mirroring dq 0-0 since=3.13 [--no-table-headers] [--timeout <timeout>]
  Lists operator policies that ask for mirrors of classic queues
  Listing operator policies with classic queue mirroring ...
list_policies_with_classic_queue_mirroring dq 0-0 since=3.13 [--no-table-headers] [--timeout <timeout>]
  Lists policies that ask for mirrors of classic queues
  Listing policies with classic queue mirroring ...

[Parameters]
clear_global_parameter c 1-1 <name>
  Removes a parameter of the whole broker
  Clearing global runtime parameter "{0}" ...
clear_parameter c 2-2 [--vhost <vhost>] <component_name> <name>
  Removes a parameter of a virtual host
  Clearing runtime parameter "{1}" for component "{0}" on vhost "{vhost}" ...
list_global_parameters cd 0-0 [--no-table-headers] [--timeout <timeout>]
  Lists the parameters of the whole broker
  Listing global runtime parameters ...
list_parameters cd 0-0 [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
  Lists the parameters of a virtual host
  Listing runtime parameters for vhost "{vhost}" ...
set_global_parameter c 2-2 <name> <value>
  Sets a parameter of the whole broker to a value in JSON
  Setting global runtime parameter "{0}" to "{1}" ...
set_parameter c 3-3 [--vhost <vhost>] <component_name> <name> <value>
  Sets a parameter of a virtual host to a value in JSON
  Setting runtime parameter "{1}" for component "{0}" to "{2}" in vhost "{vhost}" ...

[Policies]
clear_operator_policy c 1-1 [--vhost <vhost>] <name>
  Removes an operator policy
  Clearing operator policy "{0}" on vhost "{vhost}" ...
clear_policy c 1-1 [--vhost <vhost>] <name>
  Removes a policy
  Clearing policy "{0}" on vhost "{vhost}" ...
list_operator_policies cd 0-0 [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
  Lists the operator policies of a virtual host
  Listing operator policy overrides for vhost "{vhost}" ...
list_policies cd 0-0 [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
  Lists the policies of a virtual host
  Listing policies for vhost "{vhost}" ...
list_policies_that_match d 1-1 since=3.13 [--object-type <type>] <name>
  Lists the policies that a queue or an exchange could have
set_operator_policy c 3-3 [--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>
  Sets limits that no policy or argument exceeds
set_policy c 3-3 [--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>
  Sets arguments of queues and exchanges by their names

[Configuration and Environment]
set_cluster_name c 1-1 <name>
  Gives the broker a name for its clients
  Setting cluster name to {0} ...

[Definitions]
export_definitions c 1-1 <file_path | "-"> [--format <json | erlang>] [--timeout <timeout>]
  Writes everything but messages to a file in JSON
import_definitions c 0-1 until=3.13 <file_path | "-"> [--format <json | erlang>] [--skip-if-unchanged] [--timeout <timeout>]
  Makes what a file says
import_definitions c 0-1 since=4.2 <file_path> [--format <json | erlang>] [--skip-if-unchanged] [--timeout <timeout>]
  Makes what a file says

[Operations]
remove_classic_queue_mirroring_from_policies c 0-0 since=3.13 [--timeout <timeout>]
  Removes the keys that ask for mirrors from all policies
  Will remove keys that enable classic queue mirroring from all regular and operator policies
"""

VERBS: dict[str, VerbAction] = {
    "set_policy": VerbAction(_set_policy(SetPolicy), no_vhost, _POLICY, banner=_policy_banner("policy")),
    "set_operator_policy": VerbAction(
        _set_policy(SetOperatorPolicy), no_vhost, _POLICY, banner=_policy_banner("operator policy override")
    ),
    "clear_policy": asking(lambda call, name: ClearPolicy(call.vhost, name), _no_parameter),
    "clear_operator_policy": asking(lambda call, name: ClearOperatorPolicy(call.vhost, name), _no_parameter),
    "list_policies": VerbAction(_list_policies(ListPolicies), no_vhost),
    "list_operator_policies": VerbAction(_list_policies(ListOperatorPolicies), no_vhost),
    "list_policies_that_match": VerbAction(
        _matching,
        _absent_object,
        (Option("object-type", str),),
        _check_object_type,
        _matching_banner,
        form="pretty_table",
    ),
    "list_policies_with_classic_queue_mirroring": _list_mirroring(ListPolicies),
    "list_operator_policies_with_classic_queue_mirroring": _list_mirroring(ListOperatorPolicies),
    "check_if_cluster_has_classic_queue_mirroring_policy": VerbAction(_check_mirroring),
    "remove_classic_queue_mirroring_from_policies": VerbAction(_remove_mirroring),
    "set_parameter": VerbAction(_set_parameter, no_vhost),
    "clear_parameter": asking(lambda call, component, name: ClearParameter(call.vhost, component, name), _no_parameter),
    "list_parameters": VerbAction(_list_parameters, no_vhost),
    "set_global_parameter": asking(lambda call, name, value: SetGlobalParameter(name, parsed_json(call, value))),
    "clear_global_parameter": asking(lambda call, name: ClearGlobalParameter(name), _no_parameter),
    "list_global_parameters": VerbAction(_list_global_parameters),
    "set_cluster_name": asking(lambda call, name: SetClusterName(name)),
    "export_definitions": VerbAction(_export_definitions, options=_FORMAT, check=_check_export, banner=_export_banner),
    "import_definitions": VerbAction(_import_definitions, _not_imported, _FORMAT, _check_import, _import_banner),
}
