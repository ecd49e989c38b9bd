"""Logging goes to standard error or to a file, one line an event, as text or as JSON."""

from __future__ import annotations

import logging
import re
import sys
import time

from broker.config import ConfigError, Logs
from leveret.extras import how_to_install

NOISY = ("aiosqlite", "asyncio")
"""Libraries whose debug lines say nothing about the broker."""

log = logging.getLogger("leveret.logs")

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


class LogFile(logging.FileHandler):
    """A file that is opened anew when it was moved away, as programs that rotate logs do it."""

    def reopen(self) -> None:
        """Go on in a file of the same name; in the one in use if that cannot be opened."""
        try:
            fresh = self._open()
        except OSError as error:
            log.error("cannot reopen %s, the file in use stays: %s", self.baseFilename, error.strerror)
            return
        used = self.setStream(fresh)
        if used is not None:
            used.close()
        log.info("log file reopened")


def set_up(logs: Logs) -> None:
    """Send every logger's records of the chosen level to standard error, or to the file that the settings name.

    Raises ConfigError when the file cannot be opened, or JSON was chosen and its library is not installed.
    """
    handler = _file(logs.file) if logs.file else logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if logs.form == "text" else _json_formatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logs.level.upper())
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


def reopen() -> None:
    """Open the log file anew."""
    files = [handler for handler in logging.getLogger().handlers if isinstance(handler, LogFile)]
    for file in files:
        file.reopen()
    if not files:
        log.info("no log file to reopen: the log goes to standard error")


def _file(name: str) -> LogFile:
    try:
        return LogFile(name, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigError(f"logs.file: {name}: cannot be opened: {error.strerror}") from error


def _json_formatter() -> logging.Formatter:
    # Imported here: the library is needed, and loaded, for JSON logs only.
    try:
        from pythonjsonlogger.json import JsonFormatter
    except ImportError as error:
        raise ConfigError(
            f'logs.form: "json" needs the library python-json-logger: `{how_to_install("json-logs")}` brings it'
        ) from error
    formatter: logging.Formatter = JsonFormatter(
        "%(asctime)s %(levelname)s %(name)s %(message)s",
        rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
        datefmt="%Y-%m-%dT%H:%M:%SZ",
    )
    formatter.converter = time.gmtime
    return formatter
