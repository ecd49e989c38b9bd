"""Requests to a broker's administration socket by the name of their command, as any program may write them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker.admin.socket_conversation import connected


def ask(directory: Path, command: str, arguments: Mapping[str, object], timeout_seconds: float | None) -> Any:
    """Have the broker on `directory` carry out a command. Returns its answer. Raises AdministrationError."""
    with connected(directory, timeout_seconds) as conversation:
        return conversation.send({"command": command, "arguments": arguments})
