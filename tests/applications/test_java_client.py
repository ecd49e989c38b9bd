"""The client for Java, an extension of JUnit 5, with Debian's junit5 and librabbitmq-client-java."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from harness.clients.packaged_libraries import JARS, JAVA_PACKAGES
from harness.passing_commands import passed
from harness.project import ROOT

SECONDS_MAX = 180

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("javac") is None or not all(jar.exists() for jar in JARS), reason=f"{JAVA_PACKAGES} is missing"
    ),
]


def test_the_clients_own_tests_pass(tmp_path: Path, program: Path) -> None:
    path = os.pathsep.join(map(str, JARS))
    classes = tmp_path / "classes"
    sources = sorted(map(str, (ROOT / "clients/java/src").rglob("*.java")))
    compile_all = ["javac", "-Xlint:all,-path", "-Werror", "-proc:none", "--release", "11"]
    compile_all += ["-d", str(classes), "-cp", path, *sources]
    run = ["java", "-cp", f"{classes}{os.pathsep}{path}", "org.junit.platform.console.ConsoleLauncher"]
    environment = {**os.environ, "LEVERET_PROGRAM": str(program)}
    passed(compile_all, tmp_path, environment, seconds=SECONDS_MAX)
    said = passed([*run, "--scan-classpath", str(classes)], tmp_path, environment, seconds=SECONDS_MAX)
    assert "0 tests failed" in said
