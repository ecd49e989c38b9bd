"""Verdict on two brokers' rounds together."""

from __future__ import annotations

import json
import sys
from functools import partial

import pytest

from bench.compare import commands, compare, medians
from bench.load.generator import Figures
from bench.load.measured_broker import Target, parse_target

OURS, THEIRS = Target(("127.0.0.1", 5672), 1), Target(("127.0.0.1", 5673), 2)


def test_a_target_is_an_address_and_a_process() -> None:
    assert parse_target("127.0.0.1:5672,1") == OURS
    for half in ("127.0.0.1", "127.0.0.1:5672", "127.0.0.1:amqp,1"):
        with pytest.raises(ValueError, match=r".+"):
            parse_target(half)


def test_the_median_of_the_ratios_is_not_the_ratio_of_the_medians() -> None:
    rates = [(10.0, 1.0), (8.0, 4.0), (9.0, 3.0)]
    found = medians([({"messages_per_s": a, "cpu_us_per_message": 1}, _rabbit(b)) for a, b in rates])
    assert (found["rate_ratio"], found["rate_ours"], found["rate_theirs"]) == (3.0, 9.0, 3.0)
    assert found["rate_ratios"] == [2.0, 3.0, 10.0]


def test_round_trips_come_before_confirms_and_latencies_of_nobody_are_left_out() -> None:
    figures: Figures = {"messages_per_s": 1.0, "cpu_us_per_message": 1.0}
    silent, slow, quick = ({"p50": p, "p99": 2 * p, "max": 3 * p} for p in (0.0, 4.0, 1.0))
    both, one = {**figures, "confirm_ms": quick, "round_trip_ms": slow}, {**figures, "confirm_ms": quick}
    assert medians([(both, one)])["p99_ms_ratio"] == 4.0
    assert "p99_ms_ratio" not in medians([({**figures, "confirm_ms": silent},) * 2])


def test_brokers_take_turns_at_beginning() -> None:
    asked: list[tuple[str, Target]] = []

    def scenario(name: str, target: Target) -> Figures:
        asked.append((name, target))
        return {"messages_per_s": 1.0, "cpu_us_per_message": 1.0}

    compare({name: partial(scenario, name) for name in ("fill", "drain")}, OURS, THEIRS, 2)
    first, second = [(OURS, THEIRS), (THEIRS, OURS)]
    assert asked == [(name, target) for order in (first, second) for name in ("fill", "drain") for target in order]


def test_commands_of_another_generator_are_filled_in() -> None:
    program = "import json, sys; print('# a remark'); print(json.dumps(dict(zip('ab', sys.argv[1:]))))"
    found = commands(f'# what they do\n\none = {sys.executable} -c "{program}" {{host}}:{{port}} {{pid}}\n')
    assert list(found) == ["one"]
    assert json.dumps(found["one"](OURS)) == '{"a": "127.0.0.1:5672", "b": "1"}'


def _rabbit(rate: float) -> dict[str, float]:
    """The names that other generators have for the same things."""
    return {"consumed_per_s": rate, "broker_cpu_us_per_msg": 2.0}
