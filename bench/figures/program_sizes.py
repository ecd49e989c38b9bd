"""Sizes of the program on disk: what `pip install .` brings, and the one directory of `make single`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.load.measured_broker import Wanted, report
from harness.project import ROOT

INSTALLED, SINGLE = "installed by pip", "single directory"
BUILT = ROOT / "build" / "single"
"""Made by `make single`; without it the directory is not measured."""


def program_sizes(wanted: Wanted) -> None:
    """Report megabytes of files: with all that pip brings along, in an environment of its own; of the directory.

    Shrunk it is installed without what it requires, which an index of packages would be asked for.
    """
    with tempfile.TemporaryDirectory(prefix="leveret-size-") as scratch:
        environment, wheels = Path(scratch, "environment"), Path(scratch, "wheels")
        _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(ROOT))
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        before = _megabytes(environment)
        (wheel,) = wheels.iterdir()
        alone = ["--no-deps"] if wanted.part < 1 else []
        _pip("--python", str(environment / "bin" / "python"), "install", *alone, str(wheel))
        report(INSTALLED, mb=round(_megabytes(environment) - before, 1))
    for archive in sorted(BUILT.glob("leveret-*.tar.xz")):
        packed = archive.stat().st_size / 1e6
        report(SINGLE, packed_mb=round(packed, 1), unpacked_mb=round(_megabytes(BUILT / "leveret"), 1))


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)


def _megabytes(directory: Path) -> float:
    return sum(_sizes(directory)) / 1e6


def _sizes(directory: Path) -> Iterator[int]:
    for path in directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path.stat().st_size
