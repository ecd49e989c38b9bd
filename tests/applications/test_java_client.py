"""The client for Java, an extension of JUnit 5, with Debian's junit5 and librabbitmq-client-java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
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


FAILING = """
import java.util.Map;
import leveret.Leveret;
import leveret.LeveretExtension;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(LeveretExtension.class)
class OrdersTest {
  @Test
  void anOrder(Leveret leveret) {
    leveret.restart();
    leveret.expect("acked", Map.of("queue", "orders", "timeout_seconds", 0.1));
  }
}
"""
CONSOLE = "org.junit.platform.console.ConsoleLauncher"


def test_the_clients_own_tests_pass(tmp_path: Path, program: Path) -> None:
    path = os.pathsep.join(map(str, JARS))
    classes = tmp_path / "classes"
    sources = sorted(map(str, (ROOT / "clients/java/src").rglob("*.java")))
    compile_all = ["javac", "-Xlint:all,-path", "-Werror", "-proc:none", "--release", "11"]
    compile_all += ["-d", str(classes), "-cp", path, *sources]
    run = ["java", "-cp", f"{classes}{os.pathsep}{path}", CONSOLE]
    environment = {**os.environ, "LEVERET_PROGRAM": str(program)}
    passed(compile_all, tmp_path, environment, seconds=SECONDS_MAX)
    said = passed([*run, "--scan-classpath", str(classes)], tmp_path, environment, seconds=SECONDS_MAX)
    assert "0 tests failed" in said


def test_a_failed_expectation_shows_its_sentence_and_the_log_and_no_frame_of_ours(
    tmp_path: Path, program: Path
) -> None:
    (tmp_path / "OrdersTest.java").write_text(FAILING)
    path, classes = os.pathsep.join(map(str, JARS)), tmp_path / "classes"
    sources = [str(tmp_path / "OrdersTest.java"), *map(str, (ROOT / "clients/java/src/main").rglob("*.java"))]
    environment = {**os.environ, "LEVERET_PROGRAM": str(program)}
    compile_all = ["javac", "-proc:none", "-d", str(classes), "-cp", path, *sources]
    passed(compile_all, tmp_path, environment, seconds=SECONDS_MAX)
    run = ["java", "-cp", f"{classes}{os.pathsep}{path}", CONSOLE, "--select-class", "OrdersTest"]
    done = subprocess.run(
        run, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert "within 0.1 s: expected 1 of these events" in done.stdout
    assert "the broker's log during the test:" in done.stderr
    frames = re.findall(r"^ +(?:app//)?([\w.]+)\(\w+\.java:\d+\)$", done.stdout, re.MULTILINE)
    assert [frame for frame in frames if frame.startswith(("leveret.", "OrdersTest"))] == ["OrdersTest.anOrder"], (
        done.stdout
    )
