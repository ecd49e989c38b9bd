"""Log lines: one an event, whatever clients have said."""

from __future__ import annotations

import logging

from broker.logs import LINE_CHARACTERS_MAX, TextFormatter


def line(message: str, *arguments: object) -> str:
    record = logging.LogRecord("leveret.connection", logging.WARNING, "", 0, message, arguments, None)
    return TextFormatter().format(record).partition("[warning] ")[2]


def test_what_a_client_said_stays_on_its_line() -> None:
    assert (
        line("user '%s'", "a\r\nb\x1b[31m\x00\x9b\u2028é\udcff") == r"user 'a\r\nb\x1b[31m\x00\x9b\u2028é" + "\udcff'"
    )


def test_a_line_has_an_end() -> None:
    assert line("%s", "x" * 131_072) == "x" * LINE_CHARACTERS_MAX + "..."


def test_a_traceback_keeps_its_lines() -> None:
    record = logging.LogRecord("leveret", logging.ERROR, "", 0, "broken", (), None)
    record.exc_text = "one\ntwo"
    assert TextFormatter().format(record).endswith("[error] broken\none\ntwo")
