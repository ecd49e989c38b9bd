"""The scenarios that publish and consume: which queues, which ways."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.durability.kills.scenario import Plan, Traffic, Way
from tests.durability.ledgers.client_ledger import Chain

PRIORITIES = 3
TTL_MILLISECONDS = 150
DELAY_MILLISECONDS_MAX = 120
LENGTH_MAX = 15


def dead_letters_to(queue: str, **more: object) -> dict[str, object]:
    """Arguments of a queue whose dead letters go there, and further ones."""
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue, **more}


WORK = Plan(
    chains=(Chain("work", "work.dead"), Chain("work.copy"), Chain("work.big")),
    ways=(
        Way("", "work", ("work",), persistent_part=0.85),
        Way("work.both", "", ("work", "work.copy")),
        Way("", "work.big", ("work.big",), persistent_part=0.9),
    ),
    consumed=("work", "work.dead", "work.copy"),
    arguments={"work": dead_letters_to("work.dead")},
    fanouts={"work.both": ("work", "work.copy")},
)
"""Classic queues: rejects into dead letters, a fan-out, a backlog that is paged."""

RANKED = Plan(
    chains=(Chain("ranked", "ranked.dead", priorities=PRIORITIES),),
    ways=(Way("", "ranked", ("ranked",), persistent_part=0.9, priority_max=PRIORITIES + 1),),
    consumed=("ranked", "ranked.dead"),
    arguments={"ranked": dead_letters_to("ranked.dead", **{"x-max-priority": PRIORITIES})},
)

QUORUM = Plan(
    chains=(
        Chain("quorum", "quorum.dead", keeps_all=True, returns_last=True),
        Chain("quorum.often", "quorum.too often", by_itself=True, keeps_all=True),
        Chain("quorum.all", keeps_all=True, returns_last=True),
    ),
    ways=(
        Way("", "quorum", ("quorum",)),
        Way("", "quorum.often", ("quorum.often",)),
        Way("", "quorum.all", ("quorum.all",), persistent_part=0.5),
    ),
    consumed=("quorum", "quorum.dead", "quorum.often", "quorum.all"),
    arguments={
        "quorum": dead_letters_to(
            "quorum.dead",
            **{"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"},
        ),
        "quorum.often": dead_letters_to("quorum.too often", **{"x-queue-type": "quorum", "x-delivery-limit": 2}),
        "quorum.all": {"x-queue-type": "quorum"},
    },
)
"""Dead letters at least once; a limit of deliveries; transient messages, which are kept too."""

LATER = Plan(
    chains=(
        Chain("later.short", "later.dead", by_itself=True),
        Chain("later.waiting", "later.due", by_itself=True, looked_at=False),
        Chain("later.full", "later.dropped", by_itself=True),
    ),
    ways=(
        Way("", "later.short", ("later.short",), persistent_part=0.9),
        Way("", "later.full", ("later.full",), persistent_part=0.9),
        Way(
            "later.delaying", "", ("later.waiting",), persistent_part=0.9, delay_milliseconds_max=DELAY_MILLISECONDS_MAX
        ),
    ),
    consumed=("later.dead", "later.due", "later.dropped"),
    arguments={
        "later.short": dead_letters_to("later.dead", **{"x-message-ttl": TTL_MILLISECONDS}),
        "later.full": dead_letters_to("later.dropped", **{"x-max-length": LENGTH_MAX}),
    },
    fanouts={"later.delaying": ("later.due",)},
    delaying=("later.delaying",),
)
"""Expiry and too many into dead letters, and delays."""

DEALS = Plan(
    chains=(Chain("deals"), Chain("deals.copy"), Chain("deals.kept")),
    ways=(
        Way("", "deals", ("deals",)),
        Way("deals.both", "", ("deals", "deals.copy")),
        Way("", "deals.kept", ("deals.kept",)),
    ),
    consumed=("deals", "deals.copy"),
    fanouts={"deals.both": ("deals", "deals.copy")},
)
"""For transactions: publishes to several queues and acknowledgements, together."""

SCENARIOS: tuple[Callable[[random.Random], Traffic], ...] = (
    lambda dice: Traffic("work", WORK, dice),
    lambda dice: Traffic("ranked", RANKED, dice),
    lambda dice: Traffic("quorum", QUORUM, dice),
    lambda dice: Traffic("later", LATER, dice),
    lambda dice: Traffic("deals", DEALS, dice, transactional=True),
)
