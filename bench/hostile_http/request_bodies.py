"""The worst bodies that each route takes: what another client's confirms wait meanwhile, and memory above idle.

The routes are those of the API's own table that read a body. Each gets bodies of the largest size of numbers, of empty
lists, of keys, of blanks and of one text; and bodies that are all right, in which one field after the other is as much
as it may be. The longest turn of the event loop is CPU time (`bench/rows/turns.py`), which other work on the machine
does not stretch, as it does the confirms.
"""

from __future__ import annotations

import http.client
import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bench.load import generator
from bench.load.measured_broker import MemoryWatch, Target, Wanted, mib, own_broker, report, target_of
from bench.rows.attacks import GOOD, named
from bench.rows.turns import longest, watched
from harness.brokers.body_routes import Route, routes_with_bodies
from harness.brokers.http_broker import ask, basic, web_address
from harness.process_figures import own_memory

CONFIRM_SECONDS = 3.0
IDLE_SECONDS = 5.0
LARGEST = (16 << 20) - 64
"""Largest body of definitions and messages."""
LARGE = (1 << 20) - 1024
"""Largest body of anything else."""
VALUES = 4500
TRIAL_BODIES = 10
"""Bodies of a route in a run that only shows that the row works."""
SOUND: dict[str, Any] = {
    "ackmode": "ack_requeue_true",
    "action": "sync",
    "apply-to": "queues",
    "arguments": {},
    "configure": "",
    "count": 1,
    "definition": {"max-length": 1000},
    "description": "",
    "encoding": "auto",
    "exchange": "amq.topic",
    "limits": {},
    "metadata": {},
    "name": "bodies",
    "offset": "first",
    "password": "guest",
    "pattern": "^none$",
    "payload": "x",
    "payload_encoding": "string",
    "permissions": {},
    "priority": 0,
    "properties": {},
    "queue_pattern": ".*",
    "read": "",
    "routing_key": "bench.bodies",
    "strategy": "all",
    "tags": "administrator",
    "to": "bodies",
    "type": "topic",
    "users": ["none"],
    "value": 1,
    "vhost_pattern": ".*",
    "write": "",
}
"""A body that some route or other finds all it needs in."""
KINDS = ("vhosts", "users", "permissions", "parameters", "policies", "queues", "exchanges", "bindings")

Body = Callable[[], bytes]


def request_bodies(wanted: Wanted) -> None:
    """A line for each route; the first is what confirms take without any of it. BODIES_ONLY names parts of paths."""
    with own_broker(serves_http=True) as broker:
        where = web_address(broker)
        node = json.loads(ask(where, "/api/overview").body)["node"]
        routes: list[Route | None] = [None, *routes_with_bodies(where, node)]
    only = named("BODIES_ONLY")
    chosen = [each for each in routes if each is None or not only or any(part in each.path for part in only)]
    whole = wanted.part >= 0.1
    lines = [_measured(wanted, route, None if whole else TRIAL_BODIES) for route in (chosen if whole else chosen[:2])]
    worst = max(lines, key=lambda line: float(line["longest_turn_ms"]))
    report("worst of all routes", **worst)


def _measured(wanted: Wanted, route: Route | None, bodies_max: int | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="leveret-turns-") as directory:
        turns = Path(directory) / "turns"
        with own_broker(serves_http=True, **watched(turns)) as broker:
            target, where = target_of(broker), web_address(broker)
            client = generator.connect(target)
            generator.declare(client, "bodies")
            generator.declare_fresh(client, "bench.good")
            client.close()
            longest(target, turns)
            before = own_memory(target.pid)
            with MemoryWatch(target.pid, 0.01) as memory, Confirms(target, wanted.seconds(CONFIRM_SECONDS)) as confirms:
                if route is None:
                    time.sleep(wanted.seconds(IDLE_SECONDS))
                answers, worst, of = _sent(where, route, bodies_max, lambda: _turn(longest(target, turns)))
    figures = {
        "route": "none" if route is None else f"{route.method} {route.path}",
        "answers": {str(status): count for status, count in sorted(answers.items())},
        "longest_turn_ms": worst,
        "of": of,
        "confirm_p99": max(found["confirm_ms"]["p99"] for found in confirms.found),
        "confirm_max": max(found["confirm_ms"]["max"] for found in confirms.found),
        "mib_more": round(mib(memory.highest) - mib(before), 1),
    }
    report("http bodies", **figures)
    return figures


class Confirms:
    """The good client of `attacks`, for some seconds again and again, in a thread: `found` is what it waited."""

    def __init__(self, target: Target, seconds: float) -> None:
        self.found: list[generator.Figures] = []
        self._target = target
        self._seconds = seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Confirms:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set() or not self.found:
            run = generator.run(self._target, key="bench.good", queue="bench.good", seconds=self._seconds, **GOOD)
            self.found.append(run)


def _turn(found: dict[str, Any]) -> float:
    return float(found["longest"][0]["ms"]) if found["longest"] else 0.0


def _sent(
    where: tuple[str, int], route: Route | None, bodies_max: int | None, longest_turn: Callable[[], float]
) -> tuple[Counter[int], float, str]:
    """Send each body; how often there was which answer, the longest turn that one took, and of which."""
    answers = Counter[int]()
    if route is None:
        return answers, longest_turn(), ""
    worst = (0.0, "")
    for name, body in islice(bodies(route), bodies_max):
        answers[_answer(where, route, body())] += 1
        worst = max(worst, (longest_turn(), name))
    return answers, *worst


def _answer(where: tuple[str, int], route: Route, body: bytes) -> int:
    """The status of the answer; 0 for none."""
    connection = http.client.HTTPConnection(*where, timeout=120)
    try:
        with suppress(BrokenPipeError, ConnectionResetError):  # refused by its length; the answer may be there
            connection.request(route.method, route.path, body, {**basic(), "content-type": "application/json"})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def bodies(route: Route) -> Iterator[tuple[str, Body]]:
    """Yield hostile bodies for a route, each made when it is its turn."""
    definitions = "definitions" in route.path or "all-configuration" in route.path
    largest = LARGEST if definitions or route.path.endswith("/publish") else LARGE
    for name, value in _unsound(largest - 128).items():
        yield name, partial(_with_value, route, value)
    if definitions:
        yield from _definitions(largest)
        return
    for field in SOUND:
        for name, value in _sound(largest - 2048).items():
            changed = {"properties": {"headers": {"x": value}}} if field == "properties" else {field: value}
            yield f"{field}: {name}", partial(_in_json, SOUND | changed)


def _unsound(size: int) -> dict[str, Body]:
    return {
        "numbers": lambda: b"[" + b"1," * (size // 2 - 2) + b"1]",
        "lists": lambda: b"[" + b"[]," * (size // 3 - 2) + b"[]]",
        "keys": lambda: b"{" + b",".join(b'"%07d":1' % number for number in range(size // 13)) + b"}",
        "blanks": lambda: b"[" + b" " * (size - 4) + b"]",
        "depth": lambda: b"[" * (size - 2),
        "escapes": lambda: b'"' + rb"\ud83d\ude00" * (size // 12 - 1) + b'"',
        "half a text": lambda: b'["' + b"x" * (size - 4),
    }


def _sound(size: int) -> dict[str, Any]:
    return {
        "text": "x" * size,
        "wide text": "\U0001f600" * (size // 4),
        "numbers": list(range(VALUES)),
        "lists": [[]] * VALUES,
        "names": {f"name-{number}": 1 for number in range(VALUES)},
        "texts": ["x" * 20] * VALUES,
    }


def _in_json(values: dict[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False).encode()


def _with_value(route: Route, value: Body) -> bytes:
    if route.path.endswith("/publish"):
        return (
            b'{"routing_key":"x","payload":"","payload_encoding":"string","properties":{"headers":{"x":%b}}}' % value()
        )
    return b'{"value":%b}' % value()


def _definitions(size: int) -> Iterator[tuple[str, Body]]:
    rows: dict[str, Any] = {
        "empty": {},
        "not there": {"name": "x", "vhost": "nowhere"},
        "alike": {"name": "bodies", "vhost": "/", "durable": True, "arguments": {}},
        "with arguments": {"name": "x", "vhost": "nowhere", "arguments": {"x": list(range(VALUES))}},
        "unknown": [],
    }
    for name, row in rows.items():
        for kind in (*KINDS, "nothing") if name in ("empty", "unknown") else ("queues",):
            yield f"{kind}: {name}", partial(_listed, kind, json.dumps(row).encode(), size)


def _listed(kind: str, row: bytes, size: int) -> bytes:
    return b'{"%b":[%b]}' % (kind.encode(), b",".join([row] * (size // (len(row) + 1) - 8)))
