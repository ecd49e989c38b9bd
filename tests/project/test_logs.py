"""Log lines: one an event, whatever clients have said."""

from __future__ import annotations

import logging

import pytest

from broker.logs import LINE_CHARACTERS_MAX, TextFormatter


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("a\r\nb\x1b[31m\x00\x9b\u2028é\udcff", r"a\r\nb\x1b[31m\x00\x9b\u2028é" + "\udcff"),
        ("x" * 131_072, "x" * (LINE_CHARACTERS_MAX - 5) + "..."),
    ],
    ids=["stays on its line", "has an end"],
)
def test_what_a_client_said(said: str, shown: str) -> None:
    record = logging.LogRecord("leveret.connection", logging.WARNING, "", 0, "user %s", (said,), None)
    assert TextFormatter().format(record).partition("[warning] user ")[2] == shown


def test_a_traceback_keeps_its_lines() -> None:
    record = logging.LogRecord("leveret", logging.ERROR, "", 0, "broken", (), None)
    record.exc_text = "one\ntwo"
    assert TextFormatter().format(record).endswith("[error] broken\none\ntwo")
