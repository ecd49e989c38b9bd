"""The verdict on what is in the files after kills: what is missing, or there twice, is told."""

from __future__ import annotations

import json

import pytest

from tests.durability.stream_kills.numbered_messages import Row, verdict


def rows(stream: list[int], queue: list[int]) -> list[Row]:
    """Rows as the job prints them; numbers of the stream are its offsets."""
    told = [["b", "stream", number, str(number)] for number in stream]
    told += [["b", "queue", None, str(number)] for number in queue]
    return [Row.read(json.dumps(each).encode()) for each in told]


def test_a_queue_may_have_some_again() -> None:
    told = verdict(rows([0, 1, 2], [0, 1, 1]), {0, 1})
    assert told == "3 offsets of the stream, each once, and 2 messages of the queue, 1 of them again"


@pytest.mark.parametrize(
    ("stream", "queue", "told"),
    [
        ([0, 1, 1], [0, 1], r"offsets that are in the files twice: \[1\]"),
        ([0], [0, 1], r"confirmed and not in the files of the stream: \[1\]"),
        ([0, 1], [1], r"confirmed and not in the files of the queue: \[0\]"),
    ],
)
def test_what_is_missing_or_twice_is_told(stream: list[int], queue: list[int], told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        verdict(rows(stream, queue), {0, 1})
