"""Measure a release: every load on every broker in turn, appended to bench/figures/sittings.json.

    python -m bench.release --beside 'RabbitMQ 4.3.6=127.0.0.1:5673,PID,quorum' [--beside ...]

Without --ours a broker of this checkout is started. Each --beside is NAME=HOST:PORT,PID, and the type of its durable
queues where the default does not sync before a confirm. A round is every load in order, each on all brokers directly
one after the other; the broker that begins changes from round to round. `python -m bench.figures.figure_page` makes
the page and the picture from the file.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import shlex
import sys
from collections import defaultdict
from contextlib import ExitStack, nullcontext
from pathlib import Path

from bench.figures.measured_loads import BUSY_LOOPS, LOADS, MeasuredLoad, Peer, Run, busy_loops
from bench.figures.measured_machine import OtherPrograms, machine
from bench.figures.sittings import FILE, OURS, Broker, Runs, Sitting, append
from bench.load.measured_broker import own_broker, parse_target, report, target_of
from broker import __version__
from broker.server.start.start_line import CORE

Found = dict[str, dict[str, list[Run]]]


def main() -> None:
    """Run the sitting, and append it."""
    options = _options()
    with ExitStack() as stack:
        ours = options.ours or target_of(stack.enter_context(own_broker()))
        peers = {OURS: Peer(ours), **dict(map(named_peer, options.beside))}
        brokers = [
            Broker(
                OURS,
                " ".join(filter(None, (__version__, options.commit))),
                f"CPython {platform.python_version()}, {options.core}",
            )
        ]
        for name, peer in list(peers.items())[1:]:
            brokers.append(Broker(name, "", f"{peer.queue_type} queues" if peer.queue_type else "default settings"))
        rounds = range(options.first, options.first + options.rounds)
        found, others = measure(peers, options.loads or list(LOADS), rounds, options.seconds)
    loads = {load: {name: _columns(runs) for name, runs in by_name.items()} for load, by_name in found.items()}
    command = f"python -m bench.release {shlex.join(sys.argv[1:])}"
    append(
        Sitting(today(), command, options.seconds, machine(others), brokers, loads),
        options.file,
        into_last=options.into_last,
    )


def sitting_parser(program: str, description: str | None, rounds: int) -> argparse.ArgumentParser:
    """Return a parser of the brokers, the rounds and the seconds of each run."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--ours", type=parse_target, help="HOST:PORT,PID; a broker of this checkout by default")
    parser.add_argument(
        "--beside", action="append", default=[], help="NAME=HOST:PORT,PID[,QUEUE TYPE]; may be repeated"
    )
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run")
    return parser


def _options() -> argparse.Namespace:
    parser = sitting_parser("bench.release", __doc__, rounds=3)
    parser.add_argument("--commit", default="", help="the commit of our broker")
    parser.add_argument("--core", default=CORE, help="the core of --ours: compiled or pure; default: this one's")
    parser.add_argument("--loads", type=lambda text: text.split(","), help=f"some of {','.join(LOADS)}")
    parser.add_argument("--into-last", action="store_true", help="add the rounds to the newest sitting of the file")
    parser.add_argument("--first", type=int, default=0, help="the broker that begins in the first round, from 0")
    parser.add_argument("--file", type=Path, default=FILE)
    return parser.parse_args()


def named_peer(text: str) -> tuple[str, Peer]:
    """`NAME=HOST:PORT,PID[,QUEUE TYPE]` as a name and a broker. Raises ValueError."""
    name, _, rest = text.partition("=")
    address, pid, *queue_type = rest.split(",")
    return name, Peer(parse_target(f"{address},{pid}"), *queue_type)


def measure(peers: dict[str, Peer], loads: list[str], rounds: range, seconds: float) -> tuple[Found, float]:
    """Return the runs by load and broker, and the processors that other programs took meanwhile."""
    found: Found = {load: defaultdict(list) for load in loads}
    others: list[float] = []
    for number in rounds:
        names = list(peers)
        order = names[number % len(names) :] + names[: number % len(names)]
        for load in loads:
            with busy_loops(BUSY_LOOPS) if LOADS[load].busy else nullcontext():
                for name in order:
                    run, beside = _beside(LOADS[load], peers[name], seconds)
                    found[load][name].append(run)
                    report(load, round=number + 1, broker=name, others=beside, **run._asdict())
                    if not LOADS[load].busy:
                        others.append(beside)
    return found, round(sum(others) / max(1, len(others)), 2)


def _beside(load: MeasuredLoad, peer: Peer, seconds: float) -> tuple[Run, float]:
    """Run a load; also return the processors that programs other than the broker and the generator took."""
    others = OtherPrograms([peer.target.pid])
    return load.run(peer, seconds), others.processors()


def _columns(runs: list[Run]) -> Runs:
    return Runs(*([getattr(run, field) for run in runs] for field in Run._fields))


def today() -> str:
    """Return the date of a sitting."""
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()


if __name__ == "__main__":
    main()
