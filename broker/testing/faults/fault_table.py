"""The table of faults that a test can request: effect, subject, scope and parameters.

docs/testing-with-leveret.md has the same table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from broker.wire import methods
from broker.wire.constants import ReplyCode

NOW = "now"
METHODS = {method.NAME: method.KEY for method in sorted(methods.CLIENT_METHODS, key=lambda method: method.KEY)}
"""The keys of methods by their names."""
METHOD_NAMES = {key: name for name, key in METHODS.items()}
CHANNEL_CODES = frozenset({311, 313, 403, 404, 405, 406})
CONNECTION_CODES = frozenset(int(code) for code in ReplyCode) - CHANNEL_CODES - {200} | {403, 404}

CLIENT = ("connection", "user", "vhost")
CHANNEL = (*CLIENT, "channel")
PUBLISH = (*CHANNEL, "exchange", "routing_key", "queue")
DELIVERY = (*CHANNEL, "queue", "consumer_tag")

ONCE = 1
UNTIL_LIFTED = None


class FaultParameter(NamedTuple):
    """A number up to `highest` (one of `codes`, if given), one of `choices`, or any text. `default` None: required."""

    meaning: str
    default: float | str | None
    highest: float = 0
    choices: tuple[str, ...] = ()
    codes: frozenset[int] = frozenset()


class Fault(NamedTuple):
    """A fault: its effect, its subjects, the scopes that choose among them, and its default number of times."""

    does: str
    to: str
    scope: tuple[str, ...]
    times: int | None
    parameters: dict[str, FaultParameter] = {}


HOUR = 3_600_000.0
ON = FaultParameter(
    "`now`, or a method such as `basic.publish`: when the client sends it next, in place of it",
    NOW,
    choices=(NOW, *METHODS),
)
PUBLISHES, ACKS, COMMITS = "each publish in confirm mode", "each basic.ack", "each commit of messages"
CONNECTIONS = "connections there are now"

FAULTS = {
    "nack-confirms": Fault("the publisher gets basic.nack; the message is in its queues", PUBLISHES, PUBLISH, ONCE),
    "withhold-confirms": Fault("the publish is never answered", PUBLISHES, PUBLISH, ONCE),
    "delay-confirms": Fault(
        "the publish is answered later, by the broker's clock",
        PUBLISHES,
        PUBLISH,
        ONCE,
        {"milliseconds": FaultParameter("how much later", None, HOUR * 24)},
    ),
    "coalesce-confirms": Fault(
        "publishes of a channel are answered together, once `count` of them wait",
        PUBLISHES,
        PUBLISH,
        UNTIL_LIFTED,
        {"count": FaultParameter("how many", None, 1_000_000)},
    ),
    "lose-connection-before-ack": Fault("the socket is closed, the ack is not read", ACKS, DELIVERY, ONCE),
    "lose-connection-after-ack": Fault("the ack is read, then the socket is closed", ACKS, DELIVERY, ONCE),
    "redeliver": Fault("the message comes once more, as if it had been given back", ACKS, DELIVERY, ONCE),
    "cancel-consumer": Fault(
        "the broker sends basic.cancel, as when a queue is deleted", "consumers there are now", DELIVERY, UNTIL_LIFTED
    ),
    "close-connection": Fault(
        "the broker sends connection.close",
        f"{CONNECTIONS}, or each such method",
        DELIVERY,
        ONCE,
        {
            "code": FaultParameter("reply code", 320, 999, codes=CONNECTION_CODES),
            "text": FaultParameter("behind the code's name", "by order of a test"),
            "on": ON,
        },
    ),
    "close-channel": Fault(
        "the broker sends channel.close",
        "channels there are now, or each such method",
        DELIVERY,
        ONCE,
        {
            "code": FaultParameter("reply code", 406, 999, codes=CHANNEL_CODES),
            "text": FaultParameter("behind the code's name", "by order of a test"),
            "on": ON,
        },
    ),
    "block-connections": Fault(
        "connection.blocked, and connection.unblocked when it is lifted; publishes are taken",
        CONNECTIONS,
        CLIENT,
        UNTIL_LIFTED,
    ),
    "refuse-connections": Fault("the socket is closed as soon as it is accepted", "each socket", ("connection",), ONCE),
    "refuse-logins": Fault("403, as for a wrong password", "each log-in by AMQP", ("connection", "user"), ONCE),
    "drop-bytes": Fault(
        "bytes are lost, and the socket stays open",
        "the bytes of connections",
        CLIENT,
        UNTIL_LIFTED,
        {
            "after": FaultParameter("how many bytes still pass", 0, 1e15),
            "direction": FaultParameter("`out`: to the client; `in`: from it", "out", choices=("out", "in")),
        },
    ),
    "stall": Fault("nothing is read and nothing is sent", "the sockets of connections", CLIENT, UNTIL_LIFTED),
    "trickle": Fault(
        "few bytes are sent at a time, by the machine's clock",
        "the bytes to clients",
        CLIENT,
        UNTIL_LIFTED,
        {
            "bytes": FaultParameter("how many at a time", 1, 1_000_000),
            "milliseconds": FaultParameter("between each two times", 10, HOUR),
        },
    ),
    "memory-alarm": Fault("publishers are blocked: low on memory", "the broker", (), UNTIL_LIFTED),
    "disk-alarm": Fault("publishers are blocked: low on disk", "the broker", (), UNTIL_LIFTED),
    "slow-disk": Fault(
        "the commit takes longer, by the machine's clock",
        COMMITS,
        (),
        UNTIL_LIFTED,
        {"milliseconds": FaultParameter("how much longer", None, HOUR)},
    ),
    "full-disk": Fault("there is no room, which is tried again each second", COMMITS, (), UNTIL_LIFTED),
    "fail-sync": Fault("the sync fails, and the process ends without another confirm", COMMITS, (), ONCE),
    "die-before-commit": Fault("the process dies (SIGKILL), nothing of the commit is on disk", COMMITS, (), ONCE),
    "die-after-commit": Fault("the process dies (SIGKILL), all of the commit is on disk", COMMITS, (), ONCE),
}

OF_CONFIRMS = frozenset({"nack-confirms", "withhold-confirms", "delay-confirms", "coalesce-confirms"})
OF_ACKS = frozenset({"lose-connection-before-ack", "lose-connection-after-ack", "redeliver"})
OF_METHODS = frozenset({"close-connection", "close-channel"})
OF_SOCKETS_ACCEPTED = frozenset({"refuse-connections"})
OF_LOGINS = frozenset({"refuse-logins"})
OF_SOCKETS = frozenset({"drop-bytes", "stall", "trickle"})
STANDING = OF_SOCKETS | {"memory-alarm", "disk-alarm", "block-connections"}
"""Faults that hold until they are lifted, and are not counted."""
OF_COMMITS = frozenset({"slow-disk", "full-disk", "fail-sync", "die-before-commit", "die-after-commit"})


def table_shown() -> list[dict[str, Any]]:
    """Return the table for users."""
    return [
        {
            "fault": name,
            "does": fault.does,
            "to": fault.to,
            "parameters": {key: _shown(parameter) for key, parameter in fault.parameters.items()},
            "scope": list(fault.scope),
            "times": fault.times,
        }
        for name, fault in FAULTS.items()
    ]


def _shown(parameter: FaultParameter) -> dict[str, Any]:
    return {"meaning": parameter.meaning, "default": parameter.default}
