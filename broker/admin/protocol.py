"""The protocol between the command line and a running broker: JSON lines over a Unix socket in its data directory.

A request is one line, `{"command": "add_user", "arguments": {"name": ...}}`; the answer is one line, `{"ok": ...}`
or `{"error": {"kind": "not_found", "message": "..."}}`, with `problems` where there may be several. Before the last
line of a long listing there are others, `{"rows": [...]}`, with its first rows. A connection may carry many requests.
The socket is readable by its owner alone: a process that may open it may do anything. Names that are not UTF-8
travel as JSON escapes of their surrogates.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SOCKET_NAME = "leveret.sock"

SOCKET_PATH_BYTES_MAX = 103
"""macOS keeps a socket's path in 104 bytes, the last one zero; Linux in 108."""


class AdministrationError(Exception):
    """A command could not be carried out. `kind` is for programs, the message for people.

    Kinds: `not_found`, `already_exists`, `invalid` (malformed arguments), `refused` (a rule forbids it), `protected`
    (a virtual host may not be deleted), `failed` (an error of the broker or its disk), `not_running`.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def invalid(message: str) -> AdministrationError:
    """Return an error of kind `invalid`."""
    return AdministrationError("invalid", message)


def not_found(message: str) -> AdministrationError:
    """Return an error of kind `not_found`."""
    return AdministrationError("not_found", message)


class TimedOut(AdministrationError):
    """No answer came within the time limit."""

    def __init__(self, message: str) -> None:
        super().__init__("failed", message)


class ValidationFailed(AdministrationError):
    """Values that RabbitMQ's validation of parameters refuses; `problems` are its lines."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("invalid", f"Validation failed: {'; '.join(problems)}")
        self.problems = problems


class NotRunning(AdministrationError):
    """No broker answers on the data directory."""

    def __init__(self, directory: Path) -> None:
        text = "start one with `leveret serve`, or name another directory with --data-dir or LEVERET_DATA_DIR"
        super().__init__("not_running", f"no broker is running on the data directory {directory.absolute()}: {text}")


class AnotherUsers(AdministrationError):
    """The data directory is closed to this user."""

    def __init__(self, directory: Path) -> None:
        owner, place = _owner(directory), directory.absolute()
        text = f"run this as that user (sudo -u {owner} leveret ...), or name another directory with --data-dir"
        super().__init__("refused", f"the data directory {place} is for the user {owner} alone: {text}")


def _owner(directory: Path) -> str:
    """Return the name of a directory's owner, or its number; if unreadable, that of the first readable parent."""
    # Imported here: it is for messages only.
    import pwd

    for place in (directory, *directory.absolute().parents):
        try:
            return pwd.getpwuid(place.stat().st_uid).pw_name
        except PermissionError:
            continue
        except KeyError:
            return f"#{place.stat().st_uid}"
    return "root"


@contextmanager
def socket_path(directory: Path) -> Iterator[str]:
    """Yield a path to the socket in `directory` that is short enough to bind or connect to."""
    path = str(directory / SOCKET_NAME)
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
        yield path
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    place = f"/proc/self/fd/{descriptor}"
    try:
        if _is_there(place):
            yield f"{place}/{SOCKET_NAME}"
            return
        with _short_link(directory) as link:
            yield f"{link}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)


def _is_there(place: str) -> bool:
    try:
        os.close(os.open(place, os.O_RDONLY | os.O_DIRECTORY))
    except OSError:
        return False
    return True


@contextmanager
def _short_link(directory: Path) -> Iterator[Path]:
    """Yield a link to a directory, from one for temporary files that has a short name on macOS too."""
    # Imported here: few systems need it.
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="leveret-", dir="/tmp") as short:
        link = Path(short, "data")
        link.symlink_to(directory.absolute(), target_is_directory=True)
        yield link
