"""Waits of a newcomer: README's own commands, from a clone to a broker, a first message and a Celery result.

    python -m bench.newcomer [--minutes 1]

As a new user with an empty home, in a root directory with a Python, git, make and a shell, without compiler, headers
and Java. pip keeps nothing, and finds its packages where this machine's does. Port 5672 has to be free, and the process
has to be root, or be allowed namespaces. Prints a line of JSON for each round, and at the end the slowest of each.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.newcomer import kits
from bench.newcomer.bare_root import TOOLS, NoNamespacesError, bare_root
from harness.project import ROOT
from harness.waiting import begun_within

PACKAGE = "bench/newcomer"
SOURCE = "leveret.bundle"
STEPS = ("python3", "-m", "bench.newcomer.first_contact", str(TOOLS / SOURCE))
SECONDS = 900
PORT = 5672


def main() -> None:
    """Run the rounds; exits with 1 when a command of README's failed, or when it cannot be tried here."""
    parser = argparse.ArgumentParser(prog="python -m bench.newcomer", description=__doc__)
    parser.add_argument("--minutes", type=float, default=0, help="rounds begun within this time, instead of --rounds")
    minutes = parser.parse_args().minutes
    with socket.socket() as taken:
        if not taken.connect_ex(("127.0.0.1", PORT)):
            sys.exit(f"not tried: README's commands use port {PORT}, and something listens on it")
    try:
        rounds = [play() for _ in begun_within(minutes)]
    except NoNamespacesError as error:
        sys.exit(f"not tried: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"a newcomer came to a stop: exit code {error.returncode}")
    worst = ", ".join(f"{name} {max(took[name] for took in rounds):g}" for name in rounds[0])
    print(f"rounds: {len(rounds)}; at worst: {worst}")


def play() -> dict[str, float]:
    """One round: seconds by what was waited for."""
    with tempfile.TemporaryDirectory(prefix="newcomer-source-") as directory:
        bundle = Path(directory) / SOURCE
        subprocess.run(["git", "bundle", "create", "--quiet", str(bundle), "HEAD"], cwd=ROOT, check=True)
        with bare_root(kits.python(), {PACKAGE: ROOT / PACKAGE, SOURCE: bundle}) as root:
            line = root.run(STEPS, seconds=SECONDS)
    print(line, end="", flush=True)
    took: dict[str, float] = json.loads(line)
    return took


if __name__ == "__main__":
    main()
