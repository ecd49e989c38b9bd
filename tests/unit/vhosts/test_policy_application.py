"""Policies: which one holds, what several make of one setting, and that they hold at once and no longer than they last.

The expectations were asked of RabbitMQ 3.10.8 with rabbitmqctl; `tests/conformance/queues/test_policies.py` asks
again.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.entities.arguments.name_patterns import compiled
from broker.entities.arguments.policies import EXCHANGE, InForce, Policy, effective
from broker.entities.arguments.policy_keys import RULES_OF_3_13
from broker.entities.arguments.policy_matching import GIVEN_UP_MAX, LONG_SEARCHES, Policies
from broker.entities.arguments.queue_arguments import EXPIRY_MAX_MILLISECONDS
from broker.entities.queues.queue_background_work import CHUNK_BYTES
from broker.entities.scheduling.background_work import MESSAGE_BYTES, PORTION_BYTES, PORTION_STEPS
from broker.wire.field_tables import from_python
from harness.brokers.broker_core import Core, Reader, message


def policy(name: str = "p", pattern: str = "", apply_to: str = "all", priority: int = 0, **definition: Any) -> Policy:
    """A policy; `max_length=3` is the key max-length."""
    settings = {key.replace("_", "-"): value for key, value in definition.items()}
    return Policy(name, compiled(pattern), apply_to, settings, priority)


def impose(core: Core, made: Policy, *, operator: bool = False) -> None:
    core.vhost.policy_application.put(made, operator=operator)
    core.end_turn()


# Matching


@pytest.mark.parametrize(
    ("apply_to", "kinds"),
    [
        ("all", {EXCHANGE, "classic", "quorum", "stream"}),
        ("queues", {"classic", "quorum", "stream"}),
        ("exchanges", {EXCHANGE}),
        ("classic_queues", {"classic"}),
        ("quorum_queues", {"quorum"}),
        ("streams", {"stream"}),
    ],
)
def test_a_policy_applies_where_kind_keys_and_name_agree(apply_to: str, kinds: set[str]) -> None:
    """Keys that a kind of queue does not know are asserted on the wire; exchanges know them all."""
    applies = Policies("v", RULES_OF_3_13).ordinary.applies
    for kind in (EXCHANGE, "classic", "quorum", "stream"):
        expected = kind in kinds
        assert applies(policy(pattern="b", apply_to=apply_to, max_length_bytes=1), kind, "abc") == expected
        assert not applies(policy(pattern="z", apply_to=apply_to, max_length_bytes=1), kind, "abc")
        for_streams = policy(apply_to=apply_to, max_age="1m")
        assert applies(for_streams, kind, "q") == (expected and kind in (EXCHANGE, "stream"))


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["", "x"]), st.integers(-2, 2))))
def test_what_holds_is_the_strongest_of_what_applies(made: list[tuple[str, str, int]]) -> None:
    """The first by name holds of those with equal priority."""
    policies = Policies("v", RULES_OF_3_13)
    for name, pattern, priority in made:
        policies.ordinary.put(policy(name, pattern, "all", priority))
    applying = [each for each in policies.of(operator=False).values() if each.pattern.pattern == ""]
    strongest = min(applying, key=lambda each: (-each.priority, each.name), default=None)
    assert policies.match("classic", "q") == InForce(strongest, None)


SLOW = "(a|aa)+$"
"""Given up on a name of 250 times `a` and something else."""
LONG = "a" * 250


PATIENT = "(a|aa){8}x|y$"
PATIENTLY = "a" * 12 + "y"
"""A name and a pattern that is found in it, but not in a short search."""


def test_few_policies_of_a_name_get_a_long_search_the_strongest_first() -> None:
    """A policy with an ordinary pattern is found beside them."""
    policies, found = Policies("v", RULES_OF_3_13), policy("found", "^a{30}", priority=-1)
    for number in range(3 * LONG_SEARCHES):
        policies.ordinary.put(policy(f"slow {number}", SLOW, priority=number))
    policies.ordinary.put(found)
    assert policies.match("classic", f"{LONG}!") == InForce(found, None)
    for stronger, holds in ((LONG_SEARCHES - 1, True), (LONG_SEARCHES, False)):
        patient = policy("patient", PATIENT, priority=3 * LONG_SEARCHES - 1 - stronger)
        policies.ordinary.put(patient)
        assert (policies.match("classic", PATIENTLY).policy is patient) is holds


def test_a_policy_that_has_come_to_nothing_often_gets_no_long_search(caplog: pytest.LogCaptureFixture) -> None:
    """It is given up until it is set again. A match of few steps is found for ever. The log says so once."""
    policies, worn = Policies("v", RULES_OF_3_13), policy("worn", f"b{SLOW}|{PATIENT}")
    policies.ordinary.put(worn)
    assert policies.match("classic", PATIENTLY).policy is worn
    for number in range(GIVEN_UP_MAX):
        assert policies.match("classic", f"b{LONG}{number}!").policy is None
    assert policies.match("classic", PATIENTLY).policy is None
    assert policies.match("classic", f"b{LONG}").policy is worn
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "policy 'worn' of vhost 'v' is not applied to a name: regular expression 'b(a|aa)+$|" in said[0]
    assert "match limit exceeded; the limit is 10000 steps" in said[0]
    policies.ordinary.put(worn)
    assert policies.match("classic", PATIENTLY).policy is worn


# Merging


@pytest.mark.parametrize(
    ("type_", "expires", "overflow"), [("classic", 5, "drop-head"), ("quorum", 9, "reject-publish")]
)
def test_some_words_of_policies_come_before_arguments_of_quorum_queues(type_: str, expires: int, overflow: str) -> None:
    """RabbitMQ 3.10.8 on the wire: a quorum queue declared drop-head refuses, one that was to expire stays."""
    arguments = from_python({"x-queue-type": type_, "x-expires": 5, "x-overflow": "drop-head", "x-max-length": 3})
    holds = effective(arguments, InForce(policy(expires=9, overflow="reject-publish", max_length=7)))
    assert (holds.expires, holds.overflow, holds.max_length) == (expires, overflow, 3)


def test_times_of_a_policy() -> None:
    """The smaller of two time-outs for acknowledgements counts (RabbitMQ since 3.11.15, documentation on them).

    RabbitMQ takes any time from a policy; its arguments end at ten years.
    """
    for declared, counts in ((50, 50), (100, 70)):
        arguments = from_python({"x-consumer-timeout": declared})
        assert effective(arguments, InForce(policy(consumer_timeout=70))).consumer_timeout == counts
    holds = effective({}, InForce(policy(message_ttl=10**30, expires=10**30, max_length=10**30)))
    assert holds.message_ttl == holds.expires == EXPIRY_MAX_MILLISECONDS
    assert holds.max_length == 10**30


# Taking effect


TURN_MESSAGES = (PORTION_BYTES + CHUNK_BYTES) // MESSAGE_BYTES
"""Most small messages in the first turn; less go in each later one."""


def test_many_messages_too_many_go_in_turns(core: Core) -> None:
    queue = core.queue()
    count = 3 * TURN_MESSAGES
    for number in range(count):
        queue.publish(message(b"%d" % number))
    core.commit()
    core.vhost.policy_application.put(policy(max_length=3), operator=False)
    left = [count, len(queue.ready_messages)]
    while left[-1] < left[-2]:
        core.commit()
        core.advance(1)
        left.append(len(queue.ready_messages))
    assert left[-1] == 3
    assert max(before - after for before, after in pairwise(left)) <= TURN_MESSAGES
    core.crash()
    reader = Reader()
    last = [reader.get(core.queue_named("q")) for _ in range(4)]
    assert last == [b"%d" % number for number in (count - 3, count - 2, count - 1)] + [None]


def test_many_queues_get_a_policy_in_portions(core: Core) -> None:
    """Changes that come meanwhile are not lost, nor are queues that come; what is gone stays gone."""
    queues = [core.queue(f"q{number}", durable=False) for number in range(3 * PORTION_STEPS)]
    application = core.vhost.policy_application
    first = application.put(policy(max_length=1), operator=False)
    have = [sum(queue.arguments.max_length == 1 for queue in queues)]
    second = [
        application.put(policy("operator's", "5$", max_length=0), operator=True),
        application.put(policy(max_length=2), operator=False),
    ]
    new, gone = core.queue("new", durable=False), queues.pop()
    core.vhost.delete_queue(gone)
    assert (new.arguments.max_length, gone.arguments.max_length) == (2, None)
    while not all(future.done for future in (first, *second)):
        assert not second[0].done
        core.advance(1)
        have.append(sum(queue.arguments.max_length is not None for queue in queues))
    assert first.done
    assert max(after - before for before, after in pairwise([0, *have])) <= PORTION_STEPS
    for queue in (*queues, new):
        assert queue.arguments.max_length == (0 if queue.name.endswith("5") else 2)
    removed = application.remove("p", operator=False)
    while not removed.done:
        core.advance(1)
    assert {queue.arguments.max_length for queue in queues} == {0, None}
    assert gone.policies == InForce()


@pytest.mark.parametrize(
    ("again", "left"),
    [
        ([policy(priority=3, expires=100)], 100),
        ([policy(expires=100, message_ttl=9)], 100),
        ([policy(expires=100), policy("weaker", priority=-1, expires=100), policy("z", "^z", priority=9)], 40),
        ([], 140),
    ],
    ids=["another priority", "another key", "nothing", "none any more"],
)
def test_an_expiry_begins_again_with_every_change_of_its_queue(core: Core, again: list[Policy], left: int) -> None:
    """It is so in RabbitMQ, even with a change of nothing but the policy's priority.

    It ends with its policy, and a declared one outlasts it.
    """
    core.queue(expires=200)
    impose(core, policy(expires=100))
    core.advance(60)
    for each in again:
        impose(core, each)
    if not again:
        core.queue("for ever")
        core.vhost.policy_application.remove("p", operator=False)
        left = 200
    core.advance(left - 1)
    assert "q" in core.vhost.queues
    core.advance(1)
    assert core.vhost.queues.keys() == ({"for ever"} if not again else set())
