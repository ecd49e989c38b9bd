"""Looking at queues after a restart, with the scripted client: nothing is taken on trust."""

from __future__ import annotations

import random
import time

from broker.wire.methods import BasicAck, BasicGetEmpty, ConfirmSelect
from harness.clients.amqp_peer import Message
from harness.clients.contents import PERSISTENT
from harness.clients.shorthand import ack, get
from harness.clients.wire_client import Client
from tests.durability.ledgers.client_ledger import ClientLedger
from tests.durability.ledgers.oracle import Found

GETS_AT_ONCE = 100
SETTLED_PART = 0.7
DUE_SECONDS_MAX = 5.0

Held = dict[str, list[Found]]
Tags = dict[tuple[str, int], int]


def look(client: Client, queue: str) -> list[Message]:
    """Everything that a queue holds, left unacknowledged."""
    messages: list[Message] = []
    while True:
        client.send(*[get(queue)] * GETS_AT_ONCE)
        items = [client.receive() for _ in range(GETS_AT_ONCE)]
        messages += [item for item in items if isinstance(item, Message)]
        if any(isinstance(item, BasicGetEmpty) for item in items):
            return messages


def inspect_ledger(client: Client, ledger: ClientLedger, dice: random.Random) -> list[str]:
    """Hold every queue against the ledger: what is wrong. If nothing is, settle a part and prove that."""
    held: Held = {}
    tags: Tags = {}
    for queue in ledger.queues:
        held[queue] = []
        deadline = time.monotonic() + DUE_SECONDS_MAX
        while True:
            for message in look(client, queue):
                number = ledger.number_of(message.body)
                tags[queue, number] = message.method.delivery_tag
                held[queue].append(Found(number, message.method.redelivered))
            if not ledger.missing(queue, held[queue]) or time.monotonic() > deadline:
                break
    problems = ledger.problems(held)
    if not problems:
        ledger.seen(held)
        _settle_a_part(client, ledger, dice, tags)
    return problems


def _settle_a_part(client: Client, ledger: ClientLedger, dice: random.Random, tags: Tags) -> None:
    settled = [place for place in tags if dice.random() < SETTLED_PART]
    for queue, number in settled:
        ledger.acked(queue, number)
    client.send(*(ack(tags[place]) for place in settled))
    client.ask(ConfirmSelect(False))
    proof = ledger.publish([ledger.proofs.home])
    client.publish(ledger.body(proof), key=ledger.proofs.home, properties=PERSISTENT)
    client.expect(BasicAck)
    ledger.confirmed(proof)
