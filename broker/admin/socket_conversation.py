"""The command line's side of the administration socket: `broker/admin/protocol.py` has the form of what is sent."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from broker.admin.commands.admin_command import AdminCommand, ListCommand
from broker.admin.protocol import (
    AdministrationError,
    AnotherUsers,
    NotRunning,
    TimedOut,
    ValidationFailed,
    socket_path,
)


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

    def ask(self, command: AdminCommand) -> Any:
        """Have the broker carry out a command. Returns its answer: all rows of a list.

        Raises AdministrationError with the broker's own kind and message.
        """
        return self.send(command.request())

    def send(self, request: Mapping[str, object]) -> Any:
        """Send a request as it is. Returns and raises as `ask` does."""
        before: list[Any] = []
        for part, last in self._parts(request):
            if last:
                return before + part if before else part
            before += part
        raise AssertionError("an answer ends with its last part")

    def detach(self) -> socket.socket:
        """Return the socket for another use, and end this conversation. All answers must have been read."""
        return socket.socket(fileno=self._peer.detach())

    def rows(self, command: ListCommand) -> Iterator[Any]:
        """Yield the rows of a list as they come. Raises AdministrationError, also after some rows."""
        for part, _ in self._parts(command.request()):
            yield from part

    def _parts(self, request: Mapping[str, object]) -> Iterator[tuple[Any, bool]]:
        line = json.dumps(request)
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


def ask(directory: Path, command: AdminCommand, timeout_seconds: float | None) -> Any:
    """Have the broker that runs on `directory` carry out one command. Returns its answer.

    Raises NotRunning, or AdministrationError with the broker's own kind and message.
    """
    with connected(directory, timeout_seconds) as conversation:
        return conversation.ask(command)


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
