"""The report: what other verbs show, one after the other, without passwords."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from broker.admin.commands.vhost_admin import ListVhosts
from broker.rabbitmq.ctl.formatters import FORMATTERS, Manner
from broker.rabbitmq.ctl.outcomes import Outcome, ShownText
from broker.rabbitmq.ctl.verb_call import VerbAction, VerbCall
from broker.rabbitmq.ctl.verb_lines import SeriesVerbs, read_verbs
from broker.rabbitmq.ctl.verbs import access_verbs, list_verbs, parameter_verbs, status_verbs

_OF_NODE = ("status", "cluster_status", "environment", "list_connections", "list_channels", "list_global_parameters")
_OF_VHOSTS = (
    "list_queues",
    "list_exchanges",
    "list_bindings",
    "list_permissions",
    "list_policies",
    "list_parameters",
)
_MODULES = (status_verbs, list_verbs, access_verbs, parameter_verbs)
_VERBS = {name: verb for module in _MODULES for name, verb in module.VERBS.items()}
_LINES = tuple(read_verbs(module.LINES for module in _MODULES))


def _report(call: VerbCall) -> Outcome:
    return ShownText(_parts(call), None)


def _parts(call: VerbCall) -> Iterator[str]:
    call.conceals = True
    vhosts = [row["name"] for row in call.ask(ListVhosts(columns=["name"]))]
    for name in _OF_NODE:
        yield from _part(call, name)
    for vhost in vhosts:
        call.vhost = vhost
        for name in _OF_VHOSTS:
            yield from _part(call, name)


def _part(call: VerbCall, name: str) -> Iterator[str]:
    verb, line = _VERBS[name], SeriesVerbs(_LINES, call.place.series).find(call.tool, name)
    assert line is not None, name
    yield ""
    yield verb.banner(call) if verb.banner else line.banner.format(vhost=call.vhost, node=call.node)
    yield from FORMATTERS["table"].write(verb.run(call), Manner(True, False, sys.stdout.isatty()))


LINES = """
[Monitoring, observability and health checks]
report cd 0-0
  Shows everything, for a report of a fault
  Reporting server status of node {node} ...
"""

VERBS: dict[str, VerbAction] = {"report": VerbAction(_report)}
