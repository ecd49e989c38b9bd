"""The newcomer's work, in the root directory that is made for it: README's commands, and how long they took.

`python3 -m bench.newcomer.first_contact SOURCE` clones SOURCE into an empty home, and prints seconds as a line of JSON.
Needs nothing but Python. A command that fails, or prints anything but what README shows, ends it with that command's
output.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.newcomer.readme import Readme, read

CHECKOUT, APPLICATION, ENVIRONMENT = (Path.home() / name for name in ("leveret", "application", "environment"))
SECONDS = 120
STOP_SECONDS = 20
READY = "leveret ready:"


def run(command: str, directory: Path) -> str:
    """Return the output of a shell command, to its end. Raises SystemExit with it when the command fails."""
    done = subprocess.run(
        command, shell=True, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


@contextmanager
def running(command: str, directory: Path, says: str) -> Iterator[str]:
    """A program that runs until this is left; what it had printed when it had printed `says`. Raises SystemExit."""
    log = Path.home() / f"{Path(command.split()[0]).name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(["sh", "-c", f"exec {command}"], cwd=directory, stdout=output, stderr=output)
    until = time.monotonic() + SECONDS
    while says not in (printed := log.read_text(errors="replace")):
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"{command}: did not print {says!r}\n{printed}")
        time.sleep(0.01)
    yield printed
    process.send_signal(signal.SIGTERM)
    process.wait(STOP_SECONDS)


def expect(printed: str, shown: str) -> None:
    """Hold what was printed to what README shows; numbers may be others. Raises SystemExit."""
    if _without_numbers(shown) not in _without_numbers(printed):
        raise SystemExit(f"README shows:\n{shown}\nand this was printed:\n{printed}")


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+(\.\d+)*", "0", text)


def from_a_checkout(source: str) -> dict[str, float]:
    """Seconds since the clone began: to the ready line, to the first messages, to the first result of Celery."""
    began, took = time.monotonic(), dict[str, float]()

    def done(what: str) -> None:
        took[what] = time.monotonic() - began

    run(f"git clone --quiet {source} {CHECKOUT}", Path.home())
    readme = read(CHECKOUT / "README.md")
    with running(readme.run, CHECKOUT, READY) as printed:
        done("ready_s")
        expect(printed, readme.ready)
        *commands, bench = (line.replace("leveret", readme.program, 1) for line in readme.first_message)
        expect("".join(run(command, CHECKOUT) for command in commands), readme.first_output)
        done("first_message_s")
        first_program(readme)
        done("first_message_of_a_program_s")
        celery_task(readme)
        done("celery_result_s")
        run(bench, CHECKOUT)
    return took


def first_program(readme: Readme) -> None:
    """The program with pika, in an environment of its own."""
    APPLICATION.mkdir()
    run("python3 -m venv .venv", APPLICATION)
    run(f".venv/bin/{readme.install_pika}", APPLICATION)
    (APPLICATION / "first.py").write_text(readme.with_pika)
    expect(run(".venv/bin/python first.py", APPLICATION), "b'hello'\n")


def celery_task(readme: Readme) -> None:
    """The task, its worker, and a result."""
    run(f".venv/bin/{readme.install_celery}", APPLICATION)
    (APPLICATION / "tasks.py").write_text(readme.with_celery)
    with running(f".venv/bin/{readme.worker}", APPLICATION, "[queues]"):
        expect(run(f".venv/bin/{readme.ask_worker}", APPLICATION), "5\n")


def by_pip() -> dict[str, float]:
    """Seconds since pip began to install the checkout: to the ready line."""
    readme = read(CHECKOUT / "README.md")
    run(f"python3 -m venv {ENVIRONMENT}", Path.home())
    began = time.monotonic()
    run(f"{ENVIRONMENT}/bin/{readme.install}", CHECKOUT)
    with running(f"{ENVIRONMENT}/bin/{readme.serve}", Path.home(), READY) as printed:
        took = time.monotonic() - began
        expect(printed, readme.ready)
    return {"ready_by_pip_s": took}


if __name__ == "__main__":
    seconds = from_a_checkout(sys.argv[1]) | by_pip()
    print(json.dumps({name: round(value, 1) for name, value in seconds.items()}))
