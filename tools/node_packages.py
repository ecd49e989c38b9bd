"""`python -m tools.node_packages [--for-registry] SINGLE DIRECTORY`: pack Leveret for npm.

DIRECTORY gets the archive of `clients/node`, and that of a package for this platform with SINGLE/leveret, which
`make single` has built. npm installs the second with the first, where the platform is the same. The first one names no
package of another platform, for which npm would ask the registry, unless it is for the registry.
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
    parser.add_argument("--for-registry", action="store_true", help="name the packages of all platforms")
    parser.add_argument("single", type=Path)
    parser.add_argument("directory", type=Path)
    wanted = parser.parse_args()
    directory: Path = wanted.directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    pack_client(directory, every_platform=wanted.for_registry)
    with tempfile.TemporaryDirectory(prefix="leveret-npm-") as scratch:
        shutil.copytree(wanted.single / "leveret", Path(scratch, "leveret"), ignore=shutil.ignore_patterns("clients"))
        shutil.copy(ROOT / "LICENSE", scratch)
        Path(scratch, "package.json").write_text(json.dumps(_manifest(), indent=2))
        pack(Path(scratch), directory)


def pack_client(directory: Path, *, every_platform: bool) -> Path:
    """Pack `clients/node`; the archive."""
    described, platforms = manifest(), "optionalDependencies"
    if not every_platform:
        described[platforms] = {_platform_package(): described["version"]}
    with tempfile.TemporaryDirectory(prefix="leveret-npm-") as scratch:
        package = Path(scratch, "client")
        shutil.copytree(CLIENT, package, ignore=shutil.ignore_patterns("node_modules"))
        (package / "package.json").write_text(json.dumps(described, indent=2))
        return pack(package, directory)


def manifest() -> dict[str, Any]:
    """Return the package.json of the client."""
    read: dict[str, Any] = json.loads((CLIENT / "package.json").read_text())
    return read


def _manifest() -> dict[str, Any]:
    """Return the package.json of the package for this platform."""
    client, processor, name = manifest(), PROCESSORS[platform.machine()], _platform_package()
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


def _platform_package() -> str:
    return f"{manifest()['name']}-linux-{PROCESSORS[platform.machine()]}"


def pack(package: Path, directory: Path) -> Path:
    """Pack a package; the archive."""
    command = ["npm", "pack", "--silent", "--pack-destination", str(directory)]
    packed = subprocess.run(command, cwd=package, check=True, stdout=subprocess.PIPE, text=True).stdout
    archive = directory / packed.strip().splitlines()[-1]
    print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB")
    return archive


if __name__ == "__main__":
    main()
