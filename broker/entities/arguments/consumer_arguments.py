"""The arguments of basic.consume: those that a queue type refuses, and their values, by series of RabbitMQ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.entities.arguments.queue_types import CLASSIC, QUORUM, STREAM, QueueType
from broker.wire.amqp_errors import precondition_failed
from broker.wire.field_tables import INTEGER_KINDS, TYPE_NAMES, Table


class ConsumerRules(NamedTuple):
    """The arguments that each queue type refuses, because only other types support them."""

    refused: Mapping[str, tuple[str, ...]]
    failover: bool
    """x-cancel-on-ha-failover has to be a boolean; otherwise it is an unknown argument, which may be anything."""


RULES_OF_3 = ConsumerRules(
    {
        CLASSIC.name: ("x-stream-offset",),
        QUORUM.name: ("x-stream-offset", "x-cancel-on-ha-failover"),
        STREAM.name: ("x-priority", "x-cancel-on-ha-failover"),
    },
    failover=True,
)
_OF_STREAMS = ("x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered")
RULES_OF_4 = ConsumerRules(
    {CLASSIC.name: _OF_STREAMS, QUORUM.name: _OF_STREAMS, STREAM.name: ("x-priority",)}, failover=False
)


def check(type_: QueueType, where: str, arguments: Table, rules: ConsumerRules) -> None:
    """Refuse arguments that only other types support. Raises ChannelException 406."""
    for argument in rules.refused[type_.name]:
        if argument in arguments:
            raise precondition_failed(f"invalid arg '{argument}' for {where} of queue type {type_.module}")


def check_values(where: str, arguments: Table, rules: ConsumerRules) -> None:
    """Refuse wrong values, even of an argument without effect. Raises ChannelException 406."""
    priority, failover = arguments.get("x-priority"), arguments.get("x-cancel-on-ha-failover")
    if priority is not None and priority.kind not in INTEGER_KINDS:
        problem = f'"expected integer, got {TYPE_NAMES[priority.kind]}"'
        raise precondition_failed(f"invalid arg 'x-priority' for {where}: {problem}")
    if rules.failover and failover is not None and failover.kind != "t":
        problem = f"{{unacceptable_type,{TYPE_NAMES[failover.kind]}}}"
        raise precondition_failed(f"invalid arg 'x-cancel-on-ha-failover' for {where}: {problem}")
