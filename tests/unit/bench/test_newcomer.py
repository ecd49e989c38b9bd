"""The newcomer of `make newcomer` types README's commands, and its root directory is as bare as it has to be."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.newcomer import kits
from bench.newcomer.bare_root import HOME, USER, NoNamespacesError, bare_root
from bench.newcomer.green_tests import NEWCOMERS, Newcomer, play
from bench.newcomer.readme import green_lines, read
from broker.cli.catalogue import TOP
from harness.project import ROOT
from tools.try_single import ASKED_FOR_HELP, RUNNING, STARTED, STOPPED

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


def test_the_readme_has_lines_to_a_green_test_for_each_newcomer() -> None:
    assert list(green_lines(ROOT / "README.md")) == [newcomer.language for newcomer in NEWCOMERS]


def test_each_command_is_run_in_the_empty_root_or_a_reason_is_given() -> None:
    run = {line.partition(" ")[0] for line in (*RUNNING, *STOPPED)} | set(STARTED)
    assert run.isdisjoint(ASKED_FOR_HELP)
    assert run | set(ASKED_FOR_HELP) == set(TOP)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The single directory with its archives, as `make check-clients` has it, but with a core that is not compiled."""
    directory = tmp_path_factory.mktemp("single")
    _run("hatchling", "build", "--target", "wheel", "--directory", directory / "wheel")
    (wheel,) = (directory / "wheel").iterdir()
    _run("tools.single_directory", "--preset", "0", "--wheel", wheel, directory)
    if shutil.which("npm"):
        _run("tools.node_packages", directory, directory)
    return directory


def _run(module: str, *arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, check=True)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="it takes a root directory of its own")
def test_the_single_directory_works_in_a_root_with_glibc_and_nothing_else(archives: Path) -> None:
    _run("tools.try_single", "--core", "pure", archives)


@pytest.mark.slow
@pytest.mark.parametrize("newcomer", NEWCOMERS, ids=lambda newcomer: newcomer.language)
def test_a_newcomer_gets_from_nothing_to_a_green_test(newcomer: Newcomer, archives: Path) -> None:
    try:
        play(newcomer, archives, archives)
    except (NoNamespacesError, kits.NoKitError) as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_the_root_has_no_compiler_no_java_and_nothing_to_write_to_but_a_home(tmp_path: Path) -> None:
    (tmp_path / "given").write_text("a file")
    (tmp_path / "given").chmod(0o644)  # whatever the umask that other tests have left
    try:
        with bare_root(kits.python(), {"given": tmp_path / "given"}) as root:
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
