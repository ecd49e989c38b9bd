"""A queue whose policies change at any moment against a list: the walks of `test_limits_model`, and one step more.

The limits that hold are worked out here from the declaration and both policies. Messages that are there keep the time
they were given; too many go at once, unless the queue refuses new ones and did so before. A restart finds the policies
before it finds the queue.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from broker.entities.arguments.name_patterns import compiled
from broker.entities.arguments.policies import Policy
from broker.entities.vhosts.vhost import VHost
from broker.wire.field_tables import to_python
from harness.brokers.definitions_in_memory import RecordedDefinitions
from tests.models.random_walk import take_steps
from tests.models.test_limits_model import DEAD_LETTERS, QUEUE, LimitedQueue, combination, steps_on

LIMITS: dict[str, tuple[Any, ...]] = {
    "message-ttl": (0, 50, 300),
    "max-length": (0, 1, 3, 9),
    "max-length-bytes": (0, 40, 300),
}
OTHERS: dict[str, tuple[Any, ...]] = {
    "overflow": ("drop-head", "reject-publish", "reject-publish-dlx"),
    "dead-letter-exchange": ("",),
}


def definition_of(chance: random.Random, values: dict[str, tuple[Any, ...]]) -> dict[str, Any] | None:
    """Return the definition of a policy, by chance; None: there is no policy."""
    if chance.random() < 0.3:
        return None
    return {key: chance.choice(options) for key, options in values.items() if chance.random() < 0.5}


class PolicedDefinitions(RecordedDefinitions):
    """Definitions with the policies of one queue, ordinary and the operator's, brought back before the queues."""

    def __init__(self) -> None:
        super().__init__()
        self.policies: dict[bool, Policy | None] = {False: None, True: None}

    def restore(self, vhost: VHost, states: Callable[[int], object]) -> None:
        for operator, policy in self.policies.items():
            if policy is not None:
                vhost.policy_application.put(policy, operator=operator)
        super().restore(vhost, states)


class PolicedQueue(LimitedQueue):
    """A queue with policies that come, change and go."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.definitions = PolicedDefinitions()
        super().__init__(arguments, self.definitions)

    def impose(self, definition: dict[str, Any] | None, operator: dict[str, Any] | None) -> None:
        """Set or clear both policies, one after the other."""
        for of_operator, wanted in ((False, definition), (True, operator)):
            before = self.definitions.policies[of_operator]
            if wanted is None:
                policy = None
                self.core.vhost.policy_application.remove("p", operator=of_operator)
            else:
                if "dead-letter-exchange" in wanted:
                    wanted = {**wanted, "dead-letter-routing-key": DEAD_LETTERS}
                policy = Policy("p", compiled(f"^{QUEUE}$"), "all", wanted, 0)
                self.core.vhost.policy_application.put(policy, operator=of_operator)
            self.definitions.policies[of_operator] = policy
            if policy != before:
                self._change_rules()
            self._end_turn()

    def _change_rules(self) -> None:
        rules, now = self.rules, self.core.clock.now()
        overflow = rules.overflow
        said = [{} if policy is None else policy.definition for policy in self.definitions.policies.values()]
        declared = {key.removeprefix("x-"): value for key, value in to_python(self.queue.spec.arguments).items()}
        smallest = {key: min((each[key] for each in (declared, *said) if key in each), default=None) for key in LIMITS}
        rules.ttl, rules.messages, rules.bytes = smallest.values()
        nearest = {**said[0], **declared}
        rules.overflow = nearest.get("overflow", "drop-head")
        rules.dead_letters = "dead-letter-exchange" in nearest
        if "drop-head" in (overflow, rules.overflow) and rules.full():
            rules.hand_out(now)
            while rules.ready and rules.full():
                rules.drop_exhausted(rules.ready.pop(0), "maxlen")


def walk(seed: int) -> None:
    """A run on one queue of any kind, while policies come and go."""
    chance = random.Random(seed)
    queue = PolicedQueue(combination(chance))

    def impose() -> None:
        queue.impose(definition_of(chance, {**LIMITS, **OTHERS}), definition_of(chance, LIMITS))

    try:
        take_steps(chance, [*steps_on(queue, chance), (5, impose)], 200, queue.counts_agree)
        queue.drain()
    finally:
        queue.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_walks(seed: int) -> None:
    walk(seed)
