"""Measure what client libraries wait for, on every broker in turn, into bench/figures/client_waits.json.

    python -m bench.figures.client_waits --beside 'RabbitMQ 4.3.6=127.0.0.1:5673,PID' [--beside ...]

Without --ours a broker of this checkout is started. `python -m bench.figures.figure_page` makes the table from the
file.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import msgspec.structs

from bench.clients.client_steps import SESSIONS, Waits, uri_of, waits
from bench.figures.measured_machine import OtherPrograms, machine
from bench.figures.sittings import OURS, Machine
from bench.load.measured_broker import Target, own_broker, parse_target, report, target_of
from bench.release import named_peer, today
from broker.server.start.start_line import CORE

FILE = Path(__file__).parent / "client_waits.json"
NOTED_MS = 2.0
"""A step of ours that takes longer, and longer than with any other broker, is in bold."""


class ClientSitting(msgspec.Struct, frozen=True):
    """One sitting of all clients: medians of `sessions` in each of `rounds`, in milliseconds."""

    date: str
    command: str
    commit: str
    core: str
    sessions: int
    rounds: int
    machine: Machine
    brokers: list[str]
    clients: list[Waits]


def main() -> None:
    """Run the sitting, and write the file."""
    options = _options()
    with ExitStack() as stack:
        targets = {OURS: options.ours or target_of(stack.enter_context(own_broker()))}
        targets |= {name: peer.target for name, peer in map(named_peer, options.beside)}
        others = OtherPrograms([target.pid for target in targets.values()])
        found = list(_measured(targets, options))
        sitting = ClientSitting(
            today(),
            f"python -m bench.figures.client_waits {shlex.join(sys.argv[1:])}",
            options.commit,
            options.core,
            options.sessions,
            options.rounds,
            machine(others.processors()),
            list(targets),
            found,
        )
    options.file.write_text(json.dumps(msgspec.to_builtins(sitting), indent=1) + "\n", encoding="utf-8")


def _measured(targets: dict[str, Target], options: argparse.Namespace) -> Iterator[Waits]:
    uris = {name: uri_of(target.address) for name, target in targets.items()}
    for found in waits(uris, options.sessions, options.rounds, options.clients):
        if isinstance(found, Waits):
            report("client_waits", **msgspec.structs.asdict(found))
            yield found
        else:
            report("client_waits", left_out=found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.figures.client_waits",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--ours", type=parse_target, help="HOST:PORT,PID; a broker of this checkout by default")
    parser.add_argument("--beside", action="append", default=[], help="NAME=HOST:PORT,PID; may be repeated")
    parser.add_argument("--commit", default="", help="the commit of our broker")
    parser.add_argument("--core", default=CORE, help="the core of --ours: compiled or pure; default: this one's")
    parser.add_argument("--clients", type=lambda text: text.split(","), default=[], help="some clients; default: all")
    parser.add_argument("--sessions", type=int, default=SESSIONS, help="of a client in a round, on each broker")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--file", type=Path, default=FILE)
    return parser.parse_args()


def read(file: Path = FILE) -> ClientSitting:
    """Return the sitting of the file."""
    return msgspec.json.decode(file.read_bytes(), type=ClientSitting)


def client_section(sitting: ClientSitting) -> Iterator[str]:
    """Yield the section of the page: the facts, and a table for all clients."""
    steps = list(dict.fromkeys(step for client in sitting.clients for step in client.medians[OURS]))
    yield "## Client libraries"
    yield ""
    yield (
        f"{sitting.date}, Leveret {sitting.commit}, {sitting.core}, {sitting.machine.processors} processors of which"
        f" other programs took {sitting.machine.others:g}."
    )
    yield (
        f"Milliseconds of each step with the client's defaults, medians of {sitting.rounds * sitting.sessions}"
        f" sessions, by broker: {', '.join(sitting.brokers)}."
    )
    yield f"In bold: above {NOTED_MS:g} ms here, and longer than with each of the others."
    yield ""
    yield _row(["client", *steps])
    yield _row(["---"] * (1 + len(steps)))
    for client in sitting.clients:
        yield _row([f"{client.client} {client.version}", *(_cell(client, step, sitting.brokers) for step in steps)])


def _cell(client: Waits, step: str, brokers: Sequence[str]) -> str:
    """Return the medians of a step by broker; empty where the client does not take it."""
    values = [client.medians[broker].get(step) for broker in brokers]
    shown = ["" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}" for value in values]
    ours, *others = (value or 0.0 for value in values)
    if ours > max([NOTED_MS, *others]):
        shown[0] = f"**{shown[0]}**"
    return ", ".join(shown) if any(shown) else ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
