"""The measurements of audits run, and find what was planted."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from harness.project import ROOT
from tests.pipeline.conftest import JAVA_FOR_TESTS, SETTINGS_FOR_TESTS

SOON = {**SETTINGS_FOR_TESTS, "spark.driver.defaultJavaOptions": JAVA_FOR_TESTS}


@pytest.mark.slow
def test_the_measurements_run() -> None:
    """Both engines come to the same, or it fails."""
    command = [
        sys.executable,
        "-m",
        "bench.pipeline.audit_times",
        "--events",
        "3000",
        "--audits",
        "local",
        "local export",
        "spark",
        "--master",
        "local[1]",
        *(word for name, value in SOON.items() for word in ("--conf", f"{name}={value}")),
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    rows = {row["row"]: row for row in map(json.loads, run.stdout.splitlines())}
    assert rows["export"].keys() >= {"rows_per_s", "seconds", "cpu_s", "memory_mib"}
    assert rows["audit, local"].keys() == rows["audit, spark"].keys() >= {"seconds", "cpu_s", "memory_mib"}
