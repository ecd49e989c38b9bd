"""How the command line talks to a running broker: JSON lines over a Unix socket in its data directory.

A request is one line, `{"command": "add_user", "arguments": {"name": ...}}`; the answer is one line, `{"ok": ...}`
or `{"error": {"kind": "not_found", "message": "..."}}`. A connection may carry many requests, one after another.
The socket is readable by its owner alone: a process that may open it may do anything. Names that are not UTF-8
travel as JSON escapes of their surrogates.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOCKET_NAME = "leveret.sock"

SOCKET_PATH_BYTES_MAX = 107
"""Linux keeps a socket's path in 108 bytes, the last one zero."""


class AdministrationError(Exception):
    """A command could not be carried out. `kind` is for programs, the message for people.

    Kinds: `not_found`, `already_exists`, `invalid` (arguments that make no sense), `refused` (a rule forbids it),
    `failed` (the broker or its disk could not), `not_running`.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class NotRunning(AdministrationError):
    """No broker answers on the data directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__("not_running", f"{directory}: no broker is running on this data directory")


def ask(directory: Path, command: str, arguments: Mapping[str, object], timeout_seconds: float | None) -> Any:
    """Have the broker that runs on `directory` carry out a command; its answer.

    Raises NotRunning, or AdministrationError with the broker's own kind and message.
    """
    try:
        with socket_path(directory) as path, socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(timeout_seconds)
            peer.connect(path)
            line = json.dumps({"command": command, "arguments": arguments})
            peer.sendall(line.encode("ascii") + b"\n")
            answer = peer.makefile("rb").readline()
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        raise NotRunning(directory) from error
    except TimeoutError as error:
        raise AdministrationError("failed", f"{directory}: the broker did not answer in time") from error
    except ConnectionError as error:
        raise AdministrationError("failed", f"{directory}: the broker ended before it answered") from error
    return _answer(directory, answer)


def _answer(directory: Path, line: bytes) -> Any:
    if not line.endswith(b"\n"):
        raise AdministrationError("failed", f"{directory}: the broker ended before it answered")
    answer = json.loads(line)
    if "error" in answer:
        raise AdministrationError(answer["error"]["kind"], answer["error"]["message"])
    return answer["ok"]


@contextmanager
def socket_path(directory: Path) -> Iterator[str]:
    """A path to the socket in `directory` that is short enough to bind or connect to while this is entered."""
    path = str(directory / SOCKET_NAME)
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
        yield path
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)
