"""`python -m tools.try_node_packages DIRECTORY`: install the packages for npm into empty projects, and use them.

DIRECTORY has the archives that `python -m tools.node_packages` has packed. In the first project npm reaches nothing
and runs no script of a package; the second one has the test runners, and runs the client's own tests in each. The
projects' paths have blanks.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.node_packages import CLIENT, manifest
from tools.try_single import furnish, in_root

LIBRARY = re.compile(r"=> (/\S+)")
INSTALL = ("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent")
USE = """
import { Leveret } from "leveret-memory-server";
const leveret = await Leveret.start({ personality: "4.3" });
await leveret.restart();
console.log((await leveret.status()).clock !== undefined, leveret.url);
"""
TYPES = ("npx", "tsc", "--strict", "--noEmit", "--target", "es2022", "--module")
RUNS = {
    "node:test": ("node", "--test", "broker.test.js", "libraries.test.js"),
    "Jest": ("npx", "jest", "--rootDir", "runners", "--testMatch", "**/jest.spec.js"),
    "Mocha": ("npx", "mocha", "runners/mocha.spec.js"),
    "Vitest": ("npx", "vitest", "run", "runners/vitest.spec.mjs"),
    "TypeScript": (*TYPES, "nodenext", "typed.mts"),
    "TypeScript for CommonJS": (*TYPES, "commonjs", "typed_commonjs.cts"),
}


def main() -> None:
    """Ends with an error at the first thing that does not work."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    packed = sorted(map(str, parser.parse_args().directory.absolute().glob("*.tgz")))
    for attempt in (_offline, _with_runners):
        with tempfile.TemporaryDirectory(prefix="leveret project ") as project:
            Path(project, "package.json").write_text('{"private": true}')
            attempt(Path(project), packed)


def _run(project: Path, *command: str) -> str:
    """Return what a command printed, without the variables that name another Leveret. Raises SystemExit."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LEVERET_", "NODE_"))}
    ended = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"leveret: {' '.join(command)} has failed:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def _offline(project: Path, packed: list[str]) -> None:
    """Install both archives without a registry, and use them in a root with glibc, Node and the project."""
    _run(project, *INSTALL, "--offline", *packed)
    (project / "use.mjs").write_text(USE)
    with tempfile.TemporaryDirectory(prefix="leveret-node-") as scratch:
        root = Path(scratch)
        furnish(root)
        (root / "project").mkdir()
        for file in (_node(), *LIBRARY.findall(_run(project, "ldd", _node()))):
            shutil.copy(file, root / "lib64" / Path(file).name)
        printed = _run(project, *in_root(root, {"/project": project}, "/lib64/node"), "/project/use.mjs")
    if not printed.startswith("true amqp://"):
        raise SystemExit(f"leveret: printed {printed}")
    print("npm install --offline --ignore-scripts: a broker starts in a root with Node and nothing else")


def _node() -> str:
    return str(Path(shutil.which("node") or "node").resolve())


def _with_runners(project: Path, packed: list[str]) -> None:
    """Run the client's tests in an installation."""
    needed = [f"{name}@{version}" for name, version in manifest()["devDependencies"].items()]
    _run(project, *INSTALL, *packed, *needed)
    shutil.copytree(CLIENT / "test", project, dirs_exist_ok=True)
    for name, command in RUNS.items():
        _run(project, *command)
        print(f"{name}: passed")


if __name__ == "__main__":
    main()
