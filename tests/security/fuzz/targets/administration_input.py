"""Target `administration`: lines on the command socket of a real server with real stores, sound and not.

Each line is answered by one line, with what was asked or with an error that has a kind; none by "internal error". Now
and then the server is stopped and started again on what the commands have left.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio
import trio.testing

from broker.admin.commands.admin_command import AdminChange, LongQuestion, Question
from broker.admin.commands.command_catalogue import COMMANDS as CATALOGUE
from broker.config import Config, ServerSettings
from broker.server import admin_socket, recovery
from broker.server.engine import Wakeup
from broker.server.server import Server
from broker.wire.field_tables import Table
from tests.security.fuzz.broker_under_test import Failures, scratch_directory, watching_logs
from tests.security.fuzz.choices import Choices, once_in, pick
from tests.security.fuzz.grammar import ARGUMENTS, ODD_NAMES, TYPES

KINDS = {"not_found", "already_exists", "invalid", "refused", "failed"}
_CHANGES = tuple(name for name, kind in CATALOGUE.items() if issubclass(kind, AdminChange))
_ASKED = tuple(name for name, kind in CATALOGUE.items() if issubclass(kind, Question | LongQuestion | AdminChange))
_MANY = (*_ASKED, *_CHANGES, *_CHANGES, "import_definitions", "import_definitions", "unknown")
COMMANDS = tuple(command for command in _MANY if command != "stop")
"""All but the one that would end the process, which is that of the tests."""
VHOST = "v"
LINES_MAX = 4
OPEN_SECONDS = 30.0

_NAMES = ("", "v", "q", "x", "guest", "root", "/")
_PATTERNS = (".*", "^q$", "(", "[", "a{1,2}", "(?P<a>", "\\", "*")
_TEXTS = (*_NAMES, *_PATTERNS, "\ud800", "\udc80")
_QUEUE_TYPES = ("", "classic", "quorum", "stream", "other")
_LIMITS = ("max-connections", "max-channels", "max-queues", "other")
_KEYS = (*(name.removeprefix("x-") for name in ARGUMENTS), "ha-mode", "ha-params", "consumer-timeout", "other")


def value(choices: Choices, depth: int = 0) -> Any:
    """Anything that JSON can hold, and what only Python's JSON can."""
    kind = choices.number(0, 11)
    if kind < 3:
        return pick(choices, (0, 1, 2, 5, -1, 1000, 2**31, 2**32, 2**63 - 1, 2**63, -(2**63) - 1, 10**40))
    if kind < 6:
        return text(choices)
    if kind == 6:
        return pick(choices, (True, False, None, 0.5, float("nan"), float("inf"), 1e308, -0.0))
    if kind == 7:
        return choices.data(20).decode("utf-8", "surrogateescape")
    if depth > 3:
        return []
    if kind < 10:
        return [value(choices, depth + 1) for _ in range(choices.number(0, 3))]
    return {text(choices): value(choices, depth + 1) for _ in range(choices.number(0, 3))}


def text(choices: Choices) -> str:
    """A text that commands know, or an odd one."""
    return pick(choices, _TEXTS if choices.number(0, 7) else ODD_NAMES)


def _mostly(choices: Choices, sound: Any) -> Any:
    return value(choices) if once_in(choices, 16) else sound


def _map(choices: Choices, keys: tuple[str, ...], sound: Callable[[Choices], Any]) -> dict[str, Any]:
    return {pick(choices, keys): _mostly(choices, sound(choices)) for _ in range(choices.number(0, 3))}


def _small(choices: Choices) -> Any:
    return pick(choices, (0, 1, 2, 10, 1000, "x", "classic", "drop-head", "1h", "direct", "all"))


def arguments(choices: Choices) -> dict[str, Any]:
    """The arguments of a command: those that any command asks for, so that each finds its own."""
    given = {
        "vhost": pick(choices, (VHOST, VHOST, VHOST, "none")),
        "name": pick(choices, ("q", "x", "p", "guest", "root", VHOST)),
        "user": pick(choices, ("guest", "guest", "root")),
        "password": pick(choices, ("guest", "", "a" * 300)),
        "tags": pick(choices, ([], ["administrator"], ["a", "a", ""])),
        "description": "",
        "default_queue_type": pick(choices, _QUEUE_TYPES),
        "exchange": pick(choices, ("x", "amq.topic", "")),
        "configure": pick(choices, _TEXTS),
        "write": pick(choices, _TEXTS),
        "read": pick(choices, _TEXTS),
        "pattern": pick(choices, (".*", "q", "(", "")),
        "apply_to": pick(choices, ("all", "queues", "exchanges", "streams", "other")),
        "priority": pick(choices, (0, 1, -1, 2**62)),
        "definition": _map(choices, _KEYS, _small),
        "limits": pick(choices, (_map(choices, _LIMITS, _small), ["all"], ["max-queues"])),
        "reason": "go",
    }
    for _ in range(choices.number(0, 2)):
        name = pick(choices, tuple(given))
        if once_in(choices, 4):
            del given[name]
        elif once_in(choices, 4):
            given[name] = value(choices)
        if not given:
            break
    return given


def _entries(choices: Choices, make: Callable[[Choices], dict[str, Any]]) -> list[Any]:
    return [_mostly(choices, make(choices)) for _ in range(choices.number(0, 3))]


def definitions(choices: Choices) -> dict[str, Any]:
    """A definitions file for the virtual host."""

    def with_(more: dict[str, Any]) -> dict[str, Any]:
        entry = {"vhost": VHOST, "name": pick(choices, ("q", "r", "x", "y")), **more}
        if once_in(choices, 8):
            entry[pick(choices, tuple(entry))] = value(choices)
        return entry

    def queue(choices: Choices) -> dict[str, Any]:
        return with_({"durable": bool(choices.number(0, 7)), "arguments": _map(choices, tuple(ARGUMENTS), _small)})

    def exchange(choices: Choices) -> dict[str, Any]:
        return with_({"type": pick(choices, TYPES), "arguments": _map(choices, tuple(ARGUMENTS), _small)})

    def binding(choices: Choices) -> dict[str, Any]:
        ends = {
            "source": pick(choices, ("x", "y", "amq.direct", "none")),
            "destination": pick(choices, ("q", "r", "x")),
        }
        kind = pick(choices, ("queue", "queue", "exchange"))
        return with_({**ends, "destination_type": kind, "routing_key": pick(choices, ("", "1", "a.#"))})

    def user(choices: Choices) -> dict[str, Any]:
        hashes = {"password_hash": pick(choices, ("", "AAAA", "!", "é")), "password": text(choices)}
        return with_({"tags": pick(choices, ("", "a,b", [])), "limits": _map(choices, _LIMITS, _small), **hashes})

    def policy(choices: Choices) -> dict[str, Any]:
        of = {"definition": _map(choices, _KEYS, _small), "apply-to": "all", "priority": choices.number(0, 3)}
        return with_({"pattern": pick(choices, _TEXTS), **of})

    def parameter(choices: Choices) -> dict[str, Any]:
        component = pick(choices, ("vhost-limits", "operator_policy", "other"))
        return with_({"component": component, "value": _mostly(choices, _map(choices, (*_LIMITS, *_KEYS), _small))})

    def permission(choices: Choices) -> dict[str, Any]:
        patterns = {name: pick(choices, _TEXTS) for name in ("configure", "write", "read", "exchange")}
        return with_({"user": pick(choices, ("guest", "q")), **patterns})

    kinds = {
        "queues": queue,
        "exchanges": exchange,
        "bindings": binding,
        "users": user,
        "policies": policy,
        "parameters": parameter,
        "global_parameters": parameter,
        "permissions": permission,
        "topic_permissions": permission,
        "vhosts": lambda choices: with_({"name": VHOST, "metadata": {}}),
    }
    return {name: _mostly(choices, _entries(choices, make)) for name, make in kinds.items() if choices.number(0, 1)}


def line(choices: Choices) -> bytes:
    """A request, mostly one that is understood."""
    if once_in(choices, 16):
        return choices.data(200).replace(b"\n", b"")
    command = pick(choices, COMMANDS)
    given = arguments(choices)
    if command == "import_definitions":
        given["definitions"] = _mostly(choices, definitions(choices))
    if command == "backup":
        given["directory"] = pick(choices, ("\0", "", "/dev/null/none", "a" * 300, 5))
    request = json.dumps({"command": command, "arguments": given}).encode()
    if once_in(choices, 16):
        at = choices.number(0, len(request) - 1)
        request = request[:at] + choices.data(8).replace(b"\n", b"") + request[at + choices.number(0, 8) :]
    return request if b"backup" not in request or command == "backup" else b"{}"


def _part(sock: socket.socket, vhost: str, properties: Table) -> None:
    """The rest of this connection would be AMQP, which other targets are for."""
    sock.close()


class Office:
    """A server in a thread of its own, which is asked from outside."""

    def __init__(self, directory: Path) -> None:
        self._config = Config(server=ServerSettings(data_dir=str(directory / "data")))
        self._start()

    def _start(self) -> None:
        self._ready, self._stop = threading.Event(), trio.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="office")
        self._thread.start()
        assert self._ready.wait(OPEN_SECONDS), "the server does not start"
        self._check()

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    def _check(self) -> None:
        if self._failure is not None:
            raise AssertionError("the server has ended") from self._failure

    async def _serve(self) -> None:
        (directory := self._config.server.directory).mkdir(exist_ok=True)
        stores = recovery.open_stores(directory)
        try:
            wakeup = Wakeup()
            recovered = recovery.recover(self._config, stores, wakeup.pace)
            async with trio.open_nursery() as nursery:
                server = Server(self._config, stores, recovered, wakeup, nursery)
                server.committer.start(recovered.tombstones)
                for task in (server.committer.watch, server.definition_log.run, server.engine.run):
                    nursery.start_soon(task)
                self._administration = server.administration
                self._token = trio.lowlevel.current_trio_token()
                self._ready.set()
                await self._stop.wait()
                await server.definition_log.flush()
                await server.committer.finish()
                nursery.cancel_scope.cancel()
        finally:
            stores.definitions.close()
            stores.messages.close()
            os.close(stores.lock)

    def stop(self) -> None:
        """Stop in order."""
        if self._thread.is_alive():
            self._token.run_sync_soon(self._stop.set)
        self._thread.join(OPEN_SECONDS)
        self._check()

    def restart(self) -> None:
        """Stop in order, and start again on what is there."""
        self.stop()
        self._start()

    def ask(self, lines: list[bytes]) -> list[dict[str, Any]]:
        """Send lines over one connection; the answers."""
        answers = trio.from_thread.run(self._ask, lines, trio_token=self._token)
        return [json.loads(answer) for answer in answers.splitlines()]

    async def _ask(self, lines: list[bytes]) -> bytes:
        ours, theirs = trio.testing.memory_stream_pair()
        await ours.send_all(b"".join(each + b"\n" for each in lines))
        await ours.send_eof()
        await admin_socket.serve_caller(self._administration, _part, theirs)
        answers = b""
        while received := await ours.receive_some():
            answers += received
        return answers

    def clean(self) -> None:
        """Nothing but what a new server has, and an empty virtual host."""
        users = [row["name"] for row in self._do("list_users") if row["name"] != "guest"]
        for user in users:
            self._do("delete_user", name=user)
        vhosts = [row["name"] for row in self._do("list_vhosts") if row["name"] != "/"]
        for vhost in vhosts:
            self._do("delete_vhost", name=vhost)
        if not any(row["name"] == "guest" for row in self._do("list_users")):
            self._do("add_user", name="guest", password="guest", tags=[])
        self._do("add_vhost", name=VHOST, description="", tags=[], default_queue_type="")

    def _do(self, command: str, **given: object) -> Any:
        (answer,) = self.ask([json.dumps({"command": command, "arguments": given}).encode()])
        return answer["ok"]


def _try(office: Office, failures: Failures, choices: Choices) -> None:
    office.clean()
    lines = [line(choices) for _ in range(choices.number(1, LINES_MAX))]
    answers = office.ask(lines)
    failures.check()
    assert len(answers) == len(lines), f"{len(lines)} requests had {len(answers)} answers"
    for answer in answers:
        assert answer.keys() in ({"ok"}, {"error"})
        assert "error" not in answer or answer["error"]["kind"] in KINDS
    if once_in(choices, 64):
        office.restart()
    for question in ("list_queues", "list_exchanges", "list_bindings", "list_policies", "list_operator_policies"):
        office.ask([b'{"command":"%s","arguments":{"vhost":"v"}}' % question.encode()])
    office.ask([b'{"command":"export_definitions","arguments":{}}'])
    failures.check()


@contextmanager
def opened() -> Iterator[Callable[[Choices], None]]:
    """The target, ready for inputs."""
    with scratch_directory() as directory, watching_logs() as failures:
        office = Office(directory)
        try:
            yield lambda choices: _try(office, failures, choices)
        finally:
            office.stop()
