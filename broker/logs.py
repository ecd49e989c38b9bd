"""Logging to standard error or a file, one line per record, as text or JSON."""

from __future__ import annotations

import json
import logging
import re
import sys
import time

from broker.config import ConfigError, LogsSettings

NOISY = ("aiosqlite", "asyncio")
"""Libraries whose debug records are not about the broker."""

log = logging.getLogger("leveret.logs")

LINE_CHARACTERS_MAX = 4096
"""Longer messages are cut: names from clients may be as long as a frame."""

FIELDS = ("connection", "user", "vhost", "queue", "channel", "code")
"""Structured fields of a record, passed by `extra`: its subject, and AMQP's code of an error."""

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class TextFormatter(logging.Formatter):
    """`2026-01-31 12:00:00.123Z [info] message`; times are UTC.

    Control characters are escaped, so that text from a client cannot forge a line or command a terminal. It may be in a
    traceback, too, whose lines are indented.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ [%(level)s] %(message)s", "%Y-%m-%d %H:%M:%S")
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        record.level = record.levelname.lower()
        line, *traceback = super().format(record).split("\n")
        return "\n".join([line, *(f"  {_UNPRINTABLE.sub(_escaped, each)}" for each in traceback)])

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = _UNPRINTABLE.sub(_escaped, _cut(record.message))
        return super().formatMessage(record)


def _cut(message: str) -> str:
    return f"{message[:LINE_CHARACTERS_MAX]}..." if len(message) > LINE_CHARACTERS_MAX else message


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")


class JsonFormatter(logging.Formatter):
    """One object per line: time, level, logger, message, FIELDS that are set, the traceback of an exception."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"
    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        said = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(record.getMessage()),
            **{name: value for name in FIELDS if (value := getattr(record, name, None)) not in (None, "")},
        }
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said)


class LogFile(logging.FileHandler):
    """A log file that can be reopened after a program has rotated it."""

    def reopen(self) -> None:
        """Open the file's name again and write there; keep the file in use if that fails."""
        try:
            fresh = self._open()
        except OSError as error:
            log.error("cannot reopen %s, the file in use stays: %s", self.baseFilename, error.strerror)
            return
        used = self.setStream(fresh)
        if used is not None:
            used.close()
        log.info("log file reopened")


def set_up(logs: LogsSettings) -> None:
    """Send all records of the chosen level to standard error, or to the file that the settings name.

    Raises ConfigError if the file cannot be opened.
    """
    handler = _file(logs.file) if logs.file else logging.StreamHandler(sys.stderr)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_form(logs.form)
    root.setLevel(logs.level.upper())
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


def set_form(form: str) -> None:
    """Write the log as `text` or as `json` from now on."""
    formatter = JsonFormatter() if form == "json" else TextFormatter()
    for handler in logging.getLogger().handlers:
        handler.setFormatter(formatter)


def reopen() -> None:
    """Reopen the log file."""
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
