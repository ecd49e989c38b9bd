"""Header tables as JSON and back, and the floating-point numbers that pika alone would spoil."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pika import BasicProperties, data

from leveret_spark.amqp import doubles
from leveret_spark.amqp.headers import headers_from_json, headers_to_json
from tests.pipeline.inputs.queue_client import Desk

TABLE: dict[str, Any] = {
    "text": "é",
    "whole": -(2**40),
    "real": 1.5,
    "tiny": 5e-324,
    "yes": True,
    "none": None,
    "bytes": b"\xff\x00",
    "when": datetime(2026, 11, 21, 12, tzinfo=UTC),
    "price": Decimal("12.5"),
    "list": [1, "two", {"three": 3.25}],
    "x-death": [{"queue": "jobs", "reason": "rejected", "count": 1}],
}


def test_every_value_comes_back_as_it_was() -> None:
    text = headers_to_json(TABLE)
    assert text is not None
    assert headers_from_json(text) == TABLE


def test_json_says_what_it_has_words_for_plainly() -> None:
    text = headers_to_json(TABLE)
    assert text is not None
    told = json.loads(text)
    assert told["text"] == "é"
    assert told["x-death"] == TABLE["x-death"]
    assert told["bytes"] == {"$bytes": "/wA="}
    assert told["when"] == {"$timestamp": 1795262400}
    assert told["price"] == {"$decimal": "12.5"}


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_numbers_that_json_has_not(value: str) -> None:
    text = headers_to_json({"x": float(value)})
    assert text is not None
    assert str(headers_from_json(text)["x"]) == value


def test_no_headers_are_null() -> None:
    assert headers_to_json(None) is None
    assert headers_to_json({}) == "{}"


@pytest.mark.parametrize("text", ["[1]", "1", "nothing"])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        headers_from_json(text)


def test_floats_go_to_the_broker_and_back(desk: Desk, queue: Any) -> None:
    doubles.mend()
    name = queue()
    desk.publish(name, [b""], headers={"a": 1.5, "b": [{"c": -0.25}]})
    ((_, properties, _),) = desk.take(name)
    assert properties.headers == {"a": 1.5, "b": [{"c": -0.25}]}


def test_a_float_of_32_bits_is_read() -> None:
    doubles.mend()
    assert data.decode_value(b"f\x40\x20\x00\x00", 0) == (2.5, 5)


def test_every_type_of_value_survives_the_library(desk: Desk, queue: Any) -> None:
    doubles.mend()
    name = queue()
    desk.channel.basic_publish("", name, b"", BasicProperties(headers=TABLE))
    ((_, properties, _),) = desk.take(name)
    text = headers_to_json(properties.headers)
    assert text is not None
    assert headers_from_json(text) == TABLE
