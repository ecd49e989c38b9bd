"""`python -m tools.node_packages SINGLE DIRECTORY`: pack Leveret for npm.

DIRECTORY gets the archive of `clients/node`, and that of a package for this platform with SINGLE/leveret, which
`make single` has built. npm installs the second with the first, where the platform is the same.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
CLIENT = ROOT / "clients" / "node"
PROCESSORS = {"x86_64": "x64", "aarch64": "arm64"}
"""Node's names of them."""


def main() -> None:
    """Pack both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("single", type=Path)
    parser.add_argument("directory", type=Path)
    wanted = parser.parse_args()
    directory: Path = wanted.directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    pack(CLIENT, directory)
    with tempfile.TemporaryDirectory(prefix="leveret-npm-") as scratch:
        shutil.copytree(wanted.single / "leveret", Path(scratch, "leveret"))
        shutil.copy(ROOT / "LICENSE", scratch)
        Path(scratch, "package.json").write_text(json.dumps(_manifest(), indent=2))
        pack(Path(scratch), directory)


def manifest() -> dict[str, Any]:
    """Return the package.json of the client."""
    read: dict[str, Any] = json.loads((CLIENT / "package.json").read_text())
    return read


def _manifest() -> dict[str, Any]:
    """Return the package.json of the package for this platform."""
    client, processor = manifest(), PROCESSORS[platform.machine()]
    name = f"{client['name']}-linux-{processor}"
    if client["optionalDependencies"].get(name) != client["version"]:
        raise SystemExit(f"leveret: {name} {client['version']} is none of the optional dependencies of {CLIENT}")
    return {
        "name": name,
        "version": client["version"],
        "description": f"The program of {client['name']} for Linux on {processor}, with glibc",
        "license": client["license"],
        "os": ["linux"],
        "cpu": [processor],
        "libc": ["glibc"],
        "files": ["leveret"],
    }


def pack(package: Path, directory: Path) -> Path:
    """Pack a package; the archive."""
    command = ["npm", "pack", "--silent", "--pack-destination", str(directory)]
    packed = subprocess.run(command, cwd=package, check=True, stdout=subprocess.PIPE, text=True).stdout
    archive = directory / packed.strip().splitlines()[-1]
    print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB")
    return archive


if __name__ == "__main__":
    main()
