"""One run with one personality: how it ended, and what its broker noted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from leveret.testing.control_client import Control
from leveret.testing.testing_errors import LeveretError

Json = dict[str, Any]
Place = tuple[str, str, str]
"""A virtual host, a queue or exchange, and what became of messages there."""

EVENTS_MAX = 100_000
DELIVERIES_MAX = 20
"""Deliveries of one message above which they are said to have no end."""
ENDLESS = f"delivered more than {DELIVERIES_MAX} times"
ENDS = ("dropped", "dead-lettered", "expired", "returned", "nacked")
"""Events of messages that did not simply arrive."""


@dataclass
class Run:
    """A run. `exit_code` is None if it did not end in time; `problem` says why its broker could not be asked."""

    personality: str
    exit_code: int | None = 0
    seconds: float = 0.0
    findings: list[Json] = field(default_factory=list)
    closures: list[Json] = field(default_factory=list)
    messages: Counter[Place] = field(default_factory=Counter)
    tests: dict[str, str] = field(default_factory=dict)
    """The outcome of each test, where the command was a pytest with Leveret's plugin."""
    missed: int = 0
    problem: str = ""

    def ask(self, control: Control, *, messages: bool = True, findings: bool = True) -> None:
        """Add what became of `messages` since the broker's reset, and its `findings` and closures so far."""
        try:
            self.messages += messages_of(control) if messages else Counter()
            noted = control.findings() if findings else {}
        except LeveretError as error:
            self.problem = str(error)
            return
        self.findings += noted.get("findings", ())
        self.closures += noted.get("closures", ())
        self.missed += noted.get("missed", 0)


def variables(personality: str, watch: str = "") -> dict[str, str]:
    """Return the environment of a broker with a personality, that watches for a series."""
    return {"LEVERET_PERSONALITY": personality, "LEVERET_REHEARSAL_WATCH": watch}


def messages_of(control: Control) -> Counter[Place]:
    """Return how many messages met which end, by queue; messages without a queue by exchange."""
    found: Counter[Place] = Counter()
    for word in ENDS:
        for event in control.history(word, limit=EVENTS_MAX):
            reason = f" ({event['reason']})" if event.get("reason") else ""
            found[event.get("vhost") or "", event.get("queue") or event.get("exchange") or "", word + reason] += 1
    deliveries = Counter(
        (event["vhost"], event["queue"], event["message"]) for event in control.history("delivered", limit=EVENTS_MAX)
    )
    for (vhost, queue, _), count in deliveries.items():
        if count > DELIVERIES_MAX:
            found[vhost, queue, ENDLESS] += 1
    return found
