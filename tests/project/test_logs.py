"""Log lines: one an event, whatever clients have said."""

from __future__ import annotations

import logging
from string import Formatter

import pytest

from broker.admin.action_words import SUBJECTS, WORDS, in_words
from broker.admin.command_table import CHANGES
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


def test_what_administrators_do_is_logged_in_words_and_without_passwords() -> None:
    assert WORDS.keys() == CHANGES.keys()
    used = {field for words in WORDS.values() for _, field, _, _ in Formatter().parse(words) if field}
    assert used <= set(SUBJECTS)
    given = {"name": "ann", "password": "secret", "tags": []}
    assert in_words("add_user", given, "rmq-cli") == "user 'ann' is added, by the command line"
    assert in_words("add_user", given, "admin") == "user 'ann' is added, by user 'admin'"
