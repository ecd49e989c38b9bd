"""Which policies hold for a name, found in bounded steps whatever their patterns are.

A user who may set policies may set thousands, with patterns that PCRE2 is busy with until its limit; every declaration
and every start is held up by them. So a search is short at first, which decides every ordinary pattern. Few patterns of
a name get a long search then, the strongest policies first, and none of a policy that has come to nothing by it often.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping

from broker.entities.arguments.name_patterns import STEPS_MAX, PatternError
from broker.entities.arguments.policies import NONE_IN_FORCE, InForce, Policy

log = logging.getLogger("leveret.policies")

SHORT_STEPS = 1_500
"""Of the first search with each pattern: what ordinary ones take at most. Some 15 microseconds."""
LONG_SEARCHES = 8
"""For one name at most: those of ordinary policies and of operator policies are counted apart."""
GIVEN_UP_MAX = 100
"""Names on which a policy is given up until it gets no long search any more."""


class PolicyKind:
    """The ordinary policies of a virtual host, or its operator policies, by name."""

    def __init__(self, vhost: str, word: str) -> None:
        """`word` is what messages call such a policy."""
        self._vhost = vhost
        self._word = word
        self.by_name: dict[str, Policy] = {}
        self._strongest_first: list[Policy] | None = []
        self._given_up: Counter[str] = Counter()

    def put(self, policy: Policy) -> None:
        """Have a policy, in the place of the one of its name."""
        self.by_name[policy.name] = policy
        self._changed(policy.name)

    def remove(self, name: str) -> Policy | None:
        """Have a policy no longer; the one that was there."""
        policy = self.by_name.pop(name, None)
        self._changed(name)
        return policy

    def match(self, kind: str, name: str) -> Policy | None:
        """The policy in force for an entity: of those that apply the one of the highest priority."""
        long_searches = LONG_SEARCHES
        for policy in self._by_strength():
            if policy.is_for(kind):
                try:
                    if policy.pattern.search(name, SHORT_STEPS):
                        return policy
                except PatternError:
                    if not long_searches:
                        continue
                    long_searches -= 1
                    if self._searched_long(policy, name):
                        return policy
        return None

    def applies(self, policy: Policy, kind: str, name: str) -> bool:
        """Whether a policy, if it were the only one, would be in force for an entity."""
        if not policy.is_for(kind):
            return False
        try:
            return policy.pattern.search(name, SHORT_STEPS)
        except PatternError:
            return self._searched_long(policy, name)

    def _searched_long(self, policy: Policy, name: str) -> bool:
        """A policy whose pattern is given up does not apply, as in RabbitMQ."""
        given_up = self._given_up[policy.name]
        if given_up >= GIVEN_UP_MAX:
            return False
        try:
            return policy.pattern.search(name)
        except PatternError as error:
            self._given_up[policy.name] += 1
            if not given_up:
                log.error(
                    "%s '%s' of vhost '%s' is not applied to a name: %s; the limit is %d steps. Such names are without "
                    "this policy. Begin its pattern with ^ and repeat nothing that repeats. This is logged once",
                    self._word,
                    policy.name,
                    self._vhost,
                    error,
                    STEPS_MAX,
                    extra={"vhost": self._vhost},
                )
            return False

    def _by_strength(self) -> list[Policy]:
        if self._strongest_first is None:
            self._strongest_first = sorted(self.by_name.values(), key=_weakness)
        return self._strongest_first

    def _changed(self, name: str) -> None:
        self._strongest_first = None
        self._given_up.pop(name, None)


class Policies:
    """The policies of one virtual host; operator policies have names of their own."""

    def __init__(self, vhost: str) -> None:
        self.ordinary = PolicyKind(vhost, "policy")
        self.operator = PolicyKind(vhost, "operator policy")

    def kind(self, *, operator: bool) -> PolicyKind:
        """One of the two kinds."""
        return self.operator if operator else self.ordinary

    def of(self, *, operator: bool) -> Mapping[str, Policy]:
        """The policies of one kind, by name."""
        return self.kind(operator=operator).by_name

    def match(self, kind: str, name: str) -> InForce:
        """The policies in force for an entity."""
        if not self.ordinary.by_name and not self.operator.by_name:
            return NONE_IN_FORCE
        return InForce(self.ordinary.match(kind, name), self.operator.match(kind, name))


def _weakness(policy: Policy) -> tuple[int, str]:
    return -policy.priority, policy.name
