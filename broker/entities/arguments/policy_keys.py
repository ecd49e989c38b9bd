"""The keys of policies by series of RabbitMQ: unknown ones, those of operator policies, those of each queue type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.entities.arguments.queue_types import CLASSIC, QUORUM, STREAM

EXCHANGE = "exchange"
"""The kind of entity, beside the queue types, that a policy may apply to."""


class PolicyRules(NamedTuple):
    """The differences between series in the keys of policies."""

    unknown: frozenset[str]
    """Keys that other series know and this one refuses."""
    of_operators: frozenset[str]
    """Keys that operator policies may have."""
    unsupported: Mapping[str, frozenset[str]]
    """Keys that a kind of entity does not support: a policy with one of them does not apply to it at all."""
    no_delivery_limit: bool = False
    """A negative delivery-limit is none; otherwise it is refused."""
    words_of_4: bool = False
    """A wrong apply-to is refused with 4.x's list of words."""


_MIRRORS = frozenset(
    {"ha-mode", "ha-params", "ha-promote-on-failure", "ha-promote-on-shutdown", "ha-sync-batch-size", "ha-sync-mode"}
)
_RETRIES = frozenset({"delayed-retry-max", "delayed-retry-min", "delayed-retry-type"})
_SINCE_4_3 = _RETRIES | {"consumer-disconnected-timeout"}
_OPERATORS_OF_3_10 = frozenset(
    {"delivery-limit", "expires", "max-in-memory-bytes", "max-in-memory-length", "max-length", "max-length-bytes"}
    | {"message-ttl"}
)
_OPERATORS_OF_4_2 = _OPERATORS_OF_3_10 | {"overflow", "queue-version", "target-group-size"}
_OF_CLASSIC_ALONE = (_MIRRORS - {"ha-sync-batch-size"}) | {"queue-master-locator", "queue-mode"}
_OF_STREAMS_ALONE = frozenset({"initial-cluster-size", "max-age", "stream-max-segment-size-bytes"})
_OF_QUORUM_ALONE = frozenset({"dead-letter-strategy", "delivery-limit"})
_IN_MEMORY = frozenset({"max-in-memory-bytes", "max-in-memory-length"})
_NOT_OF_STREAMS = frozenset(
    {"dead-letter-exchange", "dead-letter-routing-key", "expires", "max-length", "message-ttl", "overflow"}
)


def _unsupported(*of_classic: frozenset[str]) -> Mapping[str, frozenset[str]]:
    """Return the unsupported keys of each kind; `of_classic` beside those of streams and of quorum queues."""
    return {
        EXCHANGE: frozenset(),
        CLASSIC.name: _OF_STREAMS_ALONE.union(_OF_QUORUM_ALONE, *of_classic),
        QUORUM.name: _OF_CLASSIC_ALONE | _OF_STREAMS_ALONE,
        STREAM.name: _OF_CLASSIC_ALONE | _NOT_OF_STREAMS | _OF_QUORUM_ALONE | _IN_MEMORY | {"target-group-size"},
    }


RULES_OF_3_10 = PolicyRules(
    _SINCE_4_3 | {"stream-filter-size-bytes", "target-group-size"},
    _OPERATORS_OF_3_10,
    _unsupported(frozenset({"queue-leader-locator"})),
)
RULES_OF_3_13 = PolicyRules(
    _SINCE_4_3,
    _OPERATORS_OF_4_2 | {"ha-mode", "ha-params", "ha-sync-mode"},
    _unsupported(frozenset({"queue-leader-locator", "target-group-size"})),
)
RULES_OF_4_2 = PolicyRules(
    _SINCE_4_3 | _MIRRORS,
    _OPERATORS_OF_4_2 | {"queue-master-locator"},
    _unsupported(_IN_MEMORY, frozenset({"target-group-size"})),
    no_delivery_limit=True,
    words_of_4=True,
)
RULES_OF_4_3 = RULES_OF_4_2._replace(unknown=_MIRRORS, of_operators=RULES_OF_4_2.of_operators | _RETRIES)
RULES_OF_ANY = RULES_OF_4_3._replace(
    unknown=frozenset(), of_operators=RULES_OF_3_13.of_operators | RULES_OF_4_3.of_operators
)
"""For stored policies: a start under another personality applies them, as an upgraded RabbitMQ does."""
