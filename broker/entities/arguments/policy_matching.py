"""Matching of policies with names, in a bounded number of steps.

A user who may set policies can set thousands whose patterns keep PCRE2 busy until its limit, and every declaration and
start has to match them. So each pattern first gets a short search, which decides every ordinary one. For each name at
most LONG_SEARCHES patterns get a long search after that, policies of higher priority first, and a policy whose long
searches failed GIVEN_UP_MAX times gets none any more.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping

from broker.entities.arguments.name_patterns import STEPS_MAX, PatternError
from broker.entities.arguments.policies import NONE_IN_FORCE, InForce, Policy
from broker.entities.arguments.policy_keys import PolicyRules

log = logging.getLogger("leveret.policies")

SHORT_STEPS = 1_500
"""Most steps of the short search; ordinary patterns take fewer. Some 15 microseconds."""
LONG_SEARCHES = 8
"""Most long searches for one name, counted separately for policies and operator policies."""
GIVEN_UP_MAX = 100
"""Failed long searches of a policy, after which it gets none any more."""


class PolicyKind:
    """The ordinary policies of a virtual host, or its operator policies, by name."""

    def __init__(self, vhost: str, word: str, rules: PolicyRules) -> None:
        """`word`: the name of such a policy in log messages."""
        self._vhost = vhost
        self._rules = rules
        self._word = word
        self.by_name: dict[str, Policy] = {}
        self._strongest_first: list[Policy] | None = []
        self._given_up: Counter[str] = Counter()

    def put(self, policy: Policy) -> None:
        """Set a policy, replacing the one of its name."""
        self.by_name[policy.name] = policy
        self._changed(policy.name)

    def remove(self, name: str) -> Policy | None:
        """Remove a policy and return it; None if there is none of this name."""
        policy = self.by_name.pop(name, None)
        self._changed(name)
        return policy

    def match(self, kind: str, name: str) -> Policy | None:
        """Return the policy of the highest priority that applies to an entity, or None."""
        long_searches = LONG_SEARCHES
        for policy in self._by_strength():
            if policy.is_for(kind, self._rules):
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
        """Return whether a policy applies to an entity, leaving out priorities."""
        if not policy.is_for(kind, self._rules):
            return False
        try:
            return policy.pattern.search(name, SHORT_STEPS)
        except PatternError:
            return self._searched_long(policy, name)

    def _searched_long(self, policy: Policy, name: str) -> bool:
        """Search with the full limit. A pattern that exceeds it does not match, as in RabbitMQ."""
        given_up = self._given_up[policy.name]
        if given_up >= GIVEN_UP_MAX:
            return False
        try:
            return policy.pattern.search(name)
        except PatternError as error:
            self._given_up[policy.name] += 1
            if not given_up:
                log.error(
                    "%s '%s' of vhost '%s' is not applied to a name: %s; the limit is %d steps. Such names do not have "
                    "this policy. Begin its pattern with ^ and avoid nested repetitions. This is logged once",
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

    def __init__(self, vhost: str, rules: PolicyRules) -> None:
        self.ordinary = PolicyKind(vhost, "policy", rules)
        self.operator = PolicyKind(vhost, "operator policy", rules)

    def kind(self, *, operator: bool) -> PolicyKind:
        """Return the ordinary policies, or the operator policies."""
        return self.operator if operator else self.ordinary

    def of(self, *, operator: bool) -> Mapping[str, Policy]:
        """Return the policies of one kind by name."""
        return self.kind(operator=operator).by_name

    def match(self, kind: str, name: str) -> InForce:
        """Return the policies in force for an entity."""
        if not self.ordinary.by_name and not self.operator.by_name:
            return NONE_IN_FORCE
        return InForce(self.ordinary.match(kind, name), self.operator.match(kind, name))


def _weakness(policy: Policy) -> tuple[int, str]:
    return -policy.priority, policy.name
