"""A test that leaves something open is told so itself: no other test fails for it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from harness.project import ROOT

FILES = {
    "test_first.py": """
import socket

class Holder:
    def __init__(self):
        self.held, self.itself = socket.socket(), self

def test_it_leaves_a_socket_to_the_garbage_collector():
    Holder()
""",
    "test_second.py": """
from test_first import Holder

def test_it_fails():
    holder = Holder()
    assert not holder

def test_it_follows():
    import gc
    gc.collect()
""",
    "test_third.py": """
import gc

def test_it_collects_garbage():
    gc.collect()
""",
}


def test_each_is_charged_with_its_own(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    told = subprocess.run(
        [*command, f"--rootdir={tmp_path}", *FILES], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True
    ).stdout.decode()
    charged = set(re.findall(r"^(?:FAILED|ERROR) .*$", told, re.MULTILINE))
    assert {line.partition(" - ")[0] for line in charged} == {
        "ERROR test_first.py::test_it_leaves_a_socket_to_the_garbage_collector",
        "FAILED test_second.py::test_it_fails",
    }, told
    assert "ResourceWarning" in told
