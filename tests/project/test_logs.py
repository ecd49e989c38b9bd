"""Log lines: one an event, whatever clients have said."""

from __future__ import annotations

import json
import logging
import sys
from string import Formatter

import pytest

from broker.admin.commands.admin_command import AdminChange
from broker.admin.commands.command_catalogue import COMMANDS
from broker.admin.commands.user_admin import AddUser
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


LOGGED = {
    "vhost",
    "user",
    "name",
    "names",
    "exchange",
    "component",
    "directory",
    "level",
    "form",
    "limit",
    "on",
    "reason",
    "resource",
    "source",
    "to",  # a place with a password is refused before
    "destination",
}
"""The arguments that a log line may repeat; never others: a password may be among them."""


def test_what_administrators_do_is_logged_in_words_and_without_passwords() -> None:
    changes = [kind for kind in COMMANDS.values() if issubclass(kind, AdminChange)]
    used = {field for kind in changes for _, field, _, _ in Formatter().parse(kind.log_words) if field}
    assert used <= LOGGED
    assert AddUser(name="ann", password="secret", tags=[]).log_line() == "user 'ann' is added"
