"""Two more clients: one that makes backlogs many times the broker's memory, and one that everybody should be like."""

from __future__ import annotations

import random
import time

from broker.wire.methods import BasicCancel, QueuePurge
from harness.clients.shorthand import nack, prefetch
from tests.durability.exhaustion.plan import TTL_SECONDS
from tests.durability.exhaustion.troubles import FairTime
from tests.durability.kills.adapters.client_adapter import ClientAdapter
from tests.durability.kills.adapters.with_wire_client import WireAdapter
from tests.durability.kills.plans import dead_letters_to
from tests.durability.kills.scenario import Plan, Traffic, Way
from tests.durability.ledgers.client_ledger import Chain

BODY_BYTES_MAX = 120_000
AT_ONCE = 50
SILENCE_SECONDS_MAX = 60.0
"""Seconds without an answer, or a word on why there is none, after which the broker counts as silent."""
STEP_SECONDS = 0.02
WINDOW = 5
NUDGE_SECONDS = 1.0
"""Seconds without an answer after which a client publishes: only publishers are told that they are blocked."""

BACKLOG = Plan(
    chains=(
        Chain("heap.fading", "heap.faded", by_itself=True),
        Chain("heap.kept", "heap.rejected"),
        Chain("heap.quorum", keeps_all=True, returns_last=True),
    ),
    ways=(
        Way("", "heap.fading", ("heap.fading",), persistent_part=0.9),
        Way("", "heap.kept", ("heap.kept",), persistent_part=0.9),
        Way("", "heap.quorum", ("heap.quorum",)),
    ),
    consumed=(),
    arguments={
        "heap.fading": dead_letters_to("heap.faded", **{"x-message-ttl": int(TTL_SECONDS * 1000)}),
        "heap.kept": dead_letters_to("heap.rejected"),
        "heap.quorum": {"x-queue-type": "quorum"},
    },
    fanouts={},
    body_bytes_max=BODY_BYTES_MAX,
)
GOOD = Plan((Chain("good"),), (Way("", "good", ("good",)),), (), {}, {})


class Backlog(Traffic):
    """Piles up messages, and lets them expire, rejects or gives back all of them with one frame, or purges them."""

    def __init__(self, dice: random.Random, messages_max: int) -> None:
        super().__init__("heap", BACKLOG, dice)
        self._messages_max = messages_max
        self._messages = self.highest = 0

    def step(self, adapter: ClientAdapter) -> None:
        assert isinstance(adapter, WireAdapter)
        for _ in range(self._dice.randint(1, max(1, self._messages_max // AT_ONCE // 3))):
            if self._messages >= self._messages_max:
                self._purge(adapter)
            adapter.publish([self._publication() for _ in range(AT_ONCE)], self.ledger.confirmed)
            self._messages += AT_ONCE
            self.highest = max(self.highest, self._messages)
        queue = self._dice.choice(self.ledger.queues)
        what = self._dice.choice(("leave", "reject", "return", "purge"))
        if what == "purge":
            self._purge(adapter)
        elif what != "leave":
            self._take_and_return(adapter, queue, requeue=what == "return")
        adapter.publish([self._proof()], self.ledger.confirmed)

    def _take_and_return(self, adapter: WireAdapter, queue: str, *, requeue: bool) -> None:
        """Have as many delivered as come, and settle all of them with one frame."""
        adapter.ask(prefetch(0))
        adapter.consume(queue)
        self._settle_with_one(adapter, queue, requeue=requeue)
        adapter.ask(BasicCancel(queue, False))
        self._settle_with_one(adapter, queue, requeue=True)

    def _settle_with_one(self, adapter: WireAdapter, queue: str, *, requeue: bool) -> None:
        last, numbers = 0, list[int]()
        while taken := self._take(adapter):
            last = taken[-1][0].handle
            numbers += [number for _, number in taken]
        for number in numbers:
            (self.ledger.requeued if requeue else self.ledger.rejected)(queue, number, with_many=True)
        if numbers:
            adapter.client.send(nack(last, multiple=True, requeue=requeue))

    def _purge(self, adapter: WireAdapter) -> None:
        for chain in self.ledger.chains.values():
            if chain is not self.ledger.proofs:
                self.ledger.purged(chain.home)
                for queue in filter(None, (chain.home, chain.dead_letters)):
                    adapter.ask(QueuePurge(queue, False))
        self._messages = 0


class GoodClient(Traffic):
    """Publishes a little now and then, and notices when it is neither answered nor told why not."""

    def __init__(self, dice: random.Random, fair_time: FairTime) -> None:
        super().__init__("good", GOOD, dice)
        self._fair_time = fair_time

    def begin(self, adapter: ClientAdapter) -> None:
        self._heard = self._fair_time.now()

    def step(self, adapter: ClientAdapter) -> None:
        assert isinstance(adapter, WireAdapter)
        silence = self._fair_time.now() - self._heard
        assert silence < SILENCE_SECONDS_MAX, f"no answer and no reason for {silence:.0f} s: {adapter.unanswered}"
        if not adapter.blocked and (len(adapter.unanswered) < WINDOW or silence > NUDGE_SECONDS):
            adapter.send(self._publication())
        until, heard = time.monotonic() + STEP_SECONDS, False
        while (left := until - time.monotonic()) > 0:
            heard |= adapter.hear(left, self.ledger.confirmed)
        if heard or adapter.blocked or not adapter.unanswered:
            self._heard = self._fair_time.now()
