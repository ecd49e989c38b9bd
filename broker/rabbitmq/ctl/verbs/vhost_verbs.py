"""Virtual hosts: made, described, limited, traced, deleted."""

from __future__ import annotations

from typing import Any

from broker.admin.commands.limit_admin import ClearVhostLimits, SetVhostLimits
from broker.admin.commands.node_admin import Ping
from broker.admin.commands.vhost_admin import AddVhost, DeleteVhost, ListVhosts, TraceOff, TraceOn, UpdateVhost
from broker.admin.json_input.strict_json import decode_json
from broker.admin.protocol import AdministrationError, ValidationFailed
from broker.entities.arguments.erlang_terms import printed
from broker.entities.arguments.queue_types import TYPES
from broker.rabbitmq.ctl.formatters import json_text
from broker.rabbitmq.ctl.line_options import Option
from broker.rabbitmq.ctl.outcomes import (
    DATA,
    SOFTWARE,
    UNAVAILABLE,
    ListedRows,
    Misuse,
    Outcome,
    ShownText,
    VerbRefusal,
    bad_argument,
)
from broker.rabbitmq.ctl.verb_call import VerbAction, VerbCall, asking, generally_refused


def parsed_json(call: VerbCall, text: str) -> Any:
    """Parse a JSON argument. Raises VerbRefusal with RabbitMQ's text."""
    try:
        return decode_json(text)
    except ValueError:
        shown = printed(text.encode("utf-8", "surrogateescape"))
        raise VerbRefusal(UNAVAILABLE, call.dialect.wrong_json.format(shown)) from None


def sorted_json(value: Any) -> str:
    """JSON as RabbitMQ writes it in a table: names in order, no blanks."""
    return json_text(_sorted(value))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def no_vhost_text(vhost: str) -> str:
    """Return the broker's text about a virtual host that does not exist."""
    return f"Virtual host '{vhost}' does not exist"


def no_vhost(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    """Return the refusal of most verbs: no such virtual host, or `Validation failed` for an invalid value."""
    if str(error) == no_vhost_text(call.vhost):
        return VerbRefusal(DATA, str(error), headed=False)
    if error.kind == "invalid":
        problems = error.problems if isinstance(error, ValidationFailed) else [str(error)]
        return VerbRefusal(UNAVAILABLE, "\n".join(["Validation failed\n", *problems, ""]))
    return generally_refused(call, error)


def _no_vhost_named(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    name = call.arguments[0]
    return VerbRefusal(DATA, str(error), headed=False) if str(error) == no_vhost_text(name) else no_vhost(call, error)


def _not_deleted(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    if error.kind != "protected":
        return _no_vhost_named(call, error)
    text = call.dialect.protected_vhost.format(error)
    return VerbRefusal(DATA, text, json={"node": call.node, "reason": text, "result": "error"}, json_code=UNAVAILABLE)


def _no_vhost_quoted(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    name = call.arguments[0]
    if str(error) == no_vhost_text(name):
        return VerbRefusal(DATA, f'Virtual host "{name}" does not exist')
    return generally_refused(call, error)


def _no_parameter(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    """Return the refusal: in a virtual host that does not exist, no parameter exists."""
    if error.kind == "not_found":
        return VerbRefusal(UNAVAILABLE, "Parameter does not exist")
    return generally_refused(call, error)


def _tags_given(call: VerbCall) -> list[str]:
    return [tag for tag in call.options.get("tags", "").split(",") if tag]


def _check_queue_type(call: VerbCall) -> None:
    given = call.options.get("default-queue-type")
    if call.dialect.types_checked and given is not None and given not in TYPES:
        raise bad_argument(f"Default queue type must be one of: quorum, stream, classic. Provided: {given}")


def _add_vhost(call: VerbCall) -> Outcome:
    queue_type = call.options.get("default-queue-type", "")
    description = call.options.get("description", "")
    name, tags = call.arguments[0], _tags_given(call)
    call.ask(AddVhost(name=name, description=description, tags=tags, default_queue_type=queue_type))
    return call.done()


def _update_vhost(call: VerbCall) -> Outcome:
    call.ask(
        UpdateVhost(
            name=call.arguments[0],
            description=call.options.get("description"),
            tags=_tags_given(call) if "tags" in call.options else None,
            default_queue_type=call.options.get("default-queue-type"),
            protected_from_deletion=call.options.get("protected-from-deletion"),
        )
    )
    return call.done()


def _check_update(call: VerbCall) -> None:
    if not any(option.name in call.options for option in _METADATA):
        raise Misuse("not enough arguments.")
    _check_queue_type(call)


def _protection(*, on: bool) -> VerbAction:
    return asking(lambda call, name: UpdateVhost(name=name, protected_from_deletion=on), _no_vhost_named)


def _reconcile(call: VerbCall) -> Outcome:
    call.ask(Ping())
    return call.done()


def _unknown_type(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    if "Unsupported default queue type" in str(error):
        return VerbRefusal(UNAVAILABLE, "invalid_queue_type")
    return generally_refused(call, error)


def _tags_banner(call: VerbCall) -> str:
    return f'Setting tags for virtual host "{call.arguments[0]}" to [{", ".join(call.arguments[1:])}] ...'


def _clear_vhost_limits(call: VerbCall) -> Outcome:
    if not _limits_of(call).get(call.vhost):
        raise VerbRefusal(UNAVAILABLE, "Parameter does not exist")
    call.ask(ClearVhostLimits(name=call.vhost, limits=[]))
    return call.done()


def _limits_of(call: VerbCall) -> dict[str, dict[str, int]]:
    return {row["name"]: row["limits"] for row in call.ask(ListVhosts(columns=["name", "limits"]))}


def _list_vhost_limits(call: VerbCall) -> Outcome:
    limits = _limits_of(call)
    if call.options.get("global"):
        rows = [{"vhost": name, "limits": sorted_json(given)} for name, given in limits.items() if given]
        return ListedRows(["vhost", "limits"], rows, streamed=False)
    if call.vhost not in limits:
        raise VerbRefusal(DATA, no_vhost_text(call.vhost), headed=False)
    if not limits[call.vhost]:
        return ShownText([""], [])
    return call.said(sorted_json(limits[call.vhost]))


def _limits_banner(call: VerbCall) -> str:
    if call.options.get("global"):
        return "Listing limits for all vhosts ..."
    return f'Listing limits for vhost "{call.vhost}" ...'


def _trace_on(call: VerbCall) -> Outcome:
    call.ask(TraceOn(vhost=call.vhost))
    return call.said(f"Trace enabled for vhost {call.vhost}")


def _trace_off(call: VerbCall) -> Outcome:
    call.ask(TraceOff(vhost=call.vhost))
    return call.said(f"Trace disabled for vhost {call.vhost}")


def _restart_vhost(call: VerbCall) -> Outcome:
    if call.vhost not in _limits_of(call):
        text = f"Failed to start vhost '{call.vhost}' on node '{call.node}'. Reason: no such virtual host"
        raise VerbRefusal(SOFTWARE, text)
    return call.message(f"Vhost '{call.vhost}' is already running on node '{call.node}'")


_DESCRIPTION = (Option("description", str, "d"), Option("tags", str), Option("default-queue-type", str))
_METADATA = (*_DESCRIPTION, Option("protected-from-deletion", bool))
LINES = """
[Virtual hosts]
add_vhost c 1-1 <vhost> [--description <description> --tags "<tag1>,<tag2>,<...>" --default-queue-type <quorum|classic|stream>]
  Creates a virtual host
  Adding vhost "{0}" ...
clear_vhost_limits c 0-0 [--vhost <vhost>]
  Lifts the limits of a virtual host
  Clearing vhost "{vhost}" limits ...
delete_vhost c 1-1 <vhost>
  Deletes a virtual host with everything in it
  Deleting vhost "{0}" ...
disable_vhost_deletion_protection c 1-1 since=4.2 <vhost>
  Lets a virtual host be deleted again
  Removing deletion protection from virtual host "{0}" by updating its metadata...
enable_vhost_deletion_protection c 1-1 since=4.2 <vhost>
  Keeps a virtual host from being deleted
  Protecting virtual host "{0}" from removal by updating its metadata...
list_vhost_limits cd 0-0 [--vhost <vhost>] [--global] [--no-table-headers]
  Lists the limits of a virtual host, or of all
reconcile_vhosts c 0-0 since=3.13 [--timeout <timeout>]
  Does nothing: virtual hosts run as long as the broker does
  Will try to initiate virtual host reconciliation on all reachable cluster nodes...
restart_vhost c 0-0 [--vhost <vhost>] [--timeout <timeout>]
  Does nothing: virtual hosts run as long as the broker does
  Trying to restart vhost '{vhost}' on node '{node}' ...
set_vhost_limits c 1-1 [--vhost <vhost>] <definition>
  Limits a virtual host's connections and queues
  Setting vhost limits to "{0}" for vhost "{vhost}" ...
set_vhost_tags c 1-* <vhost> <tag> [...]
  Gives a virtual host these tags and no others
trace_off c 0-0 [--vhost <vhost>]
  Ends the firehose
  Stopping tracing for vhost "{vhost}" ...
trace_on c 0-0 [--vhost <vhost>]
  Has everything published or delivered go to amq.rabbitmq.trace, too
  Starting tracing for vhost "{vhost}" ...
update_vhost_metadata c 1-1 since=3.13 <vhost> [--description=<description>] [--tags="<tag1>,<tag2>,<...>"] [--default-queue-type=<quorum|classic|stream>] [--protected-from-deletion=<true|false>]
  Changes description, tags, default queue type or protection of a virtual host
  Updating metadata of vhost "{0}" ...
"""

VERBS: dict[str, VerbAction] = {
    "add_vhost": VerbAction(_add_vhost, _unknown_type, _DESCRIPTION, _check_queue_type),
    "delete_vhost": asking(lambda call, name: DeleteVhost(name=name), _not_deleted),
    "update_vhost_metadata": VerbAction(_update_vhost, _no_vhost_named, _METADATA, _check_update),
    "enable_vhost_deletion_protection": _protection(on=True),
    "disable_vhost_deletion_protection": _protection(on=False),
    "reconcile_vhosts": VerbAction(_reconcile),
    "set_vhost_tags": asking(
        lambda call, name, *tags: UpdateVhost(name=name, tags=list(tags)), _no_vhost_quoted, banner=_tags_banner
    ),
    "set_vhost_limits": asking(
        lambda call, limits: SetVhostLimits(name=call.vhost, limits=parsed_json(call, limits)), no_vhost
    ),
    "clear_vhost_limits": VerbAction(_clear_vhost_limits, _no_parameter),
    "list_vhost_limits": VerbAction(_list_vhost_limits, options=(Option("global", bool),), banner=_limits_banner),
    "trace_on": VerbAction(_trace_on, no_vhost),
    "trace_off": VerbAction(_trace_off, no_vhost),
    "restart_vhost": VerbAction(_restart_vhost),
}
