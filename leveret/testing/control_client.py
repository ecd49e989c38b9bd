"""A client of test requests (docs/testing-with-leveret.md), over HTTP, with nothing but the standard library."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

from leveret.testing.testing_errors import LeveretError, NotMetError

Event = dict[str, Any]
"""An event, with the fields of docs/testing-with-leveret.md: `id`, `event`, `at` and so on."""

__tracebackhide__ = True
"""pytest shows the line of the test that called, not ours."""

ANSWER_SECONDS = 30.0
"""Time limit of a request that waits for nothing."""
WAIT_SECONDS = 5.0


class Control:
    """Sends test requests to a broker with `[testing] enabled = true`.

    Each call returns when the request is carried out. It may be made from any thread, several at a time; in asyncio and
    trio tests calls that wait belong into a thread: `await asyncio.to_thread(control.wait_until_idle)`.
    All raise LeveretError if the broker does not answer or refuses.
    """

    def __init__(self, http_url: str = "http://guest:guest@127.0.0.1:15672") -> None:
        """`http_url` is the URL of the management API, with name and password of an administrator."""
        self.http_url = http_url
        self.clock = Clock(self)

    def order(self, method: str, path: str, /, *, answer_seconds: float = ANSWER_SECONDS, **arguments: Any) -> Any:
        """Send any request, `order("POST", "clock/step", seconds=60)`, and return its answer.

        Arguments that are None are left out. Raises NotMetError if an expectation was not met in time.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        query = f"?{urlencode(given)}" if method == "GET" and given else ""
        body = json.dumps(given) if given and not query else None
        place = f"/api/testing/{path}".rstrip("/") + query
        status, answer = self._ask(method, place, body, answer_seconds)
        if status < 400:
            return answer
        reason = answer.get("reason", answer) if isinstance(answer, dict) else answer
        if status == 409:
            raise NotMetError(reason)
        raise LeveretError(f"{method} {place}: {status}: {reason}")

    def _ask(self, method: str, place: str, body: str | None, seconds: float) -> tuple[int, Any]:
        where = urlsplit(self.http_url)
        login = f"{unquote(where.username or 'guest')}:{unquote(where.password or 'guest')}"
        headers = {"Authorization": f"Basic {b64encode(login.encode()).decode()}", "Content-Type": "application/json"}
        connection = HTTPConnection(where.hostname or "127.0.0.1", where.port or 15672, timeout=seconds)
        try:
            connection.request(method, place, body, headers)
            reply = connection.getresponse()
            content = reply.read()
            return reply.status, json.loads(content) if content else None
        except (OSError, HTTPException, ValueError) as error:
            shown = f"{where.hostname}:{where.port}"
            raise LeveretError(f"no answer of a broker at http://{shown} ({error}): does it run?") from None
        finally:
            connection.close()

    def findings(self) -> dict[str, Any]:
        """Return what the broker has noted of a later series of RabbitMQ: docs/rehearsal.md."""
        status, answer = self._ask("GET", "/api/rehearsal", None, ANSWER_SECONDS)
        if status >= 400:
            raise LeveretError(f"GET /api/rehearsal: {status}: {answer}")
        noted: dict[str, Any] = answer
        return noted

    def status(self) -> dict[str, Any]:
        """Return clock, faults, snapshots, and the numbers of the history's events."""
        answer: dict[str, Any] = self.order("GET", "")
        return answer

    def reset(self) -> None:
        """Reset the broker: connections are closed, definitions, messages, faults and history deleted."""
        self.order("POST", "reset")

    def fault(self, name: str, /, **how: Any) -> Fault:
        """Request a fault: `fault("nack-confirms", queue="orders", times=2)`."""
        return Fault(self, self.order("POST", "faults", fault=name, **how)["id"])

    def faults(self) -> list[dict[str, Any]]:
        """Return the requested faults: how often each has `fired`, and how often it still may (`left`)."""
        answer: list[dict[str, Any]] = self.order("GET", "faults")
        return answer

    def lift_faults(self) -> None:
        """Lift all faults."""
        self.order("DELETE", "faults")

    def save_snapshot(self, name: str) -> None:
        """Save definitions and persistent messages as a snapshot of this name."""
        self.order("PUT", f"snapshots/{quote(name, safe='')}")

    def restore_snapshot(self, name: str) -> None:
        """Restore a snapshot: connections are closed, all else is deleted."""
        self.order("POST", f"snapshots/{quote(name, safe='')}/restore")

    def delete_snapshot(self, name: str) -> None:
        """Delete a snapshot."""
        self.order("DELETE", f"snapshots/{quote(name, safe='')}")

    def snapshots(self) -> list[str]:
        """Return the names of the snapshots."""
        answer: list[str] = self.order("GET", "snapshots")
        return answer

    def restore_backup(self, directory: str) -> None:
        """Restore a backup in a directory of the broker's machine: all else is deleted."""
        self.order("POST", "restore", directory=directory)

    def history(self, event: str | None = None, /, *, bodies: bool = False, **which: Any) -> list[Event]:
        """Return events since the reset, oldest first: `history("acked", queue="orders")`; 1,000 unless `limit`."""
        asked: dict[str, Any] = {"event": event, "bodies": "true" if bodies else None, **which}
        answer: list[Event] = self.order("GET", "history", **asked)["events"]
        return answer

    def clear_history(self) -> None:
        """Forget the events so far."""
        self.order("DELETE", "history")

    def expect(
        self, event: str | None = None, /, *, timeout_seconds: float = WAIT_SECONDS, **which: Any
    ) -> list[Event]:
        """Wait for events, `expect("acked", queue="orders", count=3)`, and return them with bodies; or wait for a state
        of a queue, `expect(queue="orders", ready=0)`. Raises NotMetError, which says what was seen instead."""
        limits = {"timeout_seconds": timeout_seconds, "answer_seconds": timeout_seconds + ANSWER_SECONDS}
        answer = self.order("POST", "expect", event=event, **limits, **which)
        return list(answer.get("events", ()))

    def wait_until_idle(
        self, *, timeout_seconds: float = WAIT_SECONDS, quiet_milliseconds: float | None = None
    ) -> None:
        """Wait until broker and clients have nothing left to do. Raises NotMetError, which says what is left."""
        limits = {"timeout_seconds": timeout_seconds, "answer_seconds": timeout_seconds + ANSWER_SECONDS}
        self.order("POST", "idle", quiet_milliseconds=quiet_milliseconds, **limits)


class Clock(NamedTuple):
    """The broker's clock."""

    control: Control

    def time(self) -> datetime:
        """The broker's time, to the millisecond."""
        return datetime.fromtimestamp(self.control.order("GET", "clock")["milliseconds"] / 1000, UTC)

    def stop(self) -> None:
        """Stop the clock."""
        self.control.order("POST", "clock/stop")

    def start(self) -> None:
        """Start the clock again from the time that it shows."""
        self.control.order("POST", "clock/start")

    def step(self, seconds: float, *, heartbeats: bool = False) -> None:
        """Advance the clock, and do all work due by then; with `heartbeats` the time counts as silence of clients."""
        self.control.order("POST", "clock/step", seconds=seconds, heartbeats=heartbeats)

    def set(self, to: datetime | str, *, heartbeats: bool = False) -> None:
        """Set the clock. A datetime needs a time zone; a text is like `2027-01-31T12:00:00Z`."""
        when = to if isinstance(to, str) else to.astimezone(UTC).isoformat(timespec="milliseconds")
        self.control.order("POST", "clock/set", to=when.replace("+00:00", "Z"), heartbeats=heartbeats)


class Fault(NamedTuple):
    """A requested fault."""

    control: Control
    id: int

    def lift(self) -> None:
        """Lift the fault."""
        self.control.order("DELETE", f"faults/{self.id}")

    @property
    def fired(self) -> int:
        """The number of times it has happened. Raises LeveretError if it was lifted."""
        for order in self.control.faults():
            if order["id"] == self.id:
                return int(order["fired"])
        raise LeveretError(f"fault {self.id} is lifted")
