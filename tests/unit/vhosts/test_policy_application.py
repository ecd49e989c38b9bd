"""Policies: which one holds, what several make of one setting, and that they hold at once and no longer than they last.

What is expected was asked of RabbitMQ 3.10.8 with rabbitmqctl; `tests/conformance/queues/test_policies.py` asks again.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.entities.arguments.policies import (
    APPLY_TO,
    EXCHANGE,
    SMALLER_WINS,
    InForce,
    Policies,
    Policy,
    alternate,
    effective,
)
from broker.entities.arguments.queue_arguments import EXPIRY_MAX_MILLISECONDS, QueueArguments, parse
from broker.entities.arguments.queue_types import QUORUM, TYPES
from broker.entities.exchanges.exchange import Exchange
from broker.entities.queues.queue_limits import ROOM_MESSAGES
from broker.wire.field_tables import from_python
from harness.brokers.broker_core import Core, Reader, message


def policy(name: str = "p", pattern: str = "", apply_to: str = "all", priority: int = 0, **definition: Any) -> Policy:
    """A policy; `max_length=3` is the key max-length."""
    return Policy(
        name, re.compile(pattern), apply_to, {k.replace("_", "-"): v for k, v in definition.items()}, priority
    )


def impose(core: Core, made: Policy, *, operator: bool = False) -> None:
    core.vhost.policy_application.put(made, operator=operator)
    core.end_turn()


# Matching

NAMES = st.text("ab", max_size=3)
POLICIES = st.builds(
    Policy,
    NAMES,
    NAMES.map(re.compile),
    st.sampled_from(list(APPLY_TO)),
    st.dictionaries(
        st.sampled_from(["max-length", "max-age", "queue-mode", "delivery-limit", "expires"]), st.integers(0, 9)
    ),
    st.integers(-2, 2),
)
KINDS = st.sampled_from([EXCHANGE, "classic", "quorum", "stream"])


@given(st.lists(POLICIES), KINDS, NAMES)
def test_what_holds_is_the_strongest_of_what_applies(made: list[Policy], kind: str, name: str) -> None:
    policies = Policies()
    policies.ordinary = {each.name: each for each in made}
    applying = [each for each in policies.ordinary.values() if each.applies(kind, name)]
    found = policies.match(kind, name)
    assert found.operator is None
    if found.policy is None:
        assert applying == []
    else:
        assert found.policy in applying
        assert all(found.policy.priority >= each.priority for each in applying)
        alike = [each.name for each in applying if each.priority == found.policy.priority]
        assert found.policy.name == min(alike)


@given(POLICIES, KINDS, NAMES)
def test_a_policy_applies_where_kind_keys_and_name_agree(made: Policy, kind: str, name: str) -> None:
    strangers = {
        EXCHANGE: set(),
        "classic": {"max-age", "delivery-limit"},
        "quorum": {"max-age", "queue-mode"},
        "stream": {"max-length", "queue-mode", "delivery-limit", "expires"},
    }
    kinds = {"all": {EXCHANGE, "classic", "quorum", "stream"}, "queues": {"classic", "quorum", "stream"},
             "exchanges": {EXCHANGE}, "classic_queues": {"classic"}, "quorum_queues": {"quorum"},
             "streams": {"stream"}}  # fmt: skip
    agrees = kind in kinds[made.apply_to] and made.pattern.pattern in name
    assert made.applies(kind, name) == (agrees and not strangers[kind] & made.definition.keys())


# Merging

LIMITS = st.dictionaries(
    st.sampled_from(["message-ttl", "expires", "max-length", "max-length-bytes"]), st.integers(1, 9)
)
PLAIN = st.fixed_dictionaries(
    {},
    optional={
        "dead-letter-exchange": st.sampled_from(["x", "y"]),
        "dead-letter-routing-key": st.sampled_from(["k", "l"]),
        "overflow": st.sampled_from(["drop-head", "reject-publish"]),
    },
)


@given(LIMITS, LIMITS, LIMITS, PLAIN, PLAIN)
def test_each_setting_is_the_smallest_or_the_nearest(
    declared: dict[str, Any],
    ordinary: dict[str, Any],
    operator: dict[str, Any],
    declared_words: dict[str, Any],
    words: dict[str, Any],
) -> None:
    arguments = from_python({f"x-{key}": value for key, value in {**declared, **declared_words}.items()})
    in_force = InForce(policy(**{**ordinary, **words}), policy(**operator))
    holds = effective(arguments, in_force)
    for key in ("message-ttl", "expires", "max-length", "max-length-bytes"):
        said = [each[key] for each in (declared, ordinary, operator) if key in each]
        assert getattr(holds, key.replace("-", "_")) == min(said, default=None)
    for key in ("dead-letter-exchange", "dead-letter-routing-key", "overflow"):
        nearest = declared_words.get(key, words.get(key, getattr(QueueArguments(), key.replace("-", "_"))))
        assert getattr(holds, key.replace("-", "_")) == nearest


@given(LIMITS, PLAIN)
def test_without_policies_the_arguments_hold(declared: dict[str, Any], words: dict[str, Any]) -> None:
    arguments = from_python({f"x-{key}": value for key, value in {**declared, **words}.items()})
    assert effective(arguments, InForce()) == parse(arguments)


@given(LIMITS, LIMITS)
def test_together_they_say_what_either_says(ordinary: dict[str, Any], operator: dict[str, Any]) -> None:
    merged = InForce(policy(**ordinary), policy(**operator)).definition
    assert merged.keys() == ordinary.keys() | operator.keys()
    assert all(merged[key] == min(each[key] for each in (ordinary, operator) if key in each) for key in merged)
    assert merged.keys() <= SMALLER_WINS


OTHERWISE = [("classic", 5, "drop-head"), ("quorum", 9, "reject-publish")]


@pytest.mark.parametrize(("type_", "expires", "overflow"), OTHERWISE)
def test_some_words_of_policies_come_before_arguments_of_quorum_queues(
    type_: str, expires: int, overflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RabbitMQ 3.10.8 on the wire: a quorum queue declared drop-head refuses, one that was to expire stays."""
    monkeypatch.setitem(TYPES, "quorum", QUORUM)
    arguments = from_python({"x-queue-type": type_, "x-expires": 5, "x-overflow": "drop-head", "x-max-length": 3})
    holds = effective(arguments, InForce(policy(expires=9, overflow="reject-publish", max_length=7)))
    assert (holds.expires, holds.overflow, holds.max_length) == (expires, overflow, 3)


def test_of_two_timeouts_for_acknowledgements_the_smaller_counts() -> None:
    """RabbitMQ since 3.11.15, documentation on delivery acknowledgement timeouts."""
    for declared, counts in ((50, 50), (100, 70)):
        arguments = from_python({"x-consumer-timeout": declared})
        assert effective(arguments, InForce(policy(consumer_timeout=70))).consumer_timeout == counts
    assert effective({}, InForce(policy(consumer_timeout=70))).consumer_timeout == 70


def test_a_time_beyond_all_bounds_is_ten_years() -> None:
    """RabbitMQ takes any time from a policy; its arguments end at ten years."""
    holds = effective({}, InForce(policy(message_ttl=10**30, expires=10**30, max_length=10**30)))
    assert (holds.message_ttl, holds.expires, holds.max_length) == (
        EXPIRY_MAX_MILLISECONDS,
        EXPIRY_MAX_MILLISECONDS,
        10**30,
    )


def test_an_alternate_exchange_that_was_declared_is_not_replaced() -> None:
    in_force = InForce(policy(alternate_exchange="theirs"))
    assert alternate({}, in_force) == "theirs"
    assert alternate(from_python({"alternate-exchange": "own"}), in_force) == "own"
    assert alternate({}, InForce()) is None


# Taking effect


def test_a_policy_finds_what_is_there_and_what_comes(core: Core) -> None:
    before, other = core.queue("q-before"), core.queue("other")
    impose(core, policy(pattern="^q", max_length=1))
    after = core.queue("q-after")
    for queue in (before, other, after):
        core.deposit(queue, b"1", b"2")
    assert [len(queue.ready_messages) for queue in (before, other, after)] == [1, 2, 1]


def test_a_changed_pattern_lets_go_and_takes_hold(core: Core) -> None:
    one, two = core.queue("one"), core.queue("two")
    impose(core, policy(pattern="one", max_length=1))
    impose(core, policy(pattern="two", max_length=1))
    assert (one.policies.policy, one.arguments.max_length) == (None, None)
    assert two.arguments.max_length == 1
    core.vhost.policy_application.remove("p", operator=False)
    assert two.arguments == QueueArguments()
    core.vhost.policy_application.remove("p", operator=False)


def test_many_messages_too_many_go_in_turns(core: Core) -> None:
    queue = core.queue()
    count = 2 * ROOM_MESSAGES + 10
    for number in range(count):
        queue.publish(message(b"%d" % number))
    core.commit()
    core.vhost.policy_application.put(policy(max_length=3), operator=False)
    assert len(queue.ready_messages) == count - ROOM_MESSAGES
    core.commit()
    core.advance(1)
    core.commit()
    core.advance(1)
    core.commit()
    assert len(queue.ready_messages) == 3
    core.crash()
    reader = Reader()
    last = [reader.get(core.queue_named("q")) for _ in range(4)]
    assert last == [b"%d" % number for number in (count - 3, count - 2, count - 1)] + [None]


def test_making_room_that_a_crash_cut_short_goes_on(core: Core) -> None:
    queue = core.queue()
    for number in range(ROOM_MESSAGES + 5):
        queue.publish(message(b"%d" % number))
    core.commit()
    core.crash()
    core.vhost.policy_application.put(policy(max_length=2), operator=False)
    core.crash()
    assert len(core.queue_named("q").ready_messages) == ROOM_MESSAGES + 5
    core.vhost.policy_application.policies.ordinary["p"] = policy(
        max_length=2
    )  # as a start finds it, before the queues
    core.vhost.policy_application.queue_appears(core.queue_named("q"))
    for _ in range(3):
        core.advance(2500)
    assert len(core.queue_named("q").ready_messages) == 2


@pytest.mark.parametrize("again", [{"priority": 3}, {"message_ttl": 9}])
def test_a_lease_begins_anew_with_every_change(core: Core, again: dict[str, Any]) -> None:
    """As in RabbitMQ: even one that changes nothing but the policy's priority."""
    core.queue()
    impose(core, policy(expires=100))
    core.advance(60)
    impose(core, policy(**{"expires": 100, **again}))
    core.advance(60)
    assert "q" in core.vhost.queues
    core.advance(40)
    assert "q" not in core.vhost.queues


def test_an_expiry_goes_on_when_nothing_of_its_queue_changes(core: Core) -> None:
    core.queue()
    impose(core, policy(expires=100))
    core.advance(60)
    impose(core, policy(expires=100))
    impose(core, policy("weaker", priority=-1, expires=100))
    impose(core, policy("elsewhere", "^z", priority=9, expires=100))
    core.advance(40)
    assert "q" not in core.vhost.queues


def test_a_lease_ends_with_its_policy(core: Core) -> None:
    core.queue()
    impose(core, policy(expires=100))
    core.vhost.policy_application.remove("p", operator=False)
    core.advance(1000)
    assert "q" in core.vhost.queues


def test_a_declared_lease_outlasts_a_policy(core: Core) -> None:
    core.queue(expires=200)
    impose(core, policy(expires=100))
    core.advance(50)
    core.vhost.policy_application.remove("p", operator=False)
    core.advance(199)
    assert "q" in core.vhost.queues
    core.advance(1)
    assert "q" not in core.vhost.queues


def test_a_time_to_live_is_for_messages_to_come(core: Core) -> None:
    queue = core.queue()
    core.deposit(queue, b"lasting")
    impose(core, policy(message_ttl=100))
    core.advance(1000)
    assert len(queue.ready_messages) == 1
    assert Reader().get(queue, no_ack=True) == b"lasting"
    core.deposit(queue, b"brief")
    core.vhost.policy_application.remove("p", operator=False)
    core.deposit(queue, b"lasting")
    core.advance(100)
    assert Reader().get(queue, no_ack=True) == b"lasting"


def held_by(core: Core, exchange: Exchange) -> tuple[int, int]:
    """What a remembered route of an exchange holds as long as this stays the same."""
    return exchange.version, core.broker.cache_epoch.number


def test_a_remembered_route_does_not_outlast_a_policy(core: Core) -> None:
    """Through another exchange too: its routes were found by way of this one."""
    first, second, spare = core.exchange("first"), core.exchange("second"), core.exchange("spare", "fanout")
    core.bind(first, second, "k")
    core.bind(spare, core.queue())
    before = held_by(core, first)
    assert core.routed("first", "k") == []
    impose(core, policy(pattern="^second$", alternate_exchange="spare"))
    assert core.routed("first", "k") == ["q"]
    between = held_by(core, first)
    assert between != before
    core.vhost.policy_application.remove("p", operator=False)
    assert core.routed("first", "k") == []
    assert held_by(core, first) != between


def test_an_alternate_that_is_declared_later_is_found(core: Core) -> None:
    first = core.exchange("first")
    impose(core, policy(pattern="^first$", alternate_exchange="spare"))
    before = held_by(core, first)
    core.bind(core.exchange("spare", "fanout"), core.queue())
    assert core.routed("first", "k") == ["q"]
    assert held_by(core, first) != before


def test_predeclared_exchanges_have_policies_and_the_default_one_no_alternate(core: Core) -> None:
    core.bind(core.exchange("spare", "fanout"), core.queue())
    impose(core, policy(alternate_exchange="spare"))
    assert core.routed("amq.topic", "k") == ["q"]
    assert core.routed("", "nowhere") == []
    assert core.vhost.exchange("").policies.policy is not None
