"""The hash functions rebuilt from Erlang's, and what the exchanges built on them promise.

Routes of keys and headers of each kind are asserted on the wire (tests/conformance/exchanges/test_hash_exchanges.py).
"""

from __future__ import annotations

import pytest

from broker.entities.arguments.erlang_terms import Atom, Term
from broker.entities.exchanges.erlang_hash import jump, phash2
from harness.brokers.broker_core import Core

# Answers of Erlang/OTP 25


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (b"", 13708901),
        (b"a", 112802447),
        (b"twelve bytes", 93359736),
        (b"some.routing.key", 14376624),
        (bytes(range(100)), 117403407),
        ((Atom("signedint"), 0), 66238499),
        ((Atom("long"), (1 << 27) - 1), 33099472),
        ((Atom("long"), 1 << 27), 117666136),
        ((Atom("long"), -(1 << 27)), 13500176),
        ((Atom("long"), -(1 << 27) - 1), 132651809),
        ((Atom("long"), -(1 << 63)), 112631110),
        ((Atom("timestamp"), (1 << 64) - 1), 132064098),
        ((Atom("double"), 0.0), 28702447),
        ((Atom("double"), -0.0), 28702447),
        ((Atom("array"), []), 86211673),
        ([b""], 38220213),
        ([b"a", b"b"], 3094894),
    ],
)
def test_phash2_answers_as_erlang_does(term: Term, expected: int) -> None:
    assert phash2(term) == expected


def test_jump_answers_as_the_plug_in_does() -> None:
    """rand:seed_s(exs1024, {Key, Key, Key}) and rand:uniform_s behind it."""
    answers = [jump(key * 97531, 1 + key**3) for key in range(1, 21)]
    assert answers == [0, 8, 14, 10, 56, 132, 132, 504, 698, 38, 282, 904, 2040, 2481, 1546, 1582, 507, 722, 6393, 5955]


# What the ring promises, whoever computes it


def test_a_weight_may_be_any_number(core: Core) -> None:
    """No bucket is made for it."""
    core.bind(core.exchange("x", "x-consistent-hash"), core.queue("light"), "1")
    core.bind(core.vhost.exchange("x"), core.queue("heavy"), "9" * 200)
    assert {queue for number in range(100) for queue in core.routed("x", str(number))} == {"heavy"}
