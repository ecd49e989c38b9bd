"""Policies of a world, and what holds for a queue by the words of docs/protocol.md: the smaller number, the argument.

Of the policies that match a queue the one of the highest priority is in force, and of the operator's the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from random import Random
from typing import Any, NamedTuple

from tests.simulation.world.topology_of_seed import DEAD_LETTERS, Recipe


class Policy(NamedTuple):
    """A policy; all are for classic queues."""

    name: str
    pattern: str
    definition: dict[str, Any]
    priority: int = 0
    operator: bool = False


def build_policies(chance: Random) -> dict[str, Policy]:
    """The policies that somebody may set in this world."""
    to_dead_letters = {"dead-letter-exchange": "", "dead-letter-routing-key": DEAD_LETTERS}
    policies = [
        Policy("lives", "^(plain|second|narrow)$", {"message-ttl": chance.choice((700, 60_000))}),
        Policy("few", "plain|rejects|urgent", {"max-length": chance.choice((4, 15))}, 1),
        Policy("strict", "^(p|c|u)", {"max-length": 3, "message-ttl": 20_000}, 5),
        Policy("expiry", "^(second|brief|unused)$", {"expires": chance.choice((30_000, 600_000))}, 2),
        Policy("dying", "^(plain|fading|transient)$", to_dead_letters, 3),
        Policy("cap", "^(plain|second|short|alone)$", {"max-length": 8, "message-ttl": 300_000}, 0, operator=True),
        Policy("lower cap", "^(plain|short)$", {"max-length": 2}, 9, operator=True),
    ]
    return {policy.name: policy for policy in policies}


def in_force(policies: Iterable[Policy], declared: Recipe) -> tuple[Policy | None, Policy | None]:
    """The policy and the operator's policy that a queue goes by."""
    if declared.kind != "classic":
        return None, None
    matching = [policy for policy in policies if re.search(policy.pattern, declared.name)]
    ordinary = [policy for policy in matching if not policy.operator]
    operator = [policy for policy in matching if policy.operator]
    return _strongest(ordinary), _strongest(operator)


def _strongest(policies: list[Policy]) -> Policy | None:
    return max(policies, key=lambda policy: policy.priority, default=None)


def holds(declared: Recipe, forces: Iterable[Policy | None]) -> Recipe:
    """Return the rules to which a queue is held."""
    said = [policy.definition for policy in forces if policy is not None]

    def smallest(key: str, argument: int) -> int:
        return min([value for value in (argument, *(each.get(key, 0) for each in said)) if value], default=0)

    dead_letter_queues = [each["dead-letter-routing-key"] for each in said if "dead-letter-routing-key" in each]
    return declared._replace(
        ttl=smallest("message-ttl", declared.ttl),
        limit=smallest("max-length", declared.limit),
        expires=smallest("expires", declared.expires),
        dead_letters_to=declared.dead_letters_to or next(iter(dead_letter_queues), ""),
    )
