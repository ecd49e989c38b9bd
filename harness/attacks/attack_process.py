"""One attack in a process of its own, until its input ends: `python -m harness.attacks.attack_process HOST:PORT NAME`.

Prints a line when it has begun. `--size 0.1` makes an attack a tenth as large.
"""

from __future__ import annotations

import argparse
import sys
import threading

from harness.attacks.attack_catalogue import ATTACKS
from harness.process_figures import allow_open_files


def main() -> None:
    """Strike until nobody holds the other end of standard input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("name", choices=ATTACKS)
    parser.add_argument("--size", type=float, default=1.0)
    options = parser.parse_args()
    host, _, port = options.address.rpartition(":")
    allow_open_files()
    attack = ATTACKS[options.name]((host, int(port)), options.size)
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
    attack.attempt()
    print("begun", flush=True)
    while not stopped.is_set():
        attack.attempt()
        stopped.wait(0.0005)
    print(attack.rounds, flush=True)


if __name__ == "__main__":
    main()
