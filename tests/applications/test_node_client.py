"""The client for Node: its own tests, with Node's libraries for AMQP (`make check-clients` has its test runners)."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clients.node_amqplib import needs_node, node_environment
from harness.passing_commands import passed
from harness.project import ROOT

SECONDS_MAX = 120

pytestmark = pytest.mark.slow


@needs_node
@pytest.mark.parametrize("file", ["broker", "libraries"])
def test_the_clients_own_tests_pass(
    file: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, program: Path
) -> None:
    environment = {**node_environment(request.config, tmp_path_factory), "LEVERET_PROGRAM": str(program)}
    command = ["node", "--test", f"test/{file}.test.js"]
    assert "# fail 0" in passed(command, ROOT / "clients/node", environment, seconds=SECONDS_MAX)
