"""The header `x-delay`: the delay that a publisher asks for, and its negative value in the delivered message.

The model is RabbitMQ's plugin rabbitmq_delayed_message_exchange: which field types it accepts, the longest delay, and
the negative value with which a delivered message says how long it has waited. A negative value asks for no delay, so
the message passes further exchanges of this type at once.
"""

from __future__ import annotations

import math
import re
from typing import Any

from broker.entities.messages.message import BccMessage, Message, copied_to
from broker.wire.field_tables import INTEGER_KINDS, Field, Fields, Table
from broker.wire.properties import decode_properties, encode_header
from storage.batch import BLIND, DELAYED

HEADER = "x-delay"

DELAY_MAX_MILLISECONDS = (1 << 32) - 1
"""A message with a longer delay is not delayed at all, as in RabbitMQ."""

_DIGITS = re.compile(rb"[+-]?[0-9]{1,20}")
_SIGNED_INT_MAX = (1 << 31) - 1


def delay_of(headers: Fields) -> int:
    """Return the milliseconds that a message has to wait; 0 without a valid delay."""
    field = headers.get(HEADER)
    delay = 0 if field is None else _number(field)
    return delay if 0 < delay <= DELAY_MAX_MILLISECONDS else 0


def delayed(message: Message) -> Message:
    """Return the message as the delay queue stores it."""
    kept = message.copy()
    kept.flags |= DELAYED
    return kept


def released(kept: Message) -> tuple[Message, list[str], Table]:
    """Return the message to publish when it is due, the keys by which it is routed, and its headers."""
    properties = decode_properties(kept.header)
    headers = dict(properties.headers or {})
    delay = delay_of(headers)
    headers[HEADER] = Field("I" if delay <= _SIGNED_INT_MAX else "l", -delay)
    changes: dict[str, Any] = {"headers": dict(sorted(headers.items()))}
    header = encode_header(len(kept.body), properties._replace(**changes))
    message = Message(kept.route, header, kept.body, kept.flags & ~(DELAYED | BLIND))
    message.expiration = None if properties.expiration is None else int(properties.expiration)
    message.priority = properties.priority or 0
    blind = kept.bcc_keys
    if blind:
        message = BccMessage.of(message, header, blind)
    return message, [kept.routing_key, *copied_to(headers), *blind], headers


def _number(field: Field) -> int:
    """Return a header's value as an integer; 0 for other types."""
    if field.kind in INTEGER_KINDS:
        return int(field.value)
    if field.kind in "fd":
        return int(field.value) if math.isfinite(field.value) else 0
    if field.kind == "S" and _DIGITS.fullmatch(field.value):
        return int(field.value)
    return 0
