"""unittest with a broker: empty for each test, in the report of a failure."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TESTS = """
import unittest
from leveret.testing import LeveretMixin, LeveretTestCase
import aio_pika, pika

class Plain(LeveretTestCase):
    def declare(self):
        self.assertEqual(self.leveret.history(), [])
        with pika.BlockingConnection(pika.URLParameters(self.leveret.url)) as connection:
            connection.channel().queue_declare("orders")
    def test_first(self):
        self.declare()
    def test_second(self):
        self.declare()
        self.leveret.expect("acked", queue="orders", timeout_seconds=0)

    def test_third(self):
        with self.subTest("of the third"):
            self.fail()

class Asynchronous(LeveretMixin, unittest.IsolatedAsyncioTestCase):
    async def test_it(self):
        async with await aio_pika.connect(self.leveret.url) as connection:
            await connection.channel()
"""


def test_a_suite(project: Path, environment: dict[str, str]) -> None:
    (project / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "unittest", "test_it"]
    ended = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert "Ran 4 tests" in ended.stderr
    assert "FAILED (failures=2)" in ended.stderr, ended.stderr
    assert "last events of queue 'orders'" in ended.stderr
    assert ended.stderr.count("everything is reset") == 2, "one of each failure"
    assert re.findall(r'File ".*/([^"]+)", line \d+, in (\w+)\n +(\S+)', ended.stderr) == [
        ("test_it.py", "test_second", 'self.leveret.expect("acked",'),
        ("test_it.py", "test_third", "self.fail()"),
    ], "no frame is ours"
