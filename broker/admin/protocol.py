"""The protocol between the command line and a running broker: JSON lines over a Unix socket in its data directory.

A request is one line, `{"command": "add_user", "arguments": {"name": ...}}`; the answer is one line, `{"ok": ...}`
or `{"error": {"kind": "not_found", "message": "..."}}`, with `problems` where there may be several. Before the last
line of a long listing there are others, `{"rows": [...]}`, with its first rows. A connection may carry many requests.
The socket is readable by its owner alone: a process that may open it may do anything. Names that are not UTF-8
travel as JSON escapes of their surrogates.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

SOCKET_NAME = "leveret.sock"

SOCKET_PATH_BYTES_MAX = 107
"""Linux keeps a socket's path in 108 bytes, the last one zero."""


class AdministrationError(Exception):
    """A command could not be carried out. `kind` is for programs, the message for people.

    Kinds: `not_found`, `already_exists`, `invalid` (malformed arguments), `refused` (a rule forbids it), `failed`
    (an error of the broker or its disk), `not_running`.
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


class Conversation:
    """One connection to a broker, for one request after the other."""

    def __init__(self, directory: Path, peer: socket.socket, answers: BinaryIO) -> None:
        """Use `connected`."""
        self._directory = directory
        self._peer = peer
        self._answers = answers

    def limit(self, seconds: float | None) -> None:
        """Limit the time that each line of an answer may take from now on; None for no limit."""
        self._peer.settimeout(seconds)

    def ask(self, command: str, **arguments: object) -> Any:
        """Have the broker carry out a command. Returns its answer: all rows of a listing.

        Raises AdministrationError with the broker's own kind and message.
        """
        before: list[Any] = []
        for part, last in self._parts(command, arguments):
            if last:
                return before + part if before else part
            before += part
        raise AssertionError("an answer ends with its last part")

    def detach(self) -> socket.socket:
        """Return the socket for another use, and end this conversation. All answers must have been read."""
        return socket.socket(fileno=self._peer.detach())

    def rows(self, command: str, **arguments: object) -> Iterator[Any]:
        """Yield the rows of a listing as they come. Raises AdministrationError, also after some rows."""
        for part, _ in self._parts(command, arguments):
            yield from part

    def _parts(self, command: str, arguments: Mapping[str, object]) -> Iterator[tuple[Any, bool]]:
        line = json.dumps({"command": command, "arguments": arguments})
        with _failures(self._directory):
            self._peer.sendall(line.encode("ascii") + b"\n")
            while True:
                answer = self._next()
                yield answer.get("rows", answer.get("ok")), "rows" not in answer
                if "rows" not in answer:
                    return

    def _next(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line.endswith(b"\n"):
            raise AdministrationError("failed", f"{self._directory}: the broker ended before it answered")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            error = answer["error"]
            raise (
                ValidationFailed(error["problems"])
                if "problems" in error
                else AdministrationError(error["kind"], error["message"])
            )
        return answer


@contextmanager
def connected(directory: Path, timeout_seconds: float | None) -> Iterator[Conversation]:
    """Connect to the broker that runs on `directory`. Raises NotRunning."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(timeout_seconds)
        with _failures(directory), socket_path(directory) as path:
            peer.connect(path)
        with peer.makefile("rb") as answers:
            yield Conversation(directory, peer, answers)


def ask(directory: Path, command: str, arguments: Mapping[str, object], timeout_seconds: float | None) -> Any:
    """Have the broker that runs on `directory` carry out one command. Returns its answer.

    Raises NotRunning, or AdministrationError with the broker's own kind and message.
    """
    with connected(directory, timeout_seconds) as conversation:
        return conversation.ask(command, **arguments)


@contextmanager
def _failures(directory: Path) -> Iterator[None]:
    """Translate errors of the socket into AdministrationErrors."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        raise NotRunning(directory) from error
    except PermissionError as error:
        raise AnotherUsers(directory) from error
    except TimeoutError as error:
        raise TimedOut(f"{directory}: the broker did not answer in time") from error
    except ConnectionError as error:
        raise AdministrationError("failed", f"{directory}: the broker ended before it answered") from error


@contextmanager
def socket_path(directory: Path) -> Iterator[str]:
    """Yield a path to the socket in `directory` that is short enough to bind or connect to."""
    path = str(directory / SOCKET_NAME)
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
        yield path
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)
