"""A client of the orders of tests (docs/testing-with-leveret.md), over HTTP, with nothing but the standard library."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

from leveret.testing.testing_errors import LeveretError, NotMetError

Event = dict[str, Any]
"""What has happened, as docs/testing-with-leveret.md has it: `id`, `event`, `at` and so on."""

ANSWER_SECONDS = 30.0
"""How long an order may take that waits for nothing."""
WAIT_SECONDS = 5.0


class Control:
    """Gives orders to a broker with `[testing] enabled = true`.

    Each call returns when the order is carried out. Calls are made from any thread, several at a time; in asyncio and
    trio tests those that wait belong into a thread: `await asyncio.to_thread(control.wait_until_idle)`.
    All raise LeveretError when the broker does not answer or refuses.
    """

    def __init__(self, http_url: str = "http://guest:guest@127.0.0.1:15672") -> None:
        """`http_url` is that of the management API, with name and password of an administrator."""
        self.http_url = http_url
        self.clock = Clock(self)

    def order(self, method: str, path: str, /, *, answer_seconds: float = ANSWER_SECONDS, **arguments: Any) -> Any:
        """Have any order carried out, `order("POST", "clock/step", seconds=60)`; its answer.

        Arguments that are None are left out. Raises NotMetError when what was waited for did not come.
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
            raise LeveretError(f"no answer of a broker at http://{shown} ({error}): does it run?") from error
        finally:
            connection.close()

    def status(self) -> dict[str, Any]:
        """What was ordered and holds at this moment: clock, faults, snapshots, the history's numbers."""
        answer: dict[str, Any] = self.order("GET", "")
        return answer

    def reset(self) -> None:
        """Have nothing left: clients are sent away, definitions, messages, faults and history are gone."""
        self.order("POST", "reset")

    def fault(self, name: str, /, **how: Any) -> Fault:
        """Have a fault happen: `fault("nack-confirms", queue="orders", times=2)`."""
        return Fault(self, self.order("POST", "faults", fault=name, **how)["id"])

    def faults(self) -> list[dict[str, Any]]:
        """The faults that are ordered: how often each has `fired`, and how often it still may (`left`)."""
        answer: list[dict[str, Any]] = self.order("GET", "faults")
        return answer

    def lift_faults(self) -> None:
        """Have no fault happen any more."""
        self.order("DELETE", "faults")

    def save_snapshot(self, name: str) -> None:
        """Save definitions and persistent messages under a name."""
        self.order("PUT", f"snapshots/{quote(name, safe='')}")

    def restore_snapshot(self, name: str) -> None:
        """Have what was saved under a name, and nothing else. Clients are sent away."""
        self.order("POST", f"snapshots/{quote(name, safe='')}/restore")

    def delete_snapshot(self, name: str) -> None:
        """Delete what was saved under a name."""
        self.order("DELETE", f"snapshots/{quote(name, safe='')}")

    def snapshots(self) -> list[str]:
        """The names under which something is saved."""
        answer: list[str] = self.order("GET", "snapshots")
        return answer

    def restore_backup(self, directory: str) -> None:
        """Have what a backup in a directory of the broker's machine holds, and nothing else."""
        self.order("POST", "restore", directory=directory)

    def history(self, event: str | None = None, /, *, bodies: bool = False, **which: Any) -> list[Event]:
        """What has happened since the reset, oldest first: `history("acked", queue="orders")`; 1,000 unless `limit`."""
        asked: dict[str, Any] = {"event": event, "bodies": "true" if bodies else None, **which}
        answer: list[Event] = self.order("GET", "history", **asked)["events"]
        return answer

    def clear_history(self) -> None:
        """Forget what has happened so far."""
        self.order("DELETE", "history")

    def expect(
        self, event: str | None = None, /, *, timeout_seconds: float = WAIT_SECONDS, **which: Any
    ) -> list[Event]:
        """Wait until events have happened, `expect("acked", queue="orders", count=3)`: these, with bodies; or until a
        queue is in a state, `expect(queue="orders", ready=0)`. Raises NotMetError with what was seen instead."""
        limits = {"timeout_seconds": timeout_seconds, "answer_seconds": timeout_seconds + ANSWER_SECONDS}
        answer = self.order("POST", "expect", event=event, **limits, **which)
        return list(answer.get("events", ()))

    def wait_until_idle(
        self, *, timeout_seconds: float = WAIT_SECONDS, quiet_milliseconds: float | None = None
    ) -> None:
        """Wait until nothing is left to do, for clients neither. Raises NotMetError with what is."""
        limits = {"timeout_seconds": timeout_seconds, "answer_seconds": timeout_seconds + ANSWER_SECONDS}
        self.order("POST", "idle", quiet_milliseconds=quiet_milliseconds, **limits)


class Clock(NamedTuple):
    """The broker's clock."""

    control: Control

    def time(self) -> datetime:
        """What time it is for the broker, to the millisecond."""
        return datetime.fromtimestamp(self.control.order("GET", "clock")["milliseconds"] / 1000, UTC)

    def stop(self) -> None:
        """Have time stand still."""
        self.control.order("POST", "clock/stop")

    def start(self) -> None:
        """Have time go on from where it is."""
        self.control.order("POST", "clock/start")

    def step(self, seconds: float, *, heartbeats: bool = False) -> None:
        """Let so much time pass, with `heartbeats` for clients, too. What was due in it is done on return."""
        self.control.order("POST", "clock/step", seconds=seconds, heartbeats=heartbeats)

    def set(self, to: datetime | str, *, heartbeats: bool = False) -> None:
        """Make it another time. A datetime has a time zone; a text is as in `2027-01-31T12:00:00Z`."""
        when = to if isinstance(to, str) else to.astimezone(UTC).isoformat(timespec="milliseconds")
        self.control.order("POST", "clock/set", to=when.replace("+00:00", "Z"), heartbeats=heartbeats)


class Fault(NamedTuple):
    """A fault that was ordered."""

    control: Control
    id: int

    def lift(self) -> None:
        """Have it happen no more."""
        self.control.order("DELETE", f"faults/{self.id}")

    @property
    def fired(self) -> int:
        """How often it has happened. Raises LeveretError when it is lifted."""
        for order in self.control.faults():
            if order["id"] == self.id:
                return int(order["fired"])
        raise LeveretError(f"fault {self.id} is lifted")
