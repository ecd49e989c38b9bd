"""Policies of a virtual host of the tests' own, set as an operator sets them: by our commands or by rabbitmqctl.

Against a real RabbitMQ (see `harness/brokers/rabbitmq_reference.py`) the environment must be such that `rabbitmqctl`
finds it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from broker.admin.protocol import AdministrationError
from harness.brokers.admin_requests import ask


class Operator(Protocol):
    """An administrator of the broker. A method answers with the refusal, or with nothing."""

    def set(
        self, name: str, pattern: str, definition: Mapping[str, Any], *, operator: bool = False, **options: Any
    ) -> str:
        """Set a policy; options are priority and apply_to."""

    def clear(self, name: str, *, operator: bool = False) -> str:
        """Remove a policy."""

    def policies(self, *, operator: bool = False) -> list[dict[str, Any]]:
        """The policies that are set, definitions decoded."""

    def queues(self) -> dict[str, str]:
        """Every queue with the name of its policy, which may be empty."""


class Leveret:
    """The commands of a broker of ours."""

    def __init__(self, directory: Path, vhost: str) -> None:
        self._directory = directory
        self.vhost = vhost

    def begin(self) -> None:
        """Make the virtual host."""
        self._tell("add_vhost", name=self.vhost, description="", tags=[], default_queue_type="")
        self._tell("set_permissions", vhost=self.vhost, user="guest", configure=".*", write=".*", read=".*")

    def end(self) -> None:
        """Remove the virtual host."""
        self._tell("delete_vhost", name=self.vhost)

    def set(
        self, name: str, pattern: str, definition: Mapping[str, Any], *, operator: bool = False, **options: Any
    ) -> str:
        command = "set_operator_policy" if operator else "set_policy"
        chosen = {"priority": 0, "apply_to": "all", **options}
        return self._refusal(command, name=name, pattern=pattern, definition=definition, **chosen)

    def clear(self, name: str, *, operator: bool = False) -> str:
        return self._refusal("clear_operator_policy" if operator else "clear_policy", name=name)

    def policies(self, *, operator: bool = False) -> list[dict[str, Any]]:
        command = "list_operator_policies" if operator else "list_policies"
        found: list[dict[str, Any]] = self._tell(command, vhost=self.vhost)
        return found

    def queues(self) -> dict[str, str]:
        return {row["name"]: row["policy"] for row in self._tell("list_queues", vhost=self.vhost)}

    def _refusal(self, command: str, **arguments: object) -> str:
        try:
            self._tell(command, vhost=self.vhost, **arguments)
        except AdministrationError as error:
            return str(error)
        return ""

    def _tell(self, command: str, **arguments: object) -> Any:
        return ask(self._directory, command, arguments, 20.0)


class RabbitMQ:
    """The commands of a real one."""

    def __init__(self, vhost: str) -> None:
        self.vhost = vhost

    def begin(self) -> None:
        """Make the virtual host."""
        assert not _rabbitmqctl("add_vhost", self.vhost).returncode, "rabbitmqctl cannot reach the reference"
        _rabbitmqctl("set_permissions", "-p", self.vhost, "guest", ".*", ".*", ".*")

    def end(self) -> None:
        """Remove the virtual host."""
        _rabbitmqctl("delete_vhost", self.vhost)

    def set(
        self, name: str, pattern: str, definition: Mapping[str, Any], *, operator: bool = False, **options: Any
    ) -> str:
        command = "set_operator_policy" if operator else "set_policy"
        chosen = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
        return self._refusal(command, *chosen, "--", name, pattern, json.dumps(definition))

    def clear(self, name: str, *, operator: bool = False) -> str:
        return self._refusal("clear_operator_policy" if operator else "clear_policy", name)

    def policies(self, *, operator: bool = False) -> list[dict[str, Any]]:
        rows = self._listed("list_operator_policies" if operator else "list_policies")
        return [{**row, "definition": json.loads(row["definition"])} for row in rows]

    def queues(self) -> dict[str, str]:
        return {row["name"]: row["policy"] for row in self._listed("list_queues", "name", "policy")}

    def _refusal(self, command: str, *arguments: str) -> str:
        done = _rabbitmqctl(command, "-p", self.vhost, *arguments)
        lines = done.stderr.strip().splitlines()
        text = "; ".join(line for line in lines if line and line not in ("Error:", "Validation failed"))
        return f"Validation failed: {text}" if "Validation failed" in lines else text

    def _listed(self, command: str, *columns: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(
            _rabbitmqctl(command, "-p", self.vhost, *columns, "--formatter", "json").stdout
        )
        return found


def _rabbitmqctl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["rabbitmqctl", "-q", *arguments], capture_output=True, text=True, timeout=60)
