"""The newcomer of `make newcomer` types README's commands, and its root directory is as bare as it has to be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.newcomer.bare_root import HOME, USER, NoNamespacesError, bare_root
from bench.newcomer.readme import read
from harness.project import ROOT

LOOK = """
import json, os
compilers = {"cc", "c++", "gcc", "g++", "cc1", "clang", "tcc", "zig", "rustc", "go", "ld", "as", "java", "javac"}
found, writable = [], []
for directory, directories, files in os.walk("/"):
    directories[:] = [name for name in directories if (directory, name) not in {("/", "proc"), ("/", "dev")}]
    found += [os.path.join(directory, name) for name in files if name in compilers]
    writable += [directory] if os.access(directory, os.W_OK) else []
print(json.dumps({
    "user": [os.getuid(), os.getgid(), os.getgroups()], "compilers": found, "writable": sorted(writable),
    "home": os.listdir(os.environ["HOME"]), "first process": os.getpid(), "given": open("given").read(),
}))
"""


def test_the_readme_has_every_command_of_the_newcomer() -> None:
    assert read(ROOT / "README.md").program == ".venv/bin/leveret"


@pytest.mark.slow
def test_the_root_has_no_compiler_no_java_and_nothing_to_write_to_but_a_home(tmp_path: Path) -> None:
    (tmp_path / "given").write_text("a file")
    (tmp_path / "given").chmod(0o644)  # whatever the umask that other tests have left
    try:
        with bare_root({"given": tmp_path / "given"}) as root:
            seen = json.loads(root.run(["python3", "-c", LOOK], seconds=60))
    except NoNamespacesError as error:
        pytest.skip(str(error))
    assert seen == {
        "user": [USER, USER, []],
        "compilers": [],
        "writable": [str(HOME), "/tmp"],
        "home": [],
        "first process": 1,
        "given": "a file",
    }
