"""Log lines: one an event, whatever clients have said."""

from __future__ import annotations

import json
import logging
import sys
from string import Formatter

import pytest

from broker.admin.action_words import SUBJECTS, WORDS, in_words
from broker.admin.command_table import CHANGES
from broker.logs import LINE_CHARACTERS_MAX, JsonFormatter, TextFormatter


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


def test_a_traceback_keeps_its_lines_and_none_looks_like_an_event() -> None:
    record = logging.LogRecord("leveret", logging.ERROR, "", 0, "broken", (), None)
    record.exc_text = "one\n2026-01-31 12:00:00.000Z [error] two\x1b[31m"
    lines = r"one", r"2026-01-31 12:00:00.000Z [error] two\x1b[31m"
    assert TextFormatter().format(record).endswith("[error] broken\n  {}\n  {}".format(*lines))


def test_a_line_for_programs_has_milliseconds_and_says_what_it_is_about() -> None:
    record = logging.LogRecord("leveret.connection", logging.WARNING, "", 0, "closing %s", ("x\n" * 5000,), None)
    record.created, record.msecs = 1_800_000_000.0, 7.9
    record.__dict__ |= {"connection": "a -> b", "user": "ann", "vhost": "", "channel": 0, "code": 404, "other": 1}
    line = JsonFormatter().format(record)
    assert "\n" not in line
    said = json.loads(line)
    assert said.pop("message").startswith("closing x\nx\n")
    assert said == {
        "time": "2027-01-15T08:00:00.007Z",
        "level": "warning",
        "logger": "leveret.connection",
        "connection": "a -> b",
        "user": "ann",
        "channel": 0,
        "code": 404,
    }
    try:
        raise ValueError("bug")
    except ValueError:
        record.exc_info = sys.exc_info()
    assert json.loads(JsonFormatter().format(record))["exception"].endswith("ValueError: bug")


def test_what_administrators_do_is_logged_in_words_and_without_passwords() -> None:
    assert WORDS.keys() == CHANGES.keys()
    used = {field for words in WORDS.values() for _, field, _, _ in Formatter().parse(words) if field}
    assert used <= set(SUBJECTS)
    given = {"name": "ann", "password": "secret", "tags": []}
    assert in_words("add_user", given, "rmq-cli") == "user 'ann' is added, by the command line"
    assert in_words("add_user", given, "admin") == "user 'ann' is added, by user 'admin'"
