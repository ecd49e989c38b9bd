"""Node with its amqplib, installed by npm into pytest's cache."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

VERSION = "2.3.1"
SECONDS_MAX = 60

needs_node = pytest.mark.skipif(
    shutil.which("node") is None or shutil.which("npm") is None, reason="node or npm is missing"
)


def node_environment(config: pytest.Config, temporary: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which node finds amqplib, installed once into the cache; without a cache, each time."""
    cache: pytest.Cache | None = getattr(config, "cache", None)
    directory = temporary.mktemp("amqplib") if cache is None else cache.mkdir(f"amqplib-{VERSION}")
    modules = directory / "node_modules"
    if not (modules / "amqplib").is_dir():
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(directory), f"amqplib@{VERSION}"]
        subprocess.run(command, check=True, capture_output=True, timeout=SECONDS_MAX)
    return {**os.environ, "NODE_PATH": str(modules)}
