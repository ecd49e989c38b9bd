"""Logging goes to standard error, one line an event, as text or as JSON."""

from __future__ import annotations

import logging
import re
import sys
import time

from broker.config import ConfigError, Logs

NOISY = ("aiosqlite", "asyncio")
"""Libraries whose debug lines say nothing about the broker."""


LINE_CHARACTERS_MAX = 4096
"""Names of users and the like come from clients, and may be as long as a frame."""

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class TextFormatter(logging.Formatter):
    """`2026-01-31 12:00:00.123Z [info] message`; times are UTC.

    What a client has said cannot look like another line, nor command a terminal.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ [%(level)s] %(message)s", "%Y-%m-%d %H:%M:%S")
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        record.level = record.levelname.lower()
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        if len(record.message) > LINE_CHARACTERS_MAX:
            record.message = f"{record.message[:LINE_CHARACTERS_MAX]}..."
        record.message = _UNPRINTABLE.sub(_escaped, record.message)
        return super().formatMessage(record)


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")


def set_up(logs: Logs) -> None:
    """Send every logger's records of the chosen level to standard error.

    Raises ConfigError when JSON was chosen and its library is not installed.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if logs.form == "text" else _json_formatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logs.level.upper())
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


def _json_formatter() -> logging.Formatter:
    # Imported here: the library is needed, and loaded, for JSON logs only.
    try:
        from pythonjsonlogger.json import JsonFormatter
    except ImportError as error:
        raise ConfigError(
            'logs.form: "json" needs the library python-json-logger; pip install "leveret[json-logs]"'
        ) from error
    formatter: logging.Formatter = JsonFormatter(
        "%(asctime)s %(levelname)s %(name)s %(message)s",
        rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
        datefmt="%Y-%m-%dT%H:%M:%SZ",
    )
    formatter.converter = time.gmtime
    return formatter
