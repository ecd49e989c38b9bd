"""Every command of `leveret`, on a directory on which no broker runs: it changes what it says, or nothing."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from broker.cli.list_command import LISTINGS
from broker.wire import methods
from harness.clients.shorthand import exchange_declare, queue_bind, queue_declare
from tests.durability.ledgers.conversation import Answer, Request, Said
from tests.durability.ledgers.topology import COPY, TX_A, kept
from tests.durability.operators.operated_store import OperatedStore, Refusal, chance
from tests.durability.operators.operator_step import Scene, Step
from tests.durability.operators.step_record import Cut

CONNECTION = 0
"""In place of the number of a client's connection."""
OF_THE_COMMAND = re.compile(
    "no broker is running|no queue|already exists|cannot be reached|Connection refused|no second place"
    "|nothing to follow"
)
"""Refusals that are no fault of the directory: of what there is not, or is already."""
CUT_CHANCE = 0.3


class Commanded(NamedTuple):
    """A command line, and what it asks for: a request and its answer, which ledgers follow.

    `opens`: it opens the stores, as a start does.
    """

    arguments: tuple[str, ...]
    asks: Any = None
    answer: Any = None
    opens: bool = True


Drawn = Callable[[OperatedStore, random.Random], Commanded]


def _fixed(*arguments: str, opens: bool = True) -> Drawn:
    return lambda store, dice: Commanded(arguments, opens=opens)


def _listing(store: OperatedStore, dice: random.Random) -> Commanded:
    kind = dice.choice(list(LISTINGS))
    return Commanded(("list", kind), opens=not LISTINGS[kind].running_only)


def _request(arguments: Sequence[str], command: str, said: Mapping[str, Any]) -> Commanded:
    return Commanded(tuple(arguments), Request(command, said), Answer(True))


def _user(store: OperatedStore, dice: random.Random) -> Commanded:
    name, password = f"user {store.number()}", f"secret {dice.randrange(1000)}"
    return _request(("user", "add", name, password), "add_user", {"name": name, "password": password, "tags": []})


def _vhost(store: OperatedStore, dice: random.Random) -> Commanded:
    name = f"host {store.number()}"
    return _request(("vhost", "add", name), "add_vhost", {"name": name, "description": ""})


def _permission(store: OperatedStore, dice: random.Random) -> Commanded:
    """The clients are guest, and may go on with what they do."""
    said = {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    return _request(("permission", "set", "guest", ".*", ".*", ".*"), "set_permissions", said)


def _policy(store: OperatedStore, dice: random.Random) -> Commanded:
    definition = {"max-length": dice.randrange(100)}
    said = {"vhost": "/", "name": "limits", "pattern": "^q$", "definition": definition, "priority": 0}
    return _request(("policy", "set", "limits", "^q$", json.dumps(definition)), "set_policy", said)


def _purge(store: OperatedStore, dice: random.Random) -> Commanded:
    queue = dice.choice((COPY, kept(0)))
    return Commanded(("purge-queue", queue), methods.QueuePurge(queue, False), methods.QueuePurgeOk(0))


def _delete(store: OperatedStore, dice: random.Random) -> Commanded:
    asked = methods.QueueDelete(TX_A, False, False, False)
    return Commanded(("delete-queue", TX_A), asked, methods.QueueDeleteOk(0))


def _queue(store: OperatedStore, dice: random.Random) -> Commanded:
    name = f"queue {store.number()}"
    return Commanded(("queue", "declare", name), queue_declare(name, durable=True), methods.QueueDeclareOk(name, 0, 0))


def _exchange(store: OperatedStore, dice: random.Random) -> Commanded:
    name = f"exchange {store.number()}"
    asked = exchange_declare(name, "topic", durable=True)
    return Commanded(("exchange", "declare", name, "--type", "topic"), asked, methods.ExchangeDeclareOk())


def _binding(store: OperatedStore, dice: random.Random) -> Commanded:
    key = f"key.{store.number()}"
    asked = queue_bind(COPY, "amq.topic", key)
    return Commanded(("binding", "add", "amq.topic", COPY, key), asked, methods.QueueBindOk())


def _import(store: OperatedStore, dice: random.Random) -> Commanded:
    file = store.home / f"definitions-{store.number()}.json"
    file.write_text(json.dumps({"vhosts": [{"name": "/"}], "users": [], "permissions": []}))
    return Commanded(("import", "definitions", str(file)))


def _export(store: OperatedStore, dice: random.Random) -> Commanded:
    return Commanded(("export", "definitions", str(store.home / f"exported-{store.number()}.json")))


def _archive(store: OperatedStore, dice: random.Random) -> Commanded:
    out = str(store.home / f"archive-{store.number()}")
    return Commanded(("archive", "--queue", kept(0), "--out", out, "--uri", "amqp://127.0.0.1:1"), opens=False)


def _named(*verbs: str) -> Drawn:
    """One of several that say that no broker runs."""
    return lambda store, dice: Commanded(tuple(dice.choice(verbs).split()), opens=False)


COMMANDS: dict[str, tuple[int, Drawn]] = {
    "list": (4, _listing),
    "check": (2, _fixed("check", opens=False)),
    "recover": (2, _fixed("recover", opens=False)),
    "promote": (1, _fixed("promote", opens=False)),
    "ship": (1, _fixed("ship", "--off", opens=False)),
    "follow": (1, _fixed("follow", opens=False)),
    "inspect": (2, _fixed("inspect", "--format", "json", "--bodies", opens=False)),
    "export": (1, _export),
    "import": (1, _import),
    "user": (2, _user),
    "vhost": (1, _vhost),
    "permission": (1, _permission),
    "policy": (1, _policy),
    "operator-policy": (1, _fixed("operator-policy", "set", "least", "^nothing$", '{"max-length": 1000}')),
    "topic-permission": (1, _fixed("topic-permission", "set", "guest", "amq.topic", ".*", ".*")),
    "parameter": (1, _fixed("parameter", "list")),
    "global-parameter": (1, _fixed("global-parameter", "set", "named", '"a value"')),
    "cluster-name": (1, _fixed("cluster-name", "a name")),
    "peek": (1, _fixed("peek", COPY, "--json")),
    "purge-queue": (1, _purge),
    "delete-queue": (1, _delete),
    "queue": (1, _queue),
    "exchange": (1, _exchange),
    "binding": (1, _binding),
    "archive": (1, _archive),
    "status": (1, _named("status", "ping", "report", "environment", "memory", "stop", "testing")),
    "rabbitmqctl": (1, _named("rabbitmqctl list_queues", "rabbitmqctl status", "rabbitmqctl list_users")),
}
"""Verbs, how often each is drawn in comparison, and with which arguments. `status` is for all that ask a broker."""

ASKING = frozenset(
    (
        *("status", "ping", "wait", "stop", "health", "environment", "memory", "report", "testing"),
        *("set-memory-high-watermark", "set-log-level", "set-log-form", "set-disk-free-limit"),
        *("close-connection", "close-connections", "trace"),
    )
)
"""Verbs that only ask a running broker, and touch nothing where there is none."""
ELSEWHERE = frozenset(("serve", "backup", "restore"))
"""Verbs that are steps of their own."""
FINDING = ("check", "recover")
"""Verbs that say what they find, and then end with 1."""
NO_DIRECTORY = frozenset(
    (
        *(
            "config",
            "rehearse",
            "test",
            "test-brokers",
            "publish",
            "get",
            "consume",
            "tail",
            "bench",
            "migrate",
            "pipeline",
        ),
        *("rabbitmq-diagnostics", "rabbitmq-plugins", "rabbitmq-queues", "rabbitmq-streams", "rabbitmq-upgrade"),
        "rabbitmqadmin",
    )
)
"""Verbs that speak AMQP or HTTP to a broker, or read its event log, or are other names of what is here."""


def command(name: str) -> Callable[[Scene], None]:
    """Have a verb carried out, and perhaps cut short."""
    _weight, drawn = COMMANDS[name]

    def do(scene: Scene) -> None:
        store, dice = scene.store, scene.dice
        commanded = drawn(store, dice)
        cut = Cut.drawn(dice) if chance(dice, CUT_CHANCE) else None
        store.tell(f"leveret {' '.join(commanded.arguments)}{f'; {cut}' if cut else ''}")
        carry_out(store, commanded, cut)

    return do


def carry_out(store: OperatedStore, commanded: Commanded, cut: Cut | None) -> None:
    """Run a command, and have ledgers follow it. A refusal says why."""
    if commanded.asks is not None:
        store.begin_life()
        store.add([Said(CONNECTION, True, commanded.asks, None)])
    refusal = store.command(commanded.arguments, cut)
    if refusal is None:
        if commanded.answer is not None:
            store.add([Said(CONNECTION, False, commanded.answer, None)])
        if commanded.opens:
            store.settle()
            store.opened()
    elif not refusal.cut:
        store.tell(f"  refused: {refusal.line or refusal.output}")
        _expect_reason(store, commanded.arguments[0], refusal)


def _expect_reason(store: OperatedStore, verb: str, refusal: Refusal) -> None:
    if verb in FINDING and not refusal.line:
        if not store.harms:
            raise store.broken(f"`leveret {verb}` finds problems where nothing was done: {refusal.output}")
    elif verb != "rabbitmqctl" and not OF_THE_COMMAND.search(refusal.line):
        store.expect_cause(refusal)


STEPS = [Step(f"leveret {name}", weight, command(name)) for name, (weight, _) in COMMANDS.items()]
