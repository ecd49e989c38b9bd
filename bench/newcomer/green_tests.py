"""Newcomers with one language each, from the files of a release to a green test, by README's lines.

    python -m bench.newcomer.green_tests SINGLE [NPM]

SINGLE is the directory of `make single`, NPM that of the archives for npm. Each newcomer has a root directory with the
language, a shell and nothing else, no Python but for the one who writes Python. The applications are in `shop`, their
tests are those of README and docs/testing-applications.md. Prints a line for each.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench.newcomer import kits
from bench.newcomer.bare_root import TOOLS, bare_root, readable_by_others
from bench.newcomer.readme import green_lines, test_of
from harness.clients.packaged_libraries import replaced_modules
from harness.project import ROOT

SHOP = Path(__file__).parent / "shop"
README, PAGE = ROOT / "README.md", ROOT / "docs" / "testing-applications.md"
SECONDS_MAX = 240
BUNDLE = "leveret.bundle"


class Newcomer(NamedTuple):
    """A newcomer by the language that README names."""

    language: str
    kit: Callable[[], kits.Kit]
    page: Path
    """The page that has the test."""
    beginning: str
    """Text in its block."""
    test: str
    """File for it."""
    green: str
    """Text that the test runner prints when one test has passed."""
    before: str = ""
    """The newcomer has done this already."""


CLONED = (
    f"git -c advice.detachedHead=false clone --quiet {TOOLS}/{BUNDLE} leveret\n"
    "python3 -m venv .venv\n. .venv/bin/activate\n"
)
MODULE = (
    "go mod init orders\ngo mod edit -require=github.com/rabbitmq/amqp091-go@v1.5.0 "
    + " ".join(replaced_modules())
    + "\n"
)
NEWCOMERS = (
    Newcomer("Python", kits.python, README, "def test_", "test_orders.py", "1 passed", CLONED),
    Newcomer("Node", kits.node, README, "useLeveret", "orders.test.js", "# pass 1\n"),
    Newcomer("Go", kits.go, PAGE, "func Test", "orders_test.go", "ok  \torders", MODULE),
    Newcomer("Java", kits.java, PAGE, "@Test", "OrdersTest.java", "1 tests successful"),
)


def main() -> None:
    """Play all that this machine has the language for; exits with 1 when a line of README's failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.newcomer.green_tests", description=__doc__)
    parser.add_argument("single", type=Path)
    parser.add_argument("npm", type=Path, nargs="?")
    wanted = parser.parse_args()
    for newcomer in NEWCOMERS:
        began = time.monotonic()
        try:
            play(newcomer, wanted.single, wanted.npm)
        except kits.NoKitError as error:
            print(f"{newcomer.language}: not tried: {error}")
        except subprocess.CalledProcessError as error:
            sys.exit(f"{newcomer.language}: a newcomer came to a stop: exit code {error.returncode}\n{error.stdout}")
        else:
            print(f"{newcomer.language}: from nothing to a green test in {time.monotonic() - began:.1f} s")


def play(newcomer: Newcomer, single: Path, npm: Path | None) -> None:
    """Run README's lines. Raises CalledProcessError, NoKitError, and AssertionError when the test did not run."""
    kit = newcomer.kit()
    lines = green_lines(README)[newcomer.language]
    with tempfile.TemporaryDirectory(prefix="newcomer-project-") as scratch:
        project = Path(scratch, "project")
        with readable_by_others():
            shutil.copytree(SHOP, project)
            (project / newcomer.test).write_text(test_of(newcomer.page, newcomer.beginning))
            files = list(_files(newcomer, single, npm, Path(scratch)))
        _remove_other_languages(project, newcomer)
        tools = {"project": project, **{file.name: file for file in files}}
        archives = " ".join(f"{TOOLS}/{name}" for name in tools if name.endswith((".tgz", ".xz")))
        taken = f'cp {archives} "$PWD"\n' if archives else ""
        script = f'cd "$HOME"\ncp -r {TOOLS}/project/. .\n{taken}{newcomer.before}{lines}'
        with bare_root(kit, tools) as root:
            printed = root.run(["sh", "-euc", script], seconds=SECONDS_MAX)
    assert newcomer.green in printed, printed


def _remove_other_languages(project: Path, newcomer: Newcomer) -> None:
    """Leave the files of the newcomer's own language."""
    for path in project.iterdir():
        if path.suffix != Path(newcomer.test).suffix:
            path.unlink()


def _files(newcomer: Newcomer, single: Path, npm: Path | None, scratch: Path) -> Iterator[Path]:
    """Yield the files of a release that the newcomer has."""
    if newcomer.language == "Python":
        bundle = scratch / BUNDLE
        subprocess.run(["git", "bundle", "create", "--quiet", str(bundle), "HEAD"], cwd=ROOT, check=True)
        yield bundle
    elif newcomer.language == "Node":
        if npm is None:
            raise kits.NoKitError("the archives for npm are missing")
        yield from npm.absolute().glob("*.tgz")
    else:
        yield from single.absolute().glob("*.tar.xz")


if __name__ == "__main__":
    main()
