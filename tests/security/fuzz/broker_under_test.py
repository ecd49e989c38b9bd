"""The ground that inputs are tried on: one broker for all of them, swept clean in between, over a store in memory.

For any input the broker answers in frames that can be read, raises nothing, logs no failure, and has nothing left of
gone clients. `Floor.sweep` sees to that, and to somebody else on the same broker who is still served.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from broker.admin.kinds.policy_check import checked
from broker.entities.scheduling.alarms import DISK, MEMORY
from broker.entities.vhosts.vhost import DEFAULT_EXCHANGES
from broker.session.session_settings import SessionSettings
from broker.wire.field_tables import Field
from broker.wire.methods import BasicConsume, BasicConsumeOk, QueueDeclare, QueueDeclareOk
from harness.brokers.broker_core import Core
from harness.brokers.definitions_in_memory import RecordedDefinitions
from harness.clients.amqp_peer import publish_frames
from harness.clients.session_client import SessionLayer
from tests.security.fuzz.fuzz_client import SMALL_FRAMES, FuzzClient

BYSTANDER = "bystander"
SETTINGS = SessionSettings(message_bytes_max=4096, output_bytes_max=16384, held_bytes_max=16384, turn_copies_max=50)
"""Small, so that small inputs reach the limits."""
RENEWED_AFTER = 2000
"""Inputs on one broker. Some of it grows by design: positions, timers of what no longer is."""

MEMORY_DIRECTORY = Path("/dev/shm")


FURNITURE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("q", {}),
    ("r", {"dead_letter_exchange": "", "dead_letter_routing_key": "q", "max_length": 2}),
    ("priority", {"max_priority": 5, "dead_letter_exchange": "x", "message_ttl": 20}),
    ("quorum", {"queue_type": "quorum", "delivery_limit": 2, "dead_letter_exchange": "x"}),
    ("stream", {"queue_type": "stream", "max_length_bytes": 200, "stream_max_segment_size_bytes": 100}),
    ("expiring", {"expires": 30, "message_ttl": 5, "dead_letter_exchange": "amq.topic"}),
    ("short", {"max_length": 1, "overflow": "reject-publish-dlx", "dead_letter_exchange": "recent"}),
    ("classic", {"single_active_consumer": True, "max_length_bytes": 6000}),
)
"""Queues that may be there before anybody speaks, bound to every exchange of `EXCHANGES` that takes them."""

EXCHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "x": ("topic", {"alternate-exchange": "y"}),
    "y": ("headers", {"alternate-exchange": "x"}),
    "delayed": ("x-delayed-message", {"x-delayed-type": "topic"}),
    "hash": ("x-consistent-hash", {"hash-header": "a"}),
    "recent": ("x-recent-history", {"x-recent-history-length": Field("l", 3)}),
}


class Failures(logging.Handler):
    """Remembers what the broker must not log: an exception that was caught somewhere, and a secret if there is one."""

    def __init__(self, secret: str) -> None:
        super().__init__()
        self.error: BaseException | None = None
        self._secret = secret

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if self._secret and self._secret in message:
            self.error = ValueError(f"a secret was logged: {message}")
        if record.exc_info and self.error is None:
            self.error = record.exc_info[1]

    def check(self) -> None:
        """Raise what was caught."""
        error, self.error = self.error, None
        if error is not None:
            raise AssertionError("this was logged") from error


@contextmanager
def watching_logs(secret: str = "") -> Iterator[Failures]:
    """Every log line of the broker is made and thrown away; the failures among them are remembered."""
    log, failures = logging.getLogger("leveret"), Failures(secret)
    before = log.level, log.propagate
    log.addHandler(failures)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    try:
        yield failures
    finally:
        log.removeHandler(failures)
        level, log.propagate = before
        log.setLevel(level)  # which has loggers below it forget what they are to let through


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """A directory that is gone afterwards, in memory where the system has such a place."""
    where = MEMORY_DIRECTORY if MEMORY_DIRECTORY.is_dir() and "TMPDIR" not in os.environ else None
    with tempfile.TemporaryDirectory(prefix="leveret-fuzz-", dir=where) as directory:
        yield Path(directory)


class Floor:
    """A broker without sockets, and a bystander who consumes from a queue of its own."""

    def __init__(self, directory: Path, failures: Failures) -> None:
        self._directory = directory
        self._failures = failures
        self._inputs = 0
        self._renew()

    def _renew(self) -> None:
        self.definitions = RecordedDefinitions()
        self.core = Core(self._directory / "messages", definitions=self.definitions)
        self.sessions = SessionLayer(self.core, SETTINGS)
        self.bystander = FuzzClient(self.sessions)
        self.bystander.shake_hands(SMALL_FRAMES, (1,))
        self.bystander.ask(QueueDeclare(BYSTANDER, False, False, True, False, False, {}), QueueDeclareOk)
        self.bystander.ask(BasicConsume(BYSTANDER, "", False, True, False, False, {}), BasicConsumeOk)

    def furnish(self, wanted: int) -> None:
        """Have some of the furniture there, one for each bit of a number that is set, and the exchanges with it."""
        if not wanted:
            return
        core = self.core
        for name, (type_, arguments) in EXCHANGES.items():
            core.exchange(name, type_, arguments=arguments)
        for bit, (name, queue_arguments) in enumerate(FURNITURE):
            if wanted & 1 << bit:
                queue = core.queue(name, durable=bit % 3 < 2 or "queue_type" in queue_arguments, **queue_arguments)
                for exchange in EXCHANGES:
                    core.bind(core.vhost.exchange(exchange), queue, "20" if exchange == "hash" else "#")
        core.bind(core.vhost.exchange("x"), core.vhost.exchange("recent"), "a.#")

    def set_policy(self, pattern: str, definition: dict[str, Any], *, operator: bool) -> None:
        """Set a policy, or replace the one that was set before; without a definition take it away."""
        policy_application = self.core.vhost.policy_application
        if definition:
            policy = checked("p", pattern, "all", definition, 0, self.core.broker.personality, operator=operator)
            policy_application.put(policy, operator=operator)
        elif policy_application.policies.of(operator=operator):
            policy_application.remove("p", operator=operator)
        self.core.end_turn()

    def settle(self) -> None:
        """Commit and make room, so that nothing waits for the disk or for room any longer."""
        self.definitions.holding = False
        while self.definitions.held:
            self.definitions.settle()
        for resource in (MEMORY, DISK):
            self.core.broker.alarms.set(resource, short=False)
        self.core.commit()

    def sweep(self, *clients: FuzzClient) -> None:
        """The clients go; see that nothing of them stays, that others are served, and leave all as it was."""
        for client in clients:
            client.drop()
        self.settle()
        self._failures.check()
        self._check_nobody()
        self._check_bystander()
        self._clear()
        self._failures.check()
        self._inputs += 1
        if self._inputs % RENEWED_AFTER == 0:
            self.close()
            self._renew()

    def close(self) -> None:
        """The broker is gone; its store too."""
        self.core.close()
        for file in (self._directory / "messages").iterdir():
            file.unlink()

    def _check_nobody(self) -> None:
        """No connection, consumer, unacknowledged message or exclusive queue is left of clients that went."""
        registry, vhost = self.sessions.registry, self.core.vhost
        assert list(registry.connections) == [self.bystander.connection]
        assert not registry.reply_channels
        for queue in vhost.queues.values():
            if queue.name != BYSTANDER:
                assert queue.owner is None, f"{queue.name!r} outlived its connection"
                assert not len(queue.consumers), f"{queue.name!r} has consumers"
                assert queue.unacked == 0, f"{queue.name!r} has {queue.unacked} unacknowledged messages"
                assert not list(queue.unacknowledged)
        assert not self.core.broker.turn.pending

    def _check_bystander(self) -> None:
        body = b"still here %d" % self._inputs
        self.bystander.say(publish_frames(body, key=BYSTANDER))
        self.core.end_turn()
        assert self.bystander.bodies[-1:] == [body], "others are no longer served"
        self.bystander.bodies.clear()
        self.bystander.heard.clear()

    def _clear(self) -> None:
        """Delete what the clients made, and see that it is gone from the broker, its store and its definitions."""
        vhost, broker = self.core.vhost, self.core.broker
        for operator in (False, True):
            self.set_policy("", {}, operator=operator)
        for queue in list(vhost.queues.values()):
            if queue.name != BYSTANDER:
                vhost.delete_queue(queue)
        for exchange in list(vhost.exchanges.values()):
            if exchange.name in DEFAULT_EXCHANGES:
                for binding in list(exchange.bindings):
                    vhost.bindings.unbind(binding)
            else:
                vhost.delete_exchange(exchange)
        self.core.commit()
        while self.core.store.reclaim(1 << 16):
            pass
        self.core.store.io.recent.clear()  # a server takes them each second
        assert list(vhost.queues) == [BYSTANDER]
        assert vhost.exchanges.keys() == DEFAULT_EXCHANGES.keys()
        assert not any(exchange.bindings for exchange in vhost.exchanges.values())
        assert len(broker.queues_by_id) == 1
        assert broker.batches.current.empty
        for kept in (self.definitions.queues, self.definitions.exchanges, self.definitions.bindings):
            assert not kept
        assert self.core.store.statistics().entries == 2, "messages are left of queues that are gone"
        self.definitions.deleted_queues.clear()


@contextmanager
def floor() -> Iterator[Floor]:
    """A floor, and everything away at the end."""
    with scratch_directory() as directory, watching_logs() as failures:
        place = Floor(directory, failures)
        try:
            yield place
        finally:
            place.core.close()
