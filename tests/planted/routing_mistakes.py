"""Mistakes in where messages go, which consumer is next, and which policy holds."""

from __future__ import annotations

from typing import Any

from broker.entities.arguments import policy_matching
from broker.entities.exchanges.exchange_types import Headers
from broker.entities.exchanges.topic_trie import TopicTrie
from broker.entities.queues.consumer_prefetch import Consumer
from broker.entities.queues.consumers import Consumers
from broker.entities.queues.queue import Queue
from broker.entities.vhosts.policy_application import PolicyApplication
from tests.planted.mistake import Patch, Simulation, mistake


@mistake("topic exchanges", Simulation(1))
def hash_needs_a_word(patch: Patch) -> None:
    """Have `#` stand for one word at least."""
    reach = TopicTrie._reach

    def reach_with_a_word(node: TopicTrie[Any], reached: dict[TopicTrie[Any], None]) -> None:
        rest = node._children.pop("#", None)
        reach(node, reached)
        if rest is not None:
            node._children["#"] = rest

    patch(TopicTrie, "_reach", reach_with_a_word)


@mistake("headers exchanges", Simulation(11))
def any_header_means_all(patch: Patch) -> None:
    """Have a binding that wants any of its headers want all of them."""
    bind = Headers.bind

    def bind_to_all(router: Headers, binding: Any, arguments: Any) -> None:
        bind(router, binding, arguments)
        router._criteria[binding] = True, router._criteria[binding][1]

    patch(Headers, "bind", bind_to_all)


@mistake("x-priority", Simulation(3))
def consumer_priority_ignored(patch: Patch) -> None:
    """Serve all consumers in turn."""
    enlist = Consumers.enlist

    def enlist_as_any(consumers: Consumers, consumer: Consumer) -> None:
        consumer.priority = 0
        enlist(consumers, consumer)

    patch(Consumers, "enlist", enlist_as_any)


@mistake("policies", Simulation(1))
def policy_for_new_queues_alone(patch: Patch) -> None:
    """Have a policy that changes leave the queues that are there as they are."""

    def match_queue(application: PolicyApplication, queue: Queue) -> None:
        """Do nothing."""

    patch(PolicyApplication, "_match_queue", match_queue)


@mistake("policies", Simulation(8))
def weakest_policy_wins(patch: Patch) -> None:
    """Have the policy of the lowest priority in force."""

    patch(policy_matching, "_weakness", lambda policy: policy.priority)


@mistake("policies", Simulation(1))
def operator_policy_ignored(patch: Patch) -> None:
    """Go by what users say alone."""
    match = policy_matching.Policies.match

    def match_users(known: policy_matching.Policies, kind: str, name: str) -> Any:
        return match(known, kind, name)._replace(operator=None)

    patch(policy_matching.Policies, "match", match_users)
