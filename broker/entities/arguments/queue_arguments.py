"""The arguments of queue.declare: parsing, validation, equivalence.

Reply texts are exactly RabbitMQ 3.10's, Erlang terms included, because client test suites match them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from broker.entities.arguments.queue_types import CLASSIC, QUORUM, STREAM, TYPES, QueueType, check_type, type_of
from broker.entities.arguments.stream_arguments import SEGMENT_BYTES_MAX, interval_milliseconds
from broker.wire.amqp_errors import ChannelException, precondition_failed
from broker.wire.field_tables import INTEGER_KINDS, TYPE_NAMES, Field, Table, plain_value

EXPIRY_MAX_MILLISECONDS = 315_360_000_000  # ten years, RabbitMQ's own bound


class QueueArguments(NamedTuple):
    """The values of a queue's arguments, None for those not given. Times are in milliseconds."""

    message_ttl: int | None = None
    expires: int | None = None
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: str = "drop-head"
    single_active_consumer: bool = False
    consumer_timeout: int | None = None
    delivery_limit: float | None = None  # infinity: none, whatever the default is
    dead_letter_strategy: str = "at-most-once"
    delayed_retry_type: str | None = None
    delayed_retry_min: int | None = None
    delayed_retry_max: int | None = None
    max_priority: int | None = None


def parse(arguments: Table) -> QueueArguments:
    """Return the values of arguments that `check` has accepted."""
    values = {name: plain_value(field) for name, field in arguments.items()}
    return QueueArguments(
        message_ttl=values.get("x-message-ttl"),
        expires=values.get("x-expires"),
        dead_letter_exchange=values.get("x-dead-letter-exchange"),
        dead_letter_routing_key=values.get("x-dead-letter-routing-key"),
        max_length=values.get("x-max-length"),
        max_length_bytes=values.get("x-max-length-bytes"),
        overflow=values.get("x-overflow", "drop-head"),
        single_active_consumer=values.get("x-single-active-consumer", False),
        consumer_timeout=consumer_timeout(arguments),
        delivery_limit=_delivery_limit(arguments.get("x-delivery-limit")),
        dead_letter_strategy=values.get("x-dead-letter-strategy", "at-most-once"),
        delayed_retry_type=_text(values.get("x-delayed-retry-type")),
        delayed_retry_min=_whole(values.get("x-delayed-retry-min")),
        delayed_retry_max=_whole(values.get("x-delayed-retry-max")),
        max_priority=values.get("x-max-priority"),
    )


def _text(value: object) -> str | None:
    """Return a text; None for other values, which RabbitMQ accepts and ignores."""
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    """Return an integer; None for other values, which RabbitMQ accepts and ignores."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def consumer_timeout(arguments: Table) -> int | None:
    """Return the argument x-consumer-timeout of a queue or consumer in milliseconds; 0: no timeout, None: not given.

    RabbitMQ 3.13 does not check this argument. An invalid value is ignored.
    """
    field = arguments.get("x-consumer-timeout")
    if field is None or field.kind not in INTEGER_KINDS:
        return None
    value: Any = field.value
    return int(value) if value >= 0 else None


def check(queue: str, vhost: str, arguments: Table, rules: ArgumentRules) -> None:
    """Validate arguments in RabbitMQ's order: the type, the values of its arguments, arguments of other types.

    Raises ChannelException 406. Unknown arguments are accepted, as in RabbitMQ.
    """
    where = f"for queue '{queue}' in vhost '{vhost}'"
    check_type(arguments.get("x-queue-type"), where, rules.types_of_none)
    type_ = type_of(arguments)
    if "x-dead-letter-exchange" in arguments:  # checked before the type is asked for its arguments
        _exchange_name("x-dead-letter-exchange", arguments["x-dead-letter-exchange"], arguments, queue, vhost)
    known = rules.known[type_.name]
    for name, check_value in rules.checks.items():
        if name in arguments and name in known:
            check_value(name, arguments[name], arguments, queue, vhost)
    for name in arguments:
        if name not in known and rules.knows(name):
            raise precondition_failed(f"invalid arg '{name}' {where} of queue type {type_.module}")


def check_consumer_timeout(type_: QueueType, queue: str, vhost: str, arguments: Table, rules: ArgumentRules) -> None:
    """Check x-consumer-timeout of a consumer as if it were its queue's. Raises ChannelException 406."""
    if "x-consumer-timeout" in arguments:
        given = {"x-queue-type": Field("S", type_.name.encode()), "x-consumer-timeout": arguments["x-consumer-timeout"]}
        check(queue, vhost, given, rules)


def assert_equivalent(queue: str, vhost: str, current: Table, received: Table, rules: ArgumentRules) -> None:
    """Refuse a second declaration with other arguments. Raises ChannelException 406.

    Only arguments that the queue's type knows are compared, integers by value whatever their width. No x-queue-type
    equals type classic.
    """
    for name in rules.known[type_of(current).name]:
        was, now = (rules.compared(name, arguments.get(name)) for arguments in (current, received))
        if not same_value(_with_default(name, was), _with_default(name, now)):
            raise inequivalent(name, f"queue '{queue}' in vhost '{vhost}'", was, now)


def same_value(one: Field | None, other: Field | None) -> bool:
    """Return whether two argument values are the same for RabbitMQ."""
    if one is None or other is None:
        return one is other
    same_type = one.kind == other.kind or {one.kind, other.kind} <= INTEGER_KINDS
    return same_type and one.value == other.value


def inequivalent(name: str, entity: str, current: Field | None, received: Field | None) -> ChannelException:
    """Return the 406 for an argument that differs from the entity's declaration."""
    if current is not None and received is not None:
        text = f"received '{render(received)}' but current is '{render(current)}'"
    else:
        text = f"received {_described(received)} but current is {_described(current)}"
    return precondition_failed(f"inequivalent arg '{name}' for {entity}: {text}")


def render(field: Field) -> str:
    """Return a value as RabbitMQ writes it into a reply text."""
    value = field.value
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _described(field: Field | None) -> str:
    if field is None:
        return "none"
    return f"the value '{render(field)}' of type '{TYPE_NAMES[field.kind]}'"


def _with_default(name: str, field: Field | None) -> Field | None:
    classic = name == "x-queue-type" and field is not None and field.value == CLASSIC.name.encode()
    return None if classic else field


def _delivery_limit(field: Field | None) -> float | None:
    """Return the delivery limit. RabbitMQ 3.10 accepts any value: None (the default) for one that is not a number,
    infinity (no limit) for a negative one, as in RabbitMQ 4."""
    if field is None or field.kind not in INTEGER_KINDS | {"f", "d"}:
        return None
    value: float = field.value
    return value if value >= 0 else math.inf


def _invalid(name: str, queue: str, vhost: str, problem: str) -> ChannelException:
    return precondition_failed(f"invalid arg '{name}' for queue '{queue}' in vhost '{vhost}': {problem}")


def _integer(lowest: int, highest: int | None = None) -> Check:
    def check_integer(name: str, field: Field, arguments: Table, queue: str, vhost: str) -> None:
        value: Any = field.value
        if field.kind not in INTEGER_KINDS:
            raise _invalid(name, queue, vhost, f'"expected integer, got {TYPE_NAMES[field.kind]}"')
        if value < 0:
            raise _invalid(name, queue, vhost, f"{{value_negative,{value}}}")
        if value < lowest:
            raise _invalid(name, queue, vhost, f"{{value_zero,{value}}}")
        if highest is not None and value > highest:
            raise _invalid(name, queue, vhost, f"{{value_too_large,{value}}}")

    return check_integer


def _priority(name: str, field: Field, arguments: Table, queue: str, vhost: str) -> None:
    _integer(0)(name, field, arguments, queue, vhost)
    if field.value > 255:
        raise _invalid(name, queue, vhost, f"{{max_value_exceeded,{field.value}}}")


def _exchange_name(name: str, field: Field, arguments: Table, queue: str, vhost: str) -> None:
    if field.kind != "S":
        kind = TYPE_NAMES[field.kind]
        raise precondition_failed(f"invalid type '{kind}' for arg '{name}' in queue '{queue}' in vhost '{vhost}'")


def _of_kind(kind: str) -> Check:
    def check_kind(name: str, field: Field, arguments: Table, queue: str, vhost: str) -> None:
        if field.kind != kind:
            raise _invalid(name, queue, vhost, f"{{unacceptable_type,{TYPE_NAMES[field.kind]}}}")

    return check_kind


_string, _boolean = _of_kind("S"), _of_kind("t")


def _interval(name: str, field: Field, arguments: Table, queue: str, vhost: str) -> None:
    _string(name, field, arguments, queue, vhost)
    if interval_milliseconds(field) is None:
        raise _invalid(name, queue, vhost, "invalid_max_age")


def _segment_size(name: str, field: Field, arguments: Table, queue: str, vhost: str) -> None:
    _integer(0)(name, field, arguments, queue, vhost)
    if field.value > SEGMENT_BYTES_MAX:
        raise precondition_failed(f"Exceeded max value for {name}")


def _dead_letter_key(name: str, field: Field, arguments: Table, queue: str, vhost: str) -> None:
    _string(name, field, arguments, queue, vhost)
    if "x-dead-letter-exchange" not in arguments:
        raise _invalid(name, queue, vhost, "routing_key_but_no_dlx_defined")


def _one_of(invalid: str, *allowed: str) -> Check:
    def check_choice(name: str, field: Field, arguments: Table, queue: str, vhost: str) -> None:
        _string(name, field, arguments, queue, vhost)
        if render(field) not in allowed:
            raise _invalid(name, queue, vhost, invalid.format(render(field)))

    return check_choice


def _queue_version(name: str, field: Field, arguments: Table, queue: str, vhost: str) -> None:
    _integer(0)(name, field, arguments, queue, vhost)
    if field.value not in (1, 2):
        raise _invalid(name, queue, vhost, f"\"unsupported queue version '{field.value}'\"")


Check = Callable[[str, Field, Table, str, str], None]

LEADER_LOCATORS = ("client-local", "balanced", "random", "least-leaders")

_CHECKS: dict[str, Check] = {  # in RabbitMQ's order: the first that is wrong is the one it names
    "x-expires": _integer(1, EXPIRY_MAX_MILLISECONDS),
    "x-message-ttl": _integer(0, EXPIRY_MAX_MILLISECONDS),
    "x-dead-letter-exchange": _exchange_name,
    "x-dead-letter-routing-key": _dead_letter_key,
    "x-dead-letter-strategy": _one_of("invalid_dlx_strategy", "at-most-once", "at-least-once"),
    "x-max-length": _integer(0),
    "x-max-length-bytes": _integer(0),
    "x-max-in-memory-length": _integer(0),
    "x-max-in-memory-bytes": _integer(0),
    "x-max-priority": _priority,
    "x-overflow": _one_of("invalid_overflow", "drop-head", "reject-publish", "reject-publish-dlx"),
    "x-queue-mode": _one_of("\"unsupported queue mode '{}'\"", "default", "lazy"),
    "x-queue-version": _queue_version,
    "x-single-active-consumer": _boolean,
    "x-quorum-initial-group-size": _integer(1),
    "x-max-age": _interval,
    "x-stream-max-segment-size-bytes": _segment_size,
    "x-initial-cluster-size": _integer(1),
    "x-queue-leader-locator": _one_of("invalid_queue_locator_arg", *LEADER_LOCATORS),
}


class ArgumentRules(NamedTuple):
    """The arguments of queue.declare in a series of RabbitMQ."""

    known: dict[str, tuple[str, ...]]
    """By queue type, those that it takes, in the order in which a second declaration is compared."""
    checks: dict[str, Check]
    """The checks of values, in RabbitMQ's order: its reply text names the first that fails."""
    ages_in_milliseconds: bool = False
    """x-max-age is compared, and shown in a refusal, in milliseconds: 1h and 60m are the same."""
    types_of_none: tuple[str, ...] = ()
    """Values of x-queue-type that name no type, and mean a classic queue."""

    def compared(self, name: str, field: Field | None) -> Field | None:
        """Return the value of an argument as a second declaration is compared."""
        if name == "x-max-age" and self.ages_in_milliseconds and field is not None:
            return Field("S", str(interval_milliseconds(field)).encode())
        return field

    def knows(self, name: str) -> bool:
        """Return whether some type takes an argument. A type refuses those of others; all others are accepted."""
        return any(name in arguments for arguments in self.known.values())


def _anything(name: str, field: Field, arguments: Table, queue: str, vhost: str) -> None:
    """Accept any value."""


def _second_version(name: str, field: Field, arguments: Table, queue: str, vhost: str) -> None:
    _integer(0)(name, field, arguments, queue, vhost)
    if field.value != 2:
        raise _invalid(name, queue, vhost, f"\"unsupported queue version '{field.value}'\"")


def _filter_size(name: str, field: Field, arguments: Table, queue: str, vhost: str) -> None:
    _integer(0)(name, field, arguments, queue, vhost)
    size: Any = field.value
    if not 16 <= size <= 255:
        raise precondition_failed(f"Invalid value for {name}")


_FILTERED = {STREAM.name: (*STREAM.arguments, "x-stream-filter-size-bytes")}
_RETRIED = (
    *("x-consumer-disconnected-timeout", "x-consumer-timeout"),
    *("x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max"),
)

RULES_OF_3 = ArgumentRules({name: type_.arguments for name, type_ in TYPES.items()}, _CHECKS)
RULES_OF_4_2 = ArgumentRules(
    RULES_OF_3.known | _FILTERED,
    {
        **_CHECKS,
        "x-queue-leader-locator": _one_of("invalid_queue_locator_arg", *LEADER_LOCATORS, "min-masters"),
        "x-stream-filter-size-bytes": _filter_size,
    },
    types_of_none=("", "undefined"),
)
RULES_OF_4_3 = ArgumentRules(
    RULES_OF_4_2.known | {QUORUM.name: (*QUORUM.arguments, *_RETRIED)},
    {
        **RULES_OF_4_2.checks,
        "x-queue-mode": _anything,
        "x-queue-version": _second_version,
        "x-consumer-timeout": _integer(0),
        "x-consumer-disconnected-timeout": _integer(0),
    },
    ages_in_milliseconds=True,
    types_of_none=RULES_OF_4_2.types_of_none,
)
