"""`eval` without Erlang: the few expressions that scripts and test suites of clients ask."""

from __future__ import annotations

import re
import sys

from broker.admin.commands.node_admin import ClearAlarm, ListAlarms, RaiseAlarm
from broker.admin.json_terms import atom
from broker.rabbitmq.ctl.outcomes import DATA, UNAVAILABLE, Misuse, Outcome, VerbRefusal
from broker.rabbitmq.ctl.verb_call import VerbAction, VerbCall

ANSWERED = "only node()., and set_alarm, clear_alarm and get_alarms of rabbit_alarm, are answered"
NEXT_LINE = "\n "
_RESOURCE = r"\{resource_limit,(memory|disk),(node\(\)|'[^']*'|[a-z][\w@]*)\}"
_NODE = re.compile(r"node\(\)\.")
_SET = re.compile(rf"rabbit_alarm:set_alarm\(\{{{_RESOURCE},\[\]\}}\)\.")
_CLEAR = re.compile(rf"rabbit_alarm:clear_alarm\({_RESOURCE}\)\.")
_ALARMS = re.compile(r"rabbit_alarm:get_alarms\(\)\.")


def _eval(call: VerbCall) -> Outcome:
    expression = call.arguments[0] if call.arguments else sys.stdin.read()
    if not expression.strip():
        raise VerbRefusal(DATA, "Expression to evaluate is not provided via argument or stdin")
    plain = "".join(expression.split())
    if _NODE.fullmatch(plain):
        return call.said(call.node)
    if _ALARMS.fullmatch(plain):
        return call.said(_alarms(call))
    for pattern, command in ((_SET, RaiseAlarm), (_CLEAR, ClearAlarm)):
        if asked := pattern.fullmatch(plain):
            _check_node(call, asked[2])
            call.ask(command(resource=asked[1]))
            return call.said("ok")
    raise VerbRefusal(UNAVAILABLE, f"eval runs Erlang code, and there is no Erlang here: {ANSWERED}")


def _check_node(call: VerbCall, name: str) -> None:
    if name != "node()" and name.strip("'") != call.node:
        raise VerbRefusal(UNAVAILABLE, f"there is one node, {call.node}, and it has no alarms of {name}")


def _alarms(call: VerbCall) -> str:
    """Return the alarms as Erlang writes them; RabbitMQ 4 has them by name."""
    rows = [f"{{{{resource_limit,{row['resource']},{atom(row['node'])}}},[]}}" for row in call.ask(ListAlarms())]
    if call.place.series.startswith("4."):
        rows.sort()
    return f"[{f',{NEXT_LINE}'.join(rows)}]"


def _check_eval(call: VerbCall) -> None:
    if call.arguments and not call.arguments[0].rstrip().endswith("."):
        raise Misuse('"syntax error before: "')


LINES = """
[Operations]
eval c 0-1 <expression>
  Answers node()., and raises, clears and lists alarms by rabbit_alarm; there is no Erlang
"""

VERBS: dict[str, VerbAction] = {"eval": VerbAction(_eval, check=_check_eval, while_stopped=True)}
