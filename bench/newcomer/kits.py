"""Kits of newcomers: the one language that each has, and where its packages come from."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from harness.clients.packaged_libraries import (
    GO_LIBRARIES,
    GO_MODULES,
    GO_PACKAGES,
    JARS,
    JAVA_LIBRARIES,
    JAVA_PACKAGES,
)


class Kit(NamedTuple):
    """Parts of the machine for a root directory."""

    programs: Mapping[str, Path]
    """By their names in /usr/bin; a program outside of `paths` is copied."""
    paths: tuple[Path, ...]
    """Directories and files, which are read-only there."""
    variables: Mapping[str, str]


class NoKitError(Exception):
    """The machine has not got the language, or its packages."""


def index() -> Kit:
    """Return the places in which this machine's pip finds packages, for another Python."""
    pip = _pip_settings()
    return Kit({}, tuple(path for path in _paths_in(pip.values()) if path.exists()), pip)


def python() -> Kit:
    """Python with pip, git and make. pip keeps nothing."""
    packages = index()
    programs = {"git": Path("/usr/bin/git"), "make": Path("/usr/bin/make")}
    return Kit(
        {**programs, "python3": Path(sys.base_prefix, "bin/python3").resolve()},
        (*_python_paths(), *map(Path, ("/usr/lib/git-core", "/usr/libexec/git-core")), *packages.paths),
        {"PIP_NO_CACHE_DIR": "1", **packages.variables},
    )


def _python_paths() -> list[Path]:
    """Return the places of the interpreter and its pip."""
    if sys.base_prefix != "/usr":
        return [Path(sys.base_prefix)]
    return [Path(sysconfig.get_path("stdlib")), Path("/usr/lib/python3"), Path("/usr/share/python-wheels")]


def _pip_settings() -> dict[str, str]:
    """Return this machine's settings of pip, by files and by variables, as variables."""
    lines = _printed(f"{sys.base_prefix}/bin/python3", "-m", "pip", "config", "list").splitlines()
    found = {}
    for line in lines:
        name, _, value = line.partition("=")
        found[f"PIP_{name.rpartition('.')[2].upper().replace('-', '_')}"] = str(ast.literal_eval(value))
    return found


def _paths_in(values: Iterable[str]) -> Iterator[Path]:
    """Yield paths that pip's settings name: directories in which it looks for packages, files of constraints and
    certificates. Pages of an index lead to files beside them."""
    for word in " ".join(values).split():
        path = Path(word.removeprefix("file://"))
        if path.is_absolute():
            yield path.parent if path.name == "simple" else path


def node() -> Kit:
    """Node with npm, and the registry of this machine's npm. Raises NoKitError."""
    npm = _program("npm")
    modules = next(path for path in npm.parents if path.name in ("node_modules", "nodejs"))
    registry, authorities = (_printed("npm", "config", "get", name).strip() for name in ("registry", "cafile"))
    found = {"npm_config_registry": registry, "npm_config_update_notifier": "false"}
    if authorities != "null":
        found["npm_config_cafile"] = authorities
    return Kit({"node": _program("node"), "npm": npm}, (modules,), found)


def go() -> Kit:
    """Go without a compiler for C, and the modules of Debian's packages. Raises NoKitError."""
    program = _program("go")
    if not (GO_LIBRARIES / GO_MODULES[0]).is_dir():
        raise NoKitError(f"{GO_PACKAGES} is missing")
    home = program.parents[1]
    found = {"GOPROXY": "off", "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}
    return Kit({"go": program}, (home, (home / "src").resolve().parent, GO_LIBRARIES), found)


def java() -> Kit:
    """Java with its compiler, and CLASSPATH with JUnit 5 and the library of AMQP. Raises NoKitError."""
    home = _program("javac").parents[1]
    if not all(jar.exists() for jar in JARS):
        raise NoKitError(f"{JAVA_PACKAGES} is missing")
    programs = {name: home / "bin" / name for name in ("java", "javac")}
    settings = (home / "lib" / "jvm.cfg").resolve().parent
    return Kit(programs, (home, settings, JAVA_LIBRARIES), {"CLASSPATH": os.pathsep.join(map(str, JARS))})


def _program(name: str) -> Path:
    """Return the file of a program. Raises NoKitError."""
    found = shutil.which(name)
    if found is None:
        raise NoKitError(f"{name} is missing")
    return Path(found).resolve()


def _printed(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
