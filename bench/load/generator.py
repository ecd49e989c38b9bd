"""Runs bench/load/load.c: compiled when needed, told what to do by keywords, its one line of JSON read."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from bench.load import loadgen
from bench.load.measured_broker import Target
from harness.clients.shorthand import queue_declare, queue_delete
from harness.clients.wire_client import Client
from leveret.extras import how_to_install
from leveret.testing.power.c_compiler import compiler

BENCH = Path(__file__).parent
BUILD = BENCH.parents[1] / "build" / "bench"

Figures = dict[str, Any]


def compiled(source: str, *options: str) -> Path:
    """The program made from a C file beside this one; built when it is older than its source.

    Ends this process with a word where there is no compiler.
    """
    path, made = BENCH / source, BUILD / Path(source).stem
    if not made.exists() or made.stat().st_mtime < path.stat().st_mtime:
        if not (command := compiler()):
            raise SystemExit(f"no C compiler was found: `{how_to_install('compiler')}` brings one")
        BUILD.mkdir(parents=True, exist_ok=True)
        fresh = made.with_suffix(".new")
        subprocess.run([*command, "-O2", "-Wall", "-Wextra", *options, "-o", fresh, path], check=True)
        fresh.replace(made)
    return made


class Load:
    """A generator that is running. Keywords are load.c's options: `no_ack=True` is --no-ack, `size=16` is --size 16."""

    def __init__(self, target: Target, **options: Any) -> None:
        host, port = target.address
        command: list[str] = [str(compiled("load.c"))]
        for name, value in {"host": host, "port": port, "pid": target.pid, **options}.items():
            if value is not False:
                command.append("--" + name.replace("_", "-"))
                command += [] if value is True else [str(value)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def figures(self) -> Figures:
        """Wait for the end; what was measured. Raises CalledProcessError when the generator failed."""
        out, _ = self._process.communicate()
        if self._process.returncode:
            raise subprocess.CalledProcessError(self._process.returncode, self._process.args)
        found: Figures = json.loads(out)
        return found

    def stop(self) -> None:
        """End it now."""
        self._process.kill()
        self._process.communicate()


def run(target: Target, **options: Any) -> Figures:
    """Run the generator to its end; see `Load`."""
    return Load(target, **options).figures()


def connect(target: Target) -> Client:
    """A connection with one channel, for declarations."""
    return loadgen.connect(target.address)


def declare(client: Client, name: str, *, durable: bool = True, **arguments: Any) -> int:
    """Declare a queue; `message_ttl=100` is x-message-ttl. Returns the number of its messages."""
    table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    count: int = client.ask(queue_declare(name, durable=durable, arguments=table)).message_count
    return count


def declare_fresh(client: Client, name: str, *, durable: bool = True, **arguments: Any) -> None:
    """Delete a queue that an earlier run may have left, then declare it."""
    delete(client, name)
    declare(client, name, durable=durable, **arguments)


def delete(client: Client, *names: str) -> None:
    """Delete queues."""
    for name in names:
        client.ask(queue_delete(name))
