"""Stages of a Dockerfile as root directories, made by its own COPY and RUN lines without docker; as root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import NamedTuple

from bench.newcomer import kits
from tools.try_single import in_root

CONTINUED = re.compile(r"\\\n\s*")
PASSED = {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ACTING = {"COPY", "RUN"}
TOLD = {"ARG", "ENV", "USER", "ENTRYPOINT", "CMD", "HEALTHCHECK", "VOLUME", "EXPOSE", "LABEL"}
"""Instructions that do nothing in a root directory."""


class Stage(NamedTuple):
    """A stage of a Dockerfile."""

    base: str
    """Another stage, or an image."""
    steps: list[tuple[str, str]]
    """Instructions with what follows them."""

    def last(self, instruction: str) -> str:
        """Return what follows the last instruction of this name. Raises KeyError."""
        return dict(self.steps)[instruction]

    def variables(self) -> dict[str, str]:
        """Return the environment of its processes."""
        found = {"PATH": PATH}
        for instruction, rest in self.steps:
            if instruction == "ENV":
                found |= dict(word.split("=", 1) for word in rest.split())
        return found


def read(dockerfile: Path, arguments: Mapping[str, str]) -> dict[str, Stage]:
    """Return the stages by their names, in order, with arguments of the build; the last one is `image`.

    Raises ValueError for an instruction that is not known here.
    """
    lines = [line for line in dockerfile.read_text().splitlines() if not line.startswith("#")]
    defaults, found = dict[str, str](), dict[str, Stage]()
    for line in CONTINUED.sub(" ", "\n".join(lines)).splitlines():
        instruction, _, rest = line.strip().partition(" ")
        if instruction == "FROM":
            base, _, name = Template(rest).substitute({**defaults, **arguments}).partition(" AS ")
            stage = found[name or "image"] = Stage(base, [])
        elif instruction == "ARG" and not found:
            name, _, value = rest.partition("=")
            defaults[name] = value
        elif instruction in ACTING | TOLD:
            stage.steps.append((instruction, rest))
        elif instruction:
            raise ValueError(f"{dockerfile}: {instruction} is unknown here")
    return found


class Roots:
    """Root directories of stages, each made when it is asked for."""

    def __init__(self, context: Path, stages: Mapping[str, Stage], base: Path, directory: Path) -> None:
        """`context` is what COPY copies from; `base` the root directory in the place of images; each stage gets one in
        `directory`."""
        self.context, self.stages, self.base, self.directory = context, stages, base, directory
        self.index = kits.index()

    def root(self, name: str) -> Path:
        """Return the root directory of a stage. Raises CalledProcessError when a line has failed."""
        if name not in self.stages:
            return self.base
        base, steps = self.stages[name]
        root, begun = self.directory / name, self.root(base)
        if not steps:
            return begun
        if not root.exists():
            subprocess.run(["cp", "--archive", begun, root], check=True)
            for instruction, rest in steps:
                if instruction == "COPY":
                    self._copy(root, rest.split())
                elif instruction == "RUN":
                    self._run(root, rest, self._variables(name))
        return root

    def _copy(self, root: Path, words: list[str]) -> None:
        """Copy files into a directory, and what directories contain, as docker does."""
        options = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
        *sources, place = (word for word in words if not word.startswith("--"))
        origin = self.root(options["from"]) if "from" in options else self.context
        ignored = ("__pycache__",) if origin is self.context else ()
        target = root / place.lstrip("/")
        for name in sources:
            source = origin / name.lstrip("/")
            if source.is_dir():
                ignore = shutil.ignore_patterns(*ignored)
                shutil.copytree(source, target, symlinks=True, ignore=ignore, dirs_exist_ok=True)
            else:
                file = target / source.name if place.endswith("/") else target
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, file)
        if "chown" in options:
            subprocess.run(["chown", "--recursive", options["chown"], target], check=True)

    def _run(self, root: Path, line: str, variables: Mapping[str, str]) -> None:
        binds = {str(path): path for path in self.index.paths} | {"/etc/resolv.conf": Path("/etc/resolv.conf")}
        for place, ours in binds.items():
            _place(root / place.lstrip("/"), directory=ours.is_dir())
        passed = {name: value for name, value in os.environ.items() if name.upper() in PASSED}
        command = (*in_root(root, binds, "/bin/sh"), "-euc", line)
        subprocess.run(command, env={**passed, **self.index.variables, **variables}, check=True)

    def _variables(self, name: str) -> dict[str, str]:
        """Return the environment of a stage's lines: ARG's values, too."""
        stage = self.stages[name]
        arguments = dict(f"{rest}=".split("=")[:2] for instruction, rest in stage.steps if instruction == "ARG")
        return {**stage.variables(), **arguments, "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}


def _place(path: Path, *, directory: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if directory:
        path.mkdir(exist_ok=True)
    elif not path.exists():
        path.touch()
