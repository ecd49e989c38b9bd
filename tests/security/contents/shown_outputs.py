"""Hostile contents as the broker and its commands show them: to programs that read it, and on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

from prometheus_client.parser import text_string_to_metric_families

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.copied_commands import run_bytes
from harness.brokers.http_broker import ask, web_address
from harness.brokers.recording_broker import events_of
from harness.project import ROOT
from leveret_spark.events.event_columns import Event
from tests.security.contents.hostile_texts import MARK
from tests.security.contents.hostile_topology import readable
from tests.security.contents.kept_messages import CLASSIC, Place, shown

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters that begin a line or command a terminal, but for the line feed that ends each line."""
TERMINAL_FORMS = re.compile(r"\x1b\[[01]m|\x1b\([0B]|\t")
"""Bold text, lines around tables, columns."""
TEXT_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z \[(debug|info|warning|error|critical)\] \S")
LISTED = (
    *(
        "overview",
        "nodes",
        "connections",
        "channels",
        "consumers",
        "queues",
        "exchanges",
        "bindings",
        "users",
        "vhosts",
    ),
    *("permissions", "topic-permissions", "policies", "parameters", "global-parameters", "definitions", "vhost-limits"),
)
METRICS = ("", "/per-object", "/detailed?family=queue_coarse_metrics&family=exchange_bindings&family=vhost_status")


def log_problems(text: str, form: str) -> list[str]:
    """Each line is an event of its own: none begins with what a client said, none commands a terminal."""
    problems = []
    for line in text.split("\n"):
        if not line:
            continue
        if CONTROL.search(line) is not None:
            problems.append(f"a line of the log has control characters: {line[:300]!a}")
        elif form == "json" and not _is_object(line):
            problems.append(f"a line of the log is no JSON object: {line[:300]!a}")
        elif form == "text" and not TEXT_LINE.match(line):
            problems.append(f"a line of the log does not begin as one: {line[:300]!a}")
        elif "Traceback" in line:
            problems.append(f"the log has a traceback: {line[:300]!a}")
    whole = re.compile(rf"Z \[error\] {MARK}|Z\", \"level\": \"error\", \"logger\": \"leveret\", \"message\": \"{MARK}")
    problems += [f"a line was forged: {line[:300]!a}" for line in text.split("\n") if whole.match(line[23:])]
    return problems


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


class RepeatedNameError(ValueError):
    """A JSON object that has a name twice."""


def strict_json(text: bytes | str) -> Any:
    """Parse JSON as a strict reader does. Raises ValueError."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise RepeatedNameError(f"repeated: {Counter(name for name, _ in pairs).most_common(1)}")
        return found

    return json.loads(text, object_pairs_hook=once)


def metric_problems(broker: BrokerProcess, places: Sequence[Place]) -> list[str]:
    """Metrics parse, no sample is made of a name, and each queue has its own."""
    problems = []
    for path in METRICS:
        reply = ask(web_address(broker, "metrics"), f"/metrics{path}", user=None)
        try:
            families = list(text_string_to_metric_families(reply.body.decode()))
        except ValueError as error:
            problems.append(f"/metrics{path} cannot be parsed: {error!a}")
            continue
        forged = MARK.replace("-", "_")
        problems += [
            f"/metrics{path} has a family made of a name: {each.name!a}" for each in families if forged in each.name
        ]
        if path == "/per-object":
            labels = {
                (sample.labels["vhost"], sample.labels["queue"])
                for each in families
                for sample in each.samples
                if sample.name == "rabbitmq_queue_messages"
            }
            wanted = {(place.vhost, place.queue) for place in places if readable(place)}
            problems += [f"/metrics{path} lacks queue {each!a}" for each in sorted(wanted - labels)]
    return problems


def api_problems(broker: BrokerProcess, places: Sequence[Place]) -> list[str]:
    """Every answer parses, names are what they are, and a message that is looked at is the first one."""
    problems, address = [], web_address(broker)
    for name in LISTED:
        reply = ask(address, f"/api/{name}")
        try:
            rows = strict_json(reply.body)
        except ValueError as error:
            problems.append(f"/api/{name} cannot be parsed: {error!a}")
            continue
        if reply.status != 200 or "json" not in reply.headers.get("content-type", ""):
            problems.append(f"/api/{name}: {reply.status} {reply.headers.get('content-type')}")
        if name == "queues":
            listed = Counter((row["vhost"], row["name"]) for row in rows)
            wanted = {(place.vhost, place.queue) for place in places if readable(place)}
            problems += [f"/api/queues lists {listed[each]} times {each!a}" for each in wanted if listed[each] != 1]
    for place in places:
        if readable(place):
            problems += _one_queue(address, place)
            problems += _looked_at(address, place)
            problems += _first_message(address, place)
    return problems


def _one_queue(address: tuple[str, int], place: Place) -> Iterator[str]:
    reply = ask(address, f"/api/queues/{quote(place.vhost, safe='')}/{quote(place.queue, safe='')}")
    try:
        row = strict_json(reply.body)
        if (row["vhost"], row["name"]) != (place.vhost, place.queue):
            yield f"queue {place.queue!a} is shown as {row['name']!a}"
    except (ValueError, KeyError) as error:
        yield f"queue {place.queue!a}: {reply.status} {type(error).__name__} {shown(reply.body)}"


def _looked_at(address: tuple[str, int], place: Place) -> Iterator[str]:
    """Have the API look at all messages, which stay as they are."""
    if place.kept_out or place.uncertain:
        return
    path = f"/api/queues/{quote(place.vhost, safe='')}/{quote(place.queue, safe='')}/peek"
    reply = ask(address, f"{path}?count=1000&encoding=base64&truncate=1000")
    try:
        rows = strict_json(reply.body)["messages"]
        read = [(b64decode(row["payload"]), row["exchange"], row["routing_key"]) for row in rows]
    except (ValueError, KeyError) as error:
        yield f"queue {place.queue!a}, looked at: {reply.status} {type(error).__name__} {shown(reply.body)}"
        return
    expected = [(sent.body[:1000], sent.exchange, sent.key) for sent in place.held[: len(read)]]
    if read != expected or (len(read) < len(place.held) and len(read) < 1000 and len(reply.body) < 1 << 20):
        yield f"a look into {place.queue!a} shows {len(read)} messages, which are not the {len(place.held)} sent"


def _first_message(address: tuple[str, int], place: Place) -> Iterator[str]:
    """Have the API take the first message and give it back; a quorum queue would have it at its end then."""
    if not place.held or place.kind != CLASSIC or place.kept_out:
        return
    path = f"/api/queues/{quote(place.vhost, safe='')}/{quote(place.queue, safe='')}/get"
    wanted = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "base64"}
    reply = ask(address, path, method="POST", body=json.dumps(wanted).encode())
    place.delivered = max(1, place.delivered)
    sent = place.held[0]
    try:
        (row,) = strict_json(reply.body)
        read = (b64decode(row["payload"]), row["exchange"], row["routing_key"])
    except (ValueError, KeyError) as error:
        yield f"queue {place.queue!a}, taken by HTTP: {reply.status} {type(error).__name__} {shown(reply.body)}"
        return
    if read != (sent.body, sent.exchange, sent.key):
        yield f"queue {place.queue!a}: taken by HTTP: {shown(read[0])} by {read[1:]!a}, expected {sent}"


def definitions(broker: BrokerProcess) -> dict[str, list[str]]:
    """Return the API's export, each section sorted: equal before a restart and after."""
    exported = strict_json(ask(web_address(broker), "/api/definitions").body)
    return {
        name: sorted(json.dumps(row, sort_keys=True) for row in rows)
        for name, rows in exported.items()
        if isinstance(rows, list)
    }


def definition_problems(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    """Return changes by a restart."""
    problems = []
    for name in sorted({*before, *after}):
        was, now = set(before.get(name, ())), set(after.get(name, ()))
        problems += [f"definitions, {name}: gone in a restart: {row[:300]!a}" for row in sorted(was - now)]
        problems += [f"definitions, {name}: made by a restart: {row[:300]!a}" for row in sorted(now - was)]
    return problems


# Commands


def command(directory: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command of `leveret`."""
    return run_bytes(*arguments, environment={**os.environ, "LEVERET_DATA_DIR": str(directory), "COLUMNS": "200"})


def on_terminal(directory: Path, *arguments: str) -> str:
    """Return a command's output on a terminal: standard output and standard error together."""
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "broker", *arguments],
            cwd=ROOT,
            env={**os.environ, "LEVERET_DATA_DIR": str(directory)},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        ):
            os.close(theirs)
            shown = bytearray()
            with suppress(OSError):  # it has ended, and its terminal with it
                while data := os.read(ours, 1 << 16):
                    shown += data
    finally:
        os.close(ours)
    return shown.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def terminal_problems(directory: Path, *arguments: str) -> list[str]:
    """A command that shows names as they are to programs shows no terminal what could command it."""
    lines = TERMINAL_FORMS.sub("", on_terminal(directory, *arguments)).split("\n")
    return [f"{' '.join(arguments)} showed a terminal {line[:200]!a}" for line in lines if CONTROL.search(line)][:3]


def printed_problems(directory: Path, *arguments: str, code: int = 0) -> list[str]:
    """Return problems of a command's output, which has its own line feeds alone, and of its exit code."""
    done = command(directory, *arguments)
    words = " ".join(arguments)
    problems = [] if done.returncode == code else [f"{words} ended with {done.returncode}: {done.stderr[-500:]!r}"]
    for name, stream in (("printed", done.stdout), ("complained", done.stderr)):
        text = stream.decode("utf-8", "surrogateescape")
        problems += [f"{words} {name} {line[:200]!a}" for line in text.split("\n") if CONTROL.search(line)][:3]
    return problems


def inspected_problems(directory: Path, places: Sequence[Place]) -> list[str]:
    """`leveret inspect` of a stopped broker: a row for each message, with what was sent, in the order of the queue."""
    done = command(directory, "inspect", "--format", "json", "--bodies")
    if done.returncode:
        return [f"inspect ended with {done.returncode}: {done.stderr[-500:]!r}"]
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in done.stdout.split(b"\n"):
        if line:
            row = strict_json(line)
            if row["kind"] == "message":
                rows.setdefault((row["vhost"], row["queue"]), []).append(row)
    wanted = {(plain(place.vhost), plain(place.queue)): place for place in places}
    problems = [f"inspect has messages of {name!a}" for name in rows if name not in wanted]
    for name, place in wanted.items():
        found = sorted(rows.get(name, []), key=lambda row: row["position"])
        expected = [(sent.body, plain(sent.exchange), plain(sent.key)) for sent in place.held]
        read = [(b64decode(row["body"]), row["exchange"], row["routing_key"]) for row in found]
        if read != expected:
            problems.append(f"inspect shows {len(read)} messages in {name!a}, which are not the {len(expected)} sent")
    return problems


def plain(name: str) -> str:
    """A name as text: bytes that are no UTF-8 are written as they are in Python."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


# The event log


def event_problems(broker: BrokerProcess, places: Sequence[Place]) -> list[str]:
    """The log of a stopped broker has each message that came into a queue once, under the queue's name."""
    return _counted(events_of(broker), places)


def _counted(events: Iterable[Event], places: Sequence[Place]) -> list[str]:
    routed = Counter((event.vhost, event.queue) for event in events if event.kind == "route")
    problems = []
    for place in places:
        count = routed.pop((plain(place.vhost), plain(place.queue)), 0)
        if not place.came <= count <= place.published:
            told = f"{place.came} came, of {place.published} published"
            problems.append(f"the event log has {count} messages in {place.queue!a}: {told}")
    return problems + [f"the event log has {count} messages in {name!a}" for name, count in routed.items()]


class _Elements(HTMLParser):
    """Elements that a page must not have."""

    def __init__(self) -> None:
        super().__init__()
        self.hostile: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if names.get("id") == MARK or "onerror" in names or "onload" in names:
            self.hostile.append(self.get_starttag_text() or tag)


def page_problems(page: str) -> list[str]:
    """No name has become an element."""
    elements = _Elements()
    elements.feed(page)
    return [f"the page has an element made of a name: {each!a}" for each in elements.hostile]


def report_problems(directory: Path, out: Path) -> list[str]:
    """The audit of the event log ends clean, and neither its words nor its report are commanded by names."""
    events = str(directory / "events")
    problems = printed_problems(
        directory, "pipeline", "audit", "--from", events, "--out", str(out), "--engine", "local"
    )
    report = out / "report.html"
    return [
        *problems,
        *(page_problems(report.read_text(encoding="utf-8")) if report.exists() else ["there is no report"]),
    ]
