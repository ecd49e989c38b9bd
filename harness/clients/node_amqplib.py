"""Node with its libraries for AMQP, installed by npm into pytest's cache, beside the client of this checkout."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.project import ROOT

NEEDED = json.loads((ROOT / "clients/node/package.json").read_text())["devDependencies"]
LIBRARIES = [f"{name}@{NEEDED[name]}" for name in ("amqplib", "amqp-connection-manager", "rascal")]
SECONDS_MAX = 60

needs_node = pytest.mark.skipif(
    shutil.which("node") is None or shutil.which("npm") is None, reason="node or npm is missing"
)


def node_environment(config: pytest.Config, temporary: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which node finds them, installed once into the cache; without a cache, each time."""
    cache: pytest.Cache | None = getattr(config, "cache", None)
    name = "-".join(LIBRARIES).replace("@", "-")
    directory = temporary.mktemp("amqplib") if cache is None else cache.mkdir(name)
    modules = directory / "node_modules"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes share the cache
        _install(directory, modules)
    return {**os.environ, "NODE_PATH": str(modules)}


def _install(directory: Path, modules: Path) -> None:
    if not all((modules / library.rpartition("@")[0]).is_dir() for library in LIBRARIES):
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(directory), *LIBRARIES]
        subprocess.run(command, check=True, capture_output=True, timeout=SECONDS_MAX)
    client = modules / "leveret-memory-server"
    if not client.is_symlink():
        client.symlink_to(ROOT / "clients/node")
