"""The client for Go and the example that uses it, with Debian's golang-github-rabbitmq-amqp091-go-dev."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from harness.clients.packaged_libraries import GO_LIBRARIES, GO_MODULES, GO_PACKAGES, replaced_modules
from harness.passing_commands import passed
from harness.project import ROOT

SECONDS_MAX = 180

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("go") is None or not (GO_LIBRARIES / GO_MODULES[0]).is_dir(), reason=f"{GO_PACKAGES} is missing"
    ),
]


@pytest.mark.parametrize("module", ["clients/go", "examples/testing-go"])
def test_the_tests_of_a_module_pass(module: str, tmp_path: Path, program: Path) -> None:
    for name in ("clients/go", "examples/testing-go"):
        shutil.copytree(ROOT / name, tmp_path / name)
    environment = {**os.environ, "LEVERET_PROGRAM": str(program), "GOPROXY": "off", "GOFLAGS": "-mod=mod"}
    for command in (["go", "mod", "edit", *replaced_modules()], ["go", "test", "./..."]):
        passed(command, tmp_path / module, environment, seconds=SECONDS_MAX)
