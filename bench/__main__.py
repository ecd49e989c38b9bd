"""Measure by rows: `python -m bench ROW...`, one line of JSON for each figure.

Without --target a broker of this checkout is started for each row, on a data directory of its own. With
`--target HOST:PORT,PID` another broker is measured, as far as the row needs no restart. `--part 0.01` shrinks sizes
and times, to see that a row works.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from bench.clients.client_steps import clients
from bench.clients.health_check_costs import health_checks
from bench.figures.core_parts import cores
from bench.figures.program_sizes import program_sizes
from bench.hostile_http.query_strings import query_strings
from bench.hostile_http.request_bodies import request_bodies
from bench.hostile_http.unread_answers import unread_answers
from bench.load.measured_broker import Wanted, parse_target, report
from bench.management_reads import management
from bench.masses import masses
from bench.memory_alarm import memory_alarm
from bench.rows.attacks import attacks
from bench.rows.binding_counts import routing
from bench.rows.connections import connection_churn, connections
from bench.rows.declares import declares
from bench.rows.deep_queue import backlog, unacknowledged
from bench.rows.downloads import downloads
from bench.rows.event_log_cost import events
from bench.rows.idle import idle_connections
from bench.rows.many_queues import many_queues
from bench.rows.purges import purges
from bench.rows.rates import rates
from bench.rows.restarts import restarts, starts
from bench.rows.steps import steps
from bench.rows.tls import tls
from bench.rows.turns import turns
from bench.shipping_cost import shipping
from bench.soak.soak import soak
from bench.waiting_client import definitions

ROWS: dict[str, Callable[[Wanted], None]] = {
    "rates": rates,
    "backlog": backlog,
    "unacked": unacknowledged,
    "restarts": restarts,
    "purges": purges,
    "masses": masses,
    "memory-alarm": memory_alarm,
    "starts": starts,
    "idle": idle_connections,
    "declares": declares,
    "definitions": definitions,
    "many-queues": many_queues,
    "routing": routing,
    "tls": tls,
    "downloads": downloads,
    "events": events,
    "shipping": shipping,
    "steps": steps,
    "soak": soak,
    "management": management,
    "http-bodies": request_bodies,
    "http-queries": query_strings,
    "http-unread": unread_answers,
    "attacks": attacks,
    "turns": turns,
    "clients": clients,
    "health-checks": health_checks,
    "cores": cores,
    "program-sizes": program_sizes,
    "connections": connections,
    "connection-churn": connection_churn,
}
OWN = {
    "restarts",
    "starts",
    "tls",
    "downloads",
    "events",
    "shipping",
    "steps",
    "soak",
    "turns",
    "masses",
    "memory-alarm",
    "management",
    "http-bodies",
    "http-queries",
    "http-unread",
    "health-checks",
    "program-sizes",
}
"""Rows that start brokers, or parts of one, themselves, or need none."""
LONG = {
    *("management", "soak", "attacks", "turns", "masses", "memory-alarm", "connections", "connection-churn"),
    *("http-bodies", "http-queries", "http-unread", "clients", "health-checks", "cores", "shipping"),
    "program-sizes",
}
"""Rows that take from a quarter of an hour up, and run only when they are named."""


def main() -> None:
    """Run the rows that were asked for; all but the long ones by default."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--target", type=parse_target, help="HOST:PORT,PID of a broker to measure instead of one's own")
    parser.add_argument("--part", type=float, default=1.0, help="part of the sizes and times")
    options = parser.parse_args()
    rows = options.rows or [row for row in ROWS if row not in LONG]
    for row in rows:
        if row not in ROWS:
            parser.error(f"no such row: {row}")
        if options.target and row in OWN:
            parser.error(f"{row} starts its own broker")
    for row in rows:
        started = time.monotonic()
        ROWS[row](Wanted(options.target, options.part))
        report("took", what=row, seconds=round(time.monotonic() - started, 1))


if __name__ == "__main__":
    main()
