"""A client that makes and removes definitions, over AMQP and over the administration socket."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.wire.method import Method
from harness.brokers.admin_requests import ask
from harness.clients.shorthand import (
    exchange_bind,
    exchange_declare,
    exchange_delete,
    exchange_unbind,
    queue_bind,
    queue_declare,
    queue_delete,
    queue_unbind,
)
from harness.clients.wire_client import Client

QUEUES, EXCHANGES = ("q1", "q2", "q3"), ("e1", "e2", "e3")
KEYS = ("k1", "k2")
TYPES = ("direct", "fanout", "topic", "headers")
SECONDS = 10.0


class Definer:
    """Changes definitions by chance, and remembers what there is, so that nothing it asks for is refused."""

    def __init__(self, data: Path, choose: random.Random) -> None:
        self._data = data
        self._choose = choose
        self._there: dict[tuple[str, ...], bool] = {}

    def connect(self, client: Client) -> None:
        """Begin a life of the broker."""
        self._client = client

    def step(self) -> None:
        """Ask for one change, or a few together, and wait for the answers."""
        if self._choose.random() < 0.4:
            self._administer()
            return
        asked = [self._change() for _ in range(self._choose.choice((1, 1, 3)))]
        self._client.send(*asked)
        for method in asked:
            item: Any = self._client.receive()
            assert f"{method.NAME}-ok" == item.NAME, (method, item)

    # Over AMQP

    def _change(self) -> Method:
        kinds: tuple[Callable[[], Method], ...] = (self._queue, self._exchange, self._binding, self._binding)
        return self._choose.choice(kinds)()

    def _toggle(self, *fact: str) -> bool:
        """True if a fact is to be made; False if it is to be removed."""
        there = self._there[fact] = not self._there.get(fact, False)
        return there

    def _queue(self) -> Method:
        name = self._choose.choice(QUEUES)
        return queue_declare(name, durable=True) if self._toggle("queue", name) else queue_delete(name)

    def _exchange(self) -> Method:
        name = self._choose.choice(EXCHANGES)
        if self._toggle("exchange", name):
            return exchange_declare(name, self._choose.choice(TYPES), durable=True)
        return exchange_delete(name)

    def _binding(self) -> Method:
        """Bind what there is, or unbind: from what is not bound too. Without two ends one is made."""
        sources = [name for name in EXCHANGES if self._there.get(("exchange", name))]
        queues = [name for name in QUEUES if self._there.get(("queue", name))]
        if not sources or not queues:
            return self._exchange() if not sources else self._queue()
        source, key, binds = self._choose.choice(sources), self._choose.choice(KEYS), self._choose.random() < 0.7
        if self._choose.random() < 0.3:
            target = self._choose.choice(sources)
            return exchange_bind(target, source, key) if binds else exchange_unbind(target, source, key)
        queue = self._choose.choice(queues)
        return queue_bind(queue, source, key) if binds else queue_unbind(queue, source, key)

    # Over the administration socket

    def _administer(self) -> None:
        subjects = (self._user, self._vhost, self._permission, self._policy)
        command, arguments = self._choose.choice(subjects)()
        ask(self._data, command, arguments, SECONDS)

    def _user(self) -> tuple[str, dict[str, Any]]:
        name = self._choose.choice(("ann", "bob"))
        if self._toggle("user", name):
            tags = self._choose.choice(([], ["monitoring"], ["administrator", "management"]))
            return "add_user", {"name": name, "password": f"secret {self._choose.randrange(1000)}", "tags": tags}
        return "delete_user", {"name": name}

    def _vhost(self) -> tuple[str, dict[str, Any]]:
        name = "side"
        if self._toggle("vhost", name):
            said = {"description": f"made {self._choose.randrange(1000)}", "tags": [], "default_queue_type": ""}
            return "add_vhost", {"name": name, **said}
        self._there.pop(("policy", name), None)
        return "delete_vhost", {"name": name}

    def _permission(self) -> tuple[str, dict[str, Any]]:
        users = ["guest", *(name for name in ("ann", "bob") if self._there.get(("user", name)))]
        given = {"user": self._choose.choice(users), "vhost": self._existing_vhost()}
        if given["user"] == "guest" and given["vhost"] == "/":
            return self._policy()
        if self._choose.random() < 0.3:
            return "clear_permissions", given
        patterns = {action: f"^{self._choose.choice('abc')}" for action in ("configure", "write", "read")}
        return "set_permissions", {**given, **patterns}

    def _policy(self) -> tuple[str, dict[str, Any]]:
        vhost = self._existing_vhost()
        if not self._toggle("policy", vhost):
            return "clear_policy", {"vhost": vhost, "name": "limits"}
        said = {"pattern": "^q", "apply_to": "queues", "definition": {"max-length": self._choose.randrange(100)}}
        return "set_policy", {"vhost": vhost, "name": "limits", "priority": self._choose.randrange(5), **said}

    def _existing_vhost(self) -> str:
        return self._choose.choice(["/", *(["side"] if self._there.get(("vhost", "side")) else [])])
