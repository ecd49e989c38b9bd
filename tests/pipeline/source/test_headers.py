"""Header tables as JSON and back, and the floating-point numbers that pika alone would spoil."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pika import data

from leveret_spark.amqp.float_headers import CODEC, Properties
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


def test_every_value_comes_back_as_it_was_and_json_says_what_it_has_words_for() -> None:
    text = headers_to_json(TABLE)
    assert text is not None
    assert headers_from_json(text) == TABLE
    shown = json.loads(text)
    assert shown["text"] == "é"
    assert shown["x-death"] == TABLE["x-death"]
    assert shown["bytes"] == {"$bytes": "/wA="}
    assert shown["when"] == {"$timestamp": 1795262400}
    assert shown["price"] == {"$decimal": "12.5"}
    assert (headers_to_json(None), headers_to_json({})) == (None, "{}")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_numbers_that_json_has_not(value: str) -> None:
    text = headers_to_json({"x": float(value)})
    assert text is not None
    assert str(headers_from_json(text)["x"]) == value


@pytest.mark.parametrize("text", ["[1]", "1", "nothing"])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        headers_from_json(text)


def test_every_type_of_value_survives_the_library(desk: Desk, queue: Any) -> None:
    name = queue()
    desk.channel.basic_publish("", name, b"", Properties(headers=TABLE))
    ((_, properties, _),) = desk.take(name)
    assert properties.headers == TABLE
    single = b"f\x40\x20\x00\x00"
    assert (CODEC.decode_value(single, 0), data.decode_value(single, 0)) == ((2.5, 5), (2, 5)), "a float of 32 bits"
