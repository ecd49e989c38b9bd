"""Brokers for the tests of a program in another language, which asks for them by lines of JSON.

docs/testing-with-leveret.md has the requests. The libraries in `clients` send them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import IO, Any

from leveret.testing.broker_copies import FORKS, copies_of
from leveret.testing.broker_for_tests import Broker
from leveret.testing.testing_errors import LeveretError

Values = dict[str, Any]
PERSONALITY = "LEVERET_PERSONALITY"
REQUESTS_AT_ONCE = 64
"""Further requests wait for their turn."""


class _Hosted:
    """A broker and its turn: it carries out a request at a time."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.turn = Lock()

    def facts(self) -> Values:
        """The broker's addresses and files."""
        broker = self.broker
        where = {"url": broker.url, "managementUrl": broker.http_url, "host": broker.host, "port": broker.port}
        return {**where, "pid": broker.pid, "directory": str(broker.directory), "data": str(broker.data)}

    def start(self) -> Values:
        """Start it; its facts."""
        self.broker.start()
        return self.facts()

    def fresh(self) -> Values:
        """Start or reset it; its facts."""
        self.broker.fresh()
        return self.facts()

    def power_failure(self, seed: int | None = None) -> None:
        """Have its power fail."""
        self.broker.power_failure(seed)

    def wait_for_end(self, seconds: float) -> int:
        """Wait for its end; the exit code."""
        return self.broker.wait_for_end(seconds)


class HostedBrokers:
    """Carries out requests and writes an answer for each, several at once if they are for different brokers."""

    def __init__(self, answers: IO[str]) -> None:
        self._answers = answers
        self._writing = Lock()
        self._hosted: dict[int, _Hosted] = {}

    def serve(self, requests: Iterable[str]) -> None:
        """Carry out requests until there are no more; then all brokers end, and their files are deleted."""
        if FORKS:
            copies_of(os.getpid())  # it loads the program while the first request is on its way
        try:
            with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
                for line in requests:
                    pool.submit(self._answer, json.loads(line))
        finally:
            for number in list(self._hosted):
                self._close(number)

    def _answer(self, request: Values) -> None:
        number, name = request.pop("id", None), request.pop("request", None)
        try:
            answer: Values = {"id": number, "answer": self._carry_out(name, **request)}
        except Exception as error:  # nobody else would see it: this is a thread of the pool
            answer = {"id": number, "error": str(error) or repr(error)}
        with self._writing:
            self._answers.write(f"{json.dumps(answer)}\n")
            self._answers.flush()

    def _carry_out(self, name: str, /, broker: int, **given: Any) -> Any:
        if name == "new":
            return self._new(broker, **given)
        if broker not in self._hosted:
            raise LeveretError(f"there is no broker {broker}: it is closed, or was never asked for")
        if name == "close":
            return self._close(broker)
        hosted = self._hosted[broker]
        requests: dict[str, Callable[..., Any]] = {
            "start": hosted.start,
            "fresh": hosted.fresh,
            "stop": hosted.broker.stop,
            "kill": hosted.broker.kill,
            "power_failure": hosted.power_failure,
            "wait_for_end": hosted.wait_for_end,
            "log": hosted.broker.log,
        }
        if name not in requests:
            raise LeveretError(f"there is no request {name}; there are new, close, {', '.join(requests)}")
        with hosted.turn:
            return requests[name](**given)

    def _new(
        self,
        number: int,
        *,
        personality: str | None = None,
        settings: str = "",
        power_failures: bool = False,
        directory: str | None = None,
    ) -> Values:
        """Make a broker and start it; a broker that does not start leaves nothing."""
        if number in self._hosted:
            raise LeveretError(f"there is a broker {number} already")
        broker = Broker(
            None if directory is None else Path(directory),
            settings=settings,
            power_failures=power_failures,
            variables={} if personality is None else {PERSONALITY: personality},
        )
        hosted = _Hosted(broker)
        try:
            facts = hosted.start()
        except BaseException:
            broker.close()
            raise
        self._hosted[number] = hosted
        return facts

    def _close(self, number: int) -> None:
        hosted = self._hosted.pop(number)
        with hosted.turn:
            hosted.broker.close()
