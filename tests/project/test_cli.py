"""The command line: what each verb asks of a broker, what it prints, and how it ends."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import pwd
import re
import shlex
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import click
import pytest

from broker.admin.commands.admin_command import VhostList, command_name
from broker.admin.protocol import AdministrationError, NotRunning, socket_path
from broker.cli.catalogue import LINKS, TOP
from broker.cli.main import leveret, main
from broker.cli.messages.tail_command import FIREHOSE
from broker.cli.table_output import on_terminal, text
from broker.cli.usage.command_groups import CommandWithExample, plain_commands
from broker.cli.usage.listing_kinds import LISTINGS
from broker.config import ConfigError
from harness.brokers.admin_requests import ask
from harness.brokers.broker_process import BrokerProcess
from harness.project import ROOT
from leveret import use_packages
from leveret.extras import how_to_install
from storage.storage_errors import StoreLocked


class Outcome(NamedTuple):
    """The end of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


class Terminal(io.TextIOWrapper):
    """Standard input, typed by a person."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run `leveret` with arguments, for the data directory `tmp_path`."""
    monkeypatch.setenv("LEVERET_DATA_DIR", str(tmp_path))

    def run(*arguments: str, stdin: str = "", terminal: bool = False) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["leveret", *arguments])
        file = Terminal if terminal else io.TextIOWrapper
        monkeypatch.setattr(sys, "stdin", file(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), out, err)

    return run


class Peer:
    """The other end of the socket: keeps what it is asked and answers with what it was given."""

    def __init__(self, directory: Path) -> None:
        self.answer: bytes = b'{"ok": null}\n'
        self.requests: list[Any] = []
        self._listener = socket.socket(socket.AF_UNIX)
        with socket_path(directory) as path:
            self._listener.bind(path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def answers(self, value: Any) -> None:
        self.answer = json.dumps({"ok": value}).encode() + b"\n"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # `close` has shut the listener down
            with connection, connection.makefile("rb") as lines:
                self.requests.append(json.loads(lines.readline()))
                connection.sendall(self.answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    with closing(Peer(tmp_path)) as peer:
        yield peer


def asks(line: str, command: str, **arguments: object) -> tuple[str, str, dict[str, object]]:
    """A command line, and what it asks a broker."""
    return line, command, arguments


HERS = {"vhost": "/", "user": "ann"}
ANY = {"vhost": "v", "user": "ann", "configure": ".", "write": ".", "read": "."}
ADDED = {"name": "v", "description": "d", "tags": ["t", "u"], "default_queue_type": "quorum"}
POLICY = {"vhost": "v", "name": "p", "pattern": "^q", "definition": {"a": 5}, "priority": -5, "apply_to": "queues"}
PLAIN = {"vhost": "/", "name": "o", "pattern": ".", "definition": {"a": 5}, "priority": 0, "apply_to": "all"}
QUORUM = {"vhost": "v", "name": "q", "arguments": {"x-queue-type": "quorum", "x-max-length": 5, "x": "y"}}
TOPIC = {"vhost": "/", "name": "e", "type": "topic", "durable": False}
TO_EXCHANGE = {"vhost": "/", "source": "e", "destination": "f", "to_exchange": True}
ASKED = [
    asks("user add ann secret", "add_user", name="ann", password="secret", tags=[]),
    asks("user add ann s --tags management", "add_user", name="ann", password="s", tags=["management"]),
    asks("user delete ann", "delete_user", name="ann"),
    asks("user change-password ann new", "change_password", name="ann", password="new"),
    asks("user set-tags ann monitoring", "set_user_tags", name="ann", tags=["monitoring"]),
    asks("user set-tags ann", "set_user_tags", name="ann", tags=[]),
    asks("user authenticate ann secret", "authenticate_user", name="ann", password="secret"),
    asks("user clear-limits ann max-channels", "clear_user_limits", name="ann", limits=["max-channels"]),
    asks('user set-limits ann {"max-channels":5}', "set_user_limits", name="ann", limits={"max-channels": 5}),
    asks("vhost add v --description d --tags t,u --default-queue-type quorum", "add_vhost", **ADDED),
    asks("vhost delete v", "delete_vhost", name="v"),
    asks('vhost set-limits v {"max-queues":1}', "set_vhost_limits", name="v", limits={"max-queues": 1}),
    asks("vhost clear-limits v", "clear_vhost_limits", name="v", limits=[]),
    asks("permission set ann ^c ^w ^r", "set_permissions", **HERS, configure="^c", write="^w", read="^r"),
    asks("permission set --vhost v ann . . .", "set_permissions", **ANY),
    asks("permission clear -p v ann", "clear_permissions", vhost="v", user="ann"),
    asks("topic-permission set ann t w r", "set_topic_permissions", **HERS, exchange="t", write="w", read="r"),
    asks("topic-permission clear ann", "clear_topic_permissions", **HERS),
    asks("topic-permission clear ann t", "clear_topic_permissions", **HERS, exchange="t"),
    asks('policy set -p v --priority -5 --apply-to queues p ^q {"a":5}', "set_policy", **POLICY),
    asks('operator-policy set o . {"a":5}', "set_operator_policy", **PLAIN),
    asks("policy clear p", "clear_policy", vhost="/", name="p"),
    asks("policy delete -p v p", "clear_policy", vhost="v", name="p"),
    asks("operator-policy clear -p v o", "clear_operator_policy", vhost="v", name="o"),
    asks("operator-policy delete o", "clear_operator_policy", vhost="/", name="o"),
    asks("parameter set -p v c n [1]", "set_parameter", vhost="v", component="c", name="n", value=[1]),
    asks("parameter clear c n", "clear_parameter", vhost="/", component="c", name="n"),
    asks("global-parameter set n null", "set_global_parameter", name="n", value=None),
    asks("global-parameter clear n", "clear_global_parameter", name="n"),
    asks("cluster-name n", "set_cluster_name", name="n"),
    asks("ping", "ping"),
    asks("delete-queue q", "delete_queue", vhost="/", name="q", if_empty=False, if_unused=False),
    asks("vhost set v --tags a,b", "update_vhost", name="v", tags=["a", "b"]),
    asks("set-memory-high-watermark 0.4", "set_vm_memory_high_watermark", fraction=0.4),
    asks("set-memory-high-watermark 2GB", "set_vm_memory_high_watermark", bytes=2_000_000_000),
    asks("set-disk-free-limit 1GiB", "set_disk_free_limit", bytes=1 << 30),
    asks("set-disk-free-limit --relative 1.5", "set_disk_free_limit", mem_relative=1.5),
    asks("set-log-level debug", "set_log_level", level="debug"),
    asks("set-log-form json", "set_log_form", form="json"),
    asks("purge-queue -p v q", "purge_queue", vhost="v", name="q"),
    asks("queue declare q", "declare_queue", vhost="/", name="q"),
    asks("queue declare -p v --type quorum --argument x-max-length=5 --argument x=y q", "declare_queue", **QUORUM),
    asks("queue delete q", "delete_queue", vhost="/", name="q", if_empty=False, if_unused=False),
    asks("queue purge q", "purge_queue", vhost="/", name="q"),
    asks("exchange declare e --type topic --transient", "declare_exchange", **TOPIC),
    asks("exchange delete -p v e", "delete_exchange", vhost="v", name="e"),
    asks("binding add e q k.*", "add_binding", vhost="/", source="e", destination="q", key="k.*"),
    asks("binding delete e f --to-exchange", "delete_binding", **TO_EXCHANGE),
    asks("trace on -p v", "trace_on", vhost="v"),
    asks("trace off", "trace_off", vhost="/"),
    asks("close-connection c why", "close_connection", name="c", reason="why"),
    asks("wait", "ping"),
]


def asks_rows(line: str, kind: str, **arguments: object) -> tuple[str, str, dict[str, object]]:
    """A command line, and what it asks for: the usual columns of a kind."""
    return line, command_name(LISTINGS[kind].command), {**arguments, "columns": list(LISTINGS[kind].columns)}


ASKED_FOR_ROWS = [
    asks_rows("user list", "users"),
    asks_rows("parameter list -p v", "parameters", vhost="v"),
    asks_rows("global-parameter list", "global-parameters"),
    asks_rows("vhost list", "vhosts"),
    asks_rows("queue list -p v", "queues", vhost="v"),
    asks_rows("exchange list", "exchanges"),
    asks_rows("binding list", "bindings"),
    asks_rows("permission list", "permissions", vhost="/"),
    asks_rows("topic-permission list -p v", "topic-permissions", vhost="v"),
    asks_rows("policy list -p v", "policies", vhost="v"),
    asks_rows("operator-policy list", "operator-policies", vhost="/"),
    asks("user permissions ann", "list_user_permissions", name="ann"),
    *(asks_rows(f"list {kind}", kind) for kind in LISTINGS),
    *(
        asks_rows(f"list {kind} -p v", kind, vhost="v")
        for kind, it in LISTINGS.items()
        if issubclass(it.command, VhostList)
    ),
    asks_rows("list queue -p v", "queues", vhost="v"),
    asks_rows("list operator_policy", "operator-policies"),
    asks_rows("users list", "users"),
    asks("list queues name -p v", "list_queues", vhost="v", columns=["name"]),
]


@pytest.mark.parametrize(("line", "command", "arguments"), ASKED + ASKED_FOR_ROWS)
def test_a_verb_asks_the_running_broker(
    run: Run, peer: Peer, line: str, command: str, arguments: dict[str, object]
) -> None:
    """It says in one line that it is done; of rows, here, only the heading."""
    peer.answers([] if (line, command, arguments) in ASKED_FOR_ROWS else {"messages": 1})
    outcome = run(*line.split())
    assert (outcome.code, outcome.out.count("\n"), outcome.err) == (0, 1, "")
    assert peer.requests == [{"command": command, "arguments": arguments}]


@pytest.mark.parametrize("given", [(), ("-",)])
def test_a_password_may_come_from_standard_input(run: Run, peer: Peer, given: tuple[str, ...]) -> None:
    run("user", "add", "ann", *given, stdin="secret \n")
    assert peer.requests[0]["arguments"]["password"] == "secret "


def test_without_a_password_none_is_made_up(run: Run, peer: Peer) -> None:
    assert "there is no password: expected one as an argument, or as a line" in run("user", "authenticate", "ann").err
    assert (run("user", "add", "ann").code, peer.requests) == (2, [])


def test_a_virtual_host_that_is_there_is_not_said_to_be_added(run: Run, peer: Peer) -> None:
    peer.answers({"added": False})
    assert "virtual host v was there already, and stays as it is" in run("vhost", "add", "v").out


def test_a_new_password_is_typed_twice_on_a_terminal(run: Run, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["secret", "typo", "secret", "secret"])
    monkeypatch.setattr("getpass.getpass", lambda *_, **__: next(typed))
    run("user", "add", "ann", terminal=True)
    assert peer.requests[0]["arguments"]["password"] == "secret"
    assert next(typed, None) is None


def test_tags_that_mean_nothing_and_tags_that_are_lost_are_named(run: Run, peer: Peer) -> None:
    peer.answers({"tags_before": ["administrator", "mine"]})
    unknown, lost = run("user", "set-tags", "guest", "admin", "management").err.splitlines()
    assert unknown.startswith(
        "leveret: warning: the tag admin means nothing here; the tags that mean something are admini"
    )
    assert lost == "leveret: warning: user guest has lost administrator"


QUEUES = [
    {"vhost": "/", "name": "jobs", "messages_ready": 12, "messages_unacknowledged": 0, "messages": 12, "consumers": 1},
    {"vhost": "/", "name": "b", "messages_ready": 0, "messages_unacknowledged": 3, "messages": 3, "consumers": 0},
]


def test_a_list_is_a_table_or_for_programs(run: Run, peer: Peer) -> None:
    """Aligned under its heading, of a few columns or those named; for programs every column, or those named."""
    peer.answers(QUEUES)
    assert run("list", "queues", "name", "messages", "vhost").out.splitlines() == [
        "name  messages  vhost",
        "jobs  12        /",
        "b     3         /",
    ]
    assert json.loads(run("list", "queues", "--json").out) == QUEUES
    assert json.loads(run("list", "queues", "name", "--json").out) == [{"name": "jobs"}, {"name": "b"}]
    outcome = run("list", "queues", "size")
    assert outcome.code == 2
    assert "there is no column size; known: vhost, name, messages_ready" in outcome.err
    peer.answers([])
    assert run("list", "vhosts").out == "name\n"


def test_connections_can_be_narrowed_to_a_vhost(run: Run, peer: Peer) -> None:
    row = {"user": "u", "state": "running", "channels": 1}
    peer.answers([{"name": "one", "vhost": "v", **row}, {"name": "two", "vhost": "w", **row}])
    assert run("list", "connections", "name", "-p", "w").out == "name\ntwo\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("é", "é"),
        ("a\nb", "a\\nb"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\udcff", "\udcff"),
        (None, ""),
        (True, "true"),
        (["a", 1], '["a", 1]'),
    ],
)
def test_a_cell_cannot_forge_a_line(value: object, shown: str) -> None:
    assert text(value) == shown


def test_a_name_that_is_not_utf8_is_printed_as_its_bytes(peer: Peer, tmp_path: Path) -> None:
    peer.answers([{"name": "x\udcff"}])
    command = [sys.executable, "-m", "broker", "list", "vhosts", "--data-dir", str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=True, timeout=60).stdout == b"name\nx\xff\n"


def test_status_is_indented_and_for_people(run: Run, peer: Peer) -> None:
    sizes = {"used_bytes": 5, "limit_bytes": 3 << 29, "alarm": False, "last_seconds": 0.0001667189999}
    peer.answers({"pid": 7, "memory": sizes, "listeners": ["127.0.0.1:5672", "[::1]:5672"], "alarms": []})
    assert run("status").out.splitlines() == [
        "pid        7",
        "memory:",
        "  used_bytes    5 bytes",
        "  limit_bytes   1.5 GiB",
        "  alarm         false",
        "  last_seconds  0.000166719",
        "listeners  127.0.0.1:5672, [::1]:5672",
        "alarms     none",
    ]
    assert json.loads(run("status", "--json").out)["memory"] == sizes


def test_memory_is_in_the_words_of_top_and_docker_stats(run: Run, peer: Peer) -> None:
    sizes = {"connection_readers": 1 << 20, "connection_writers": 0, "msg_index": 64 << 20, "code": 20 << 20}
    total = {"rss": 135 << 20, "erlang": 50 << 20, "allocated": 51 << 20}
    outside = {"journal": 12 << 20, "container": None}
    peer.answers({**sizes, "allocated_unused": 1 << 20, "total": total, "outside": outside})
    shown = dict(re.findall(r"^ *(\w[\w ]*\w)  +(\S+ MiB|unknown)", run("memory").out, re.MULTILINE))
    assert shown == {
        "resident": "135.0 MiB",
        "heap": "50.0 MiB",
        "of clients": "1.0 MiB",
        "freed": "1.0 MiB",
        "message store": "64.0 MiB",
        "code": "20.0 MiB",
        "journal": "12.0 MiB",
        "container": "unknown",
    }


def test_a_moment_is_shown_as_date_and_time(run: Run, peer: Peer) -> None:
    peer.answers([{"file": "c.pem", "subject": "CN=c", "until": 1_800_000_000.0}])
    assert run("list", "certificates").out.splitlines()[1] == "c.pem  CN=c     2027-01-15 08:00:00Z"


def test_definitions_go_to_a_file_for_its_owner_alone_and_come_from_one(run: Run, peer: Peer, tmp_path: Path) -> None:
    file = tmp_path / "d.json"
    peer.answers({"users": [{"name": "é"}]})
    assert run("export", "definitions", str(file)).code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text()) == {"users": [{"name": "é"}]}
    assert json.loads(run("export", "definitions", "-").out) == {"users": [{"name": "é"}]}
    peer.requests.clear()
    peer.answers({"users": 1})
    assert run("import", "definitions", str(file)).out == "users  1\n"
    run("import", "definitions", "-", stdin='{"users": []}')
    given = [request["arguments"]["definitions"] for request in peer.requests]
    assert given == [{"users": [{"name": "é"}]}, {"users": []}]
    file.write_text("{")
    outcome = run("import", "definitions", str(file))
    assert (outcome.code, outcome.err.startswith(f"leveret: error: {file}: is not JSON: ")) == (1, True)
    assert len(peer.requests) == 2


def test_a_backup_goes_where_the_caller_stands(
    run: Run, peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("backup", "copy")
    assert peer.requests == [{"command": "backup", "arguments": {"directory": str(tmp_path / "copy")}}]


@pytest.mark.parametrize(
    ("check", "rows", "words"),
    [
        ("alarms", [{"node": "n", "resource": "memory"}], "memory alarm is raised"),
        ("port 5672", [{"port": 5671}, {"port": 15672}], "port 5672 is not listened on; these are: 5671, 15672"),
        ("protocol amqps", [{"protocol": "amqp"}], "amqps is not listened for; these are: amqp"),
        ("connectivity", [{"interface": "127.0.0.1", "port": 1}], "cannot connect to 127.0.0.1:1"),
        ("certificates", [{"file": "c.pem", "until": 0.0}], "c.pem expires on 1970-01-01"),
        ("disk", {"disk": {"hangs": "data.mdb: the disk hangs"}}, "data.mdb: the disk hangs"),
    ],
)
def test_a_health_check_says_why_it_fails(run: Run, peer: Peer, check: str, rows: Any, words: str) -> None:
    peer.answers(rows)
    assert run("health", *check.split()) == (1, "", f"leveret: error: {words}\n")


@pytest.mark.parametrize("given", ["5", "{", "[]"])
@pytest.mark.parametrize("verb", ["user set-limits ann", "policy set p .*", "operator-policy set p .*"])
def test_what_is_no_object_is_wrong_usage(run: Run, peer: Peer, verb: str, given: str) -> None:
    assert run(*verb.split(), given).code == 2
    assert peer.requests == []


# How it ends.


def test_no_name_in_an_error_commands_a_terminal(run: Run, peer: Peer) -> None:
    peer.answer = b'{"error": {"kind": "not_found", "message": "user \'\\u001b[31m\\n\\u009bx\' does not exist"}}\n'
    assert run("user", "delete", "ann") == (1, "", r"leveret: error: user '\x1b[31m\n\x9bx' does not exist" + "\n")


def test_what_is_shown_on_a_terminal_may_be_bold_and_no_more() -> None:
    shown = "\x1b[1mRuntime\x1b[0m\n\tq\x1b]0;title\x07\x9b31m\u2028\r\x1b[2J\xe9"
    assert on_terminal(shown) == "\x1b[1mRuntime\x1b[0m\n\tq" + r"\x1b]0;title\x07\x9b31m\u2028\r\x1b[2J" + "\xe9"


def test_the_brokers_refusal_is_one_line(run: Run, peer: Peer) -> None:
    peer.answer = b'{"error": {"kind": "not_found", "message": "user \'ann\' does not exist"}}\n'
    assert run("user", "delete", "ann") == (1, "", "leveret: error: user 'ann' does not exist\n")


@pytest.mark.parametrize("line", ["ping", "status", "list connections", "close-connection c", "trace on"])
def test_what_needs_a_running_broker_says_so(run: Run, tmp_path: Path, line: str) -> None:
    cure = "start one with `leveret serve`, or name another directory with --data-dir or LEVERET_DATA_DIR"
    message = f"leveret: error: no broker is running on the data directory {tmp_path}: {cure}\n"
    assert run(*line.split()) == (1, "", message)


@pytest.mark.parametrize("line", ["--data-dir {} {}", "{1} --data-dir {0}", "--data-dir x {1} --data-dir {0}"])
@pytest.mark.parametrize("verb", ["ping", "user delete ann", "rabbitmqctl ping"])
def test_the_data_directory_is_named_before_or_behind_the_command(
    run: Run, peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, verb: str
) -> None:
    """The last one named counts, and both before the environment."""
    monkeypatch.setenv("LEVERET_DATA_DIR", "x")
    peer.answers({"node": "rabbit@here", "rabbitmq_version": "3.13.7", "series": "3.13"})
    assert run(*line.format(tmp_path, verb).split()).code == 0
    assert peer.requests[-1]["command"] in ("ping", "delete_user")


@pytest.mark.parametrize("place", ["leveret-data", "var/lib/leveret", "var/lib/rabbitmq/leveret"])
def test_where_none_is_named_the_running_broker_is_found(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """In the usual places, although there is another data directory in one of them."""
    monkeypatch.setenv("LEVERET_ROOT", str(tmp_path))
    monkeypatch.delenv("LEVERET_DATA_DIR")
    monkeypatch.chdir(tmp_path)
    assert f"the data directory {tmp_path}/leveret-data: start one" in run("ping").err
    for directory in ("var/lib/leveret", place):
        (tmp_path / directory).mkdir(parents=True, exist_ok=True)
    with closing(Peer(tmp_path / place)), (tmp_path / place / "broker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run("ping") == (0, "pong\n", "")


@pytest.mark.parametrize("command", ["ping", "list queues", "inspect"])
def test_another_users_data_directory_is_named_with_its_user(run: Run, tmp_path: Path, command: str) -> None:
    directory = tmp_path / "closed" / "data"
    directory.mkdir(parents=True)
    owner = pwd.getpwuid(os.geteuid()).pw_name
    run(*command.split(), "--data-dir", str(directory))  # imports what the other user may be unable to read
    directory.parent.chmod(0)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        outcome = run(*command.split(), "--data-dir", str(directory))
    finally:
        if is_root:
            os.seteuid(0)
        directory.parent.chmod(0o700)
    said = "the data directory {} is for the user {owner} alone: run this as that user (sudo -u {owner} "
    assert (outcome.code, said.format(directory, owner=owner) in outcome.err) == (1, True)
    if is_root:  # which could write there, and would leave files of its own
        os.chown(directory, 65534, 65534)
        outcome = run("user", "list", "--data-dir", str(directory))
        assert (outcome.code, said.format(directory, owner=pwd.getpwuid(65534).pw_name) in outcome.err) == (1, True)


@pytest.mark.parametrize("answer", [b"", b'{"ok": 1'])
def test_a_broker_that_ends_before_it_answers_is_told(tmp_path: Path, peer: Peer, answer: bytes) -> None:
    peer.answer = answer
    with pytest.raises(AdministrationError, match="ended before it answered") as caught:
        ask(tmp_path, "ping", {}, 5.0)
    assert caught.value.kind == "failed"


def test_a_data_directory_may_have_a_long_path_and_a_socket_that_nobody_listens_on(tmp_path: Path) -> None:
    directory = tmp_path / ("long" * 30) / ("longer" * 20)
    directory.mkdir(parents=True)
    with closing(Peer(directory)):
        assert ask(directory, "ping", {}, 5.0) is None
    with pytest.raises(NotRunning):
        ask(directory, "ping", {}, 5.0)


BUG = ValueError("bug")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConfigError("leveret.toml: wrong"), "leveret.toml: wrong"),
        (StoreLocked("held"), "held"),
        (OSError(errno.EADDRINUSE, "Address already in use"), "Address already in use"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "/x: Permission denied"),
        (ExceptionGroup("tasks", [StoreLocked("held")]), "held"),
        (BUG, None),
        (ExceptionGroup("tasks", [StoreLocked("held"), BUG]), None),
    ],
)
def test_expected_errors_are_one_line_and_a_bug_is_not_hidden(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, line: str | None
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(leveret, "main", fail)
    if line is None:
        with pytest.raises(type(error)):
            main()
    else:
        assert run("serve") == (1, "", f"leveret: error: {line}\n")


@pytest.mark.parametrize("arguments", [["nonsense"], ["user"], ["list", "dogs"], ["serve", "--port", "1"], []])
def test_wrong_usage_ends_with_2(run: Run, arguments: list[str]) -> None:
    assert run(*arguments).code == 2


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("list_queues", "did you mean `leveret list queues`? RabbitMQ's own is `leveret rabbitmqctl list_queues`"),
        ("add_user", "did you mean `leveret user add`?"),
        ("version", "did you mean `leveret --version`?"),
        ("sync_queue", "RabbitMQ's own is `leveret rabbitmqctl sync_queue`"),
        ("connection", "did you mean `leveret list connections`?"),
        ("statsu", "did you mean `leveret status`?"),
        ("xyzzy", "`leveret --help` lists all"),
        ("serve --port 1", "did you mean --listen?"),
        ("--port 1 serve", "did you mean `leveret serve --listen`?"),
        ("--node a list queues", "did you mean --data-dir?"),
        ("--xyzzy", "--help lists all"),
        ("list queues --format json", "did you mean --json?"),
        ("ping --port 1", "--help lists all"),
        ("get -n 3 q", "did you mean --count?"),
        ("user create x", "did you mean `leveret user add`?"),
        ("vhost remove x", "did you mean `leveret vhost delete`?"),
        ("policy sett x", "did you mean `leveret policy set`?"),
        ("config set x", "there are check, show"),
        ("health check", "did you mean `leveret health running`?"),
        ("restore", "BACKUP is missing; for example: leveret restore /var/backups/leveret-monday --replace"),
    ],
)
def test_what_was_meant_is_suggested(run: Run, line: str, hint: str) -> None:
    code, _, err = run(*line.split())
    assert (code, err.startswith("Usage: "), f": {hint}" in err.splitlines()[-1]) == (2, True, True)


def test_a_list_without_a_kind_names_the_kinds(run: Run) -> None:
    said = run("list").err.splitlines()[-1]
    assert said.startswith("Error: KIND is missing, one of queues, exchanges, bindings, ")
    assert said.endswith("; for example: leveret list queues name messages consumers")


@pytest.mark.parametrize("command", ["status", "list queues", "user add x y", "backup b"])
def test_a_file_is_no_data_directory(run: Run, tmp_path: Path, command: str) -> None:
    file = tmp_path / "file"
    file.touch()
    error = f"leveret: error: {file} is a file: expected a data directory (--data-dir, LEVERET_DATA_DIR)\n"
    assert run(*command.split(), "--data-dir", str(file)) == (1, "", error)


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        ('<<"five">> is not a valid maximum length', '"five" is not a valid maximum length'),
        ('[{<<"a">>,5},{<<"b">>,<<"x">>}] are not recognised', '{"a": 5, "b": "x"} are not recognised'),
        ('invalid: {"missing closing parenthesis",1}', "invalid: missing closing parenthesis at position 1"),
    ],
)
def test_no_erlang_is_spoken(run: Run, peer: Peer, refusal: str, said: str) -> None:
    peer.answer = json.dumps({"error": {"kind": "invalid", "message": refusal}}).encode() + b"\n"
    assert run("policy", "set", "p", "^q", '{"a":5}').err == f"leveret: error: {said}\n"


def test_one_long_name_does_not_widen_a_table(run: Run, peer: Peer) -> None:
    peer.answers([{"name": "a", "messages": 1}, {"name": "n" * 255, "messages": 2}])
    assert run("list", "queues", "name", "messages").out.splitlines() == [
        "name  messages",
        "a     1",
        f"{'n' * 255}  2",
    ]


def commands() -> dict[str, CommandWithExample]:
    """Every command but RabbitMQ's, by its words."""
    with click.Context(leveret) as ctx:
        return dict(plain_commands(leveret, ctx))


def test_names_that_others_have_for_a_command_mean_one() -> None:
    meant = {name: command for command in commands().values() for name in command.elsewhere}
    assert all(meant[name] is command for command in commands().values() for name in command.elsewhere)
    assert len(meant) > 40


def test_every_command_has_an_example_that_its_command_line_takes(run: Run) -> None:
    found = commands()
    assert {name.partition(" ")[0] for name in found} == TOP.keys() - LINKS
    for path, command in found.items():
        own = " ".join([*path.split()[:-1], str(command.name)])  # `policy delete` is another name of `policy clear`
        example = f"{own} {command.example}".rstrip()
        assert run(*path.split(), "--help").out.endswith(f"  Example: leveret {example}\n")
        words = shlex.split(f" {command.example}".split(" > ")[0])  # no redirection into a file
        with command.make_context(path, words):
            pass


def test_every_verb_explains_itself(run: Run) -> None:
    overview = run("--help").out
    assert "Exit codes: 0 success" in overview
    for verb in TOP:
        assert f"  {verb} " in overview
        explained = run(verb, "--help").out
        assert verb in LINKS or f"Example: leveret {verb} " in f"{explained.strip()} "
        assert explained.startswith(f"Usage: leveret {verb}") or (verb in LINKS and f"{verb} [" in explained)


def test_the_version_is_shown(run: Run) -> None:
    assert run("--version").out.startswith("leveret 0.")


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("broker.cli.main", {"trio", "lmdb", "aiosqlite", "asyncio"}),
        ("broker.server.serve", {"h11"}),
        ("pipeline.stopped_store.data_directory", {"pika", "pyarrow", "pyspark"}),
    ],
    ids=["the command line", "a broker without HTTP", "leveret inspect"],
)
def test_what_is_not_needed_is_not_loaded(module: str, unwanted: set[str]) -> None:
    """Starting the broker is in a hurry."""
    program = f"import sys, {module}; print(sorted({unwanted} & sys.modules.keys()))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True, timeout=60
    )
    assert loaded.stdout == "[]\n"


def test_a_package_of_ours_is_not_mixed_with_another_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has imported a `storage` of its own gets an error; otherwise ours are searched first."""
    monkeypatch.setattr(sys, "path", ["elsewhere"])
    use_packages()
    assert sys.path == [str(ROOT), "elsewhere"]
    other = ModuleType("storage")
    other.__file__ = "/app/storage/__init__.py"
    monkeypatch.setitem(sys.modules, "storage", other)
    with pytest.raises(
        ImportError, match=r"^storage of /app/storage/__init__\.py is imported already; Leveret's is in "
    ):
        use_packages()


@pytest.mark.parametrize(("pip", "command"), [(ModuleType("pip"), "{python} -m pip"), (None, "pip --python {python}")])
def test_a_hint_is_a_command_for_this_environment(
    monkeypatch: pytest.MonkeyPatch, pip: ModuleType | None, command: str
) -> None:
    if pip is not None:
        pip.__spec__ = ModuleSpec("pip", None)
    monkeypatch.setitem(sys.modules, "pip", pip)
    assert how_to_install("x") == f"{command.format(python=sys.executable)} install 'leveret[x]'"


# Messages, of a running broker


@pytest.mark.parametrize("option", ["--uri", "--host", "--user", "--password-file", "--vhost"])
def test_an_empty_option_is_no_default(run: Run, option: str) -> None:
    """A variable that is not set would send messages to, or take them from, a broker that nobody meant."""
    code, _, err = run("get", "q", option, "")
    assert (code, err.splitlines()[-1]) == (2, f"Error: {option} is empty: is a variable not set?")


def test_messages_are_published_and_read(run: Run, fresh_broker: BrokerProcess) -> None:
    def leveret(line: str, stdin: str = "") -> Outcome:
        return run(*line.split(), "--data-dir", str(fresh_broker.data_dir), stdin=stdin)

    unrouted = "leveret: error: no queue takes the key 'q' of the default exchange: NO_ROUTE\n"
    assert leveret("publish q hello") == (1, "", unrouted)
    done = leveret("publish q hello --declare --header n=5 --property type=t")
    assert (done.code, done.out.startswith("1 message to queue q, confirmed in ")) == (0, True)
    assert leveret("publish q --lines", "a\nb\n").out.startswith("2 messages to queue q, ")
    leveret("publish q -", "whole\ninput")
    (kept,) = leveret("get q --keep --json").out.splitlines()
    assert json.loads(kept) == {
        "exchange": "",
        "routing_key": "q",
        "redelivered": False,
        "properties": {"headers": {"n": 5}, "delivery_mode": 2, "type": "t"},
        "payload": "hello",
        "payload_encoding": "string",
    }
    shown = leveret("peek q --count 2 --bodies 4")
    assert [line.split() for line in shown.out.splitlines()] == [
        ["position", "redelivered", "exchange", "routing_key", "payload_bytes", "body"],
        ["0", "true", "q", "5", "hell"],
        ["1", "false", "q", "1", "a"],
    ]
    assert shown.err == "there may be more: --offset 2\n"
    (found,) = leveret("peek q --header n:5 --json").out.splitlines()
    assert (json.loads(found)["payload"], json.loads(found)["message_count"]) == ("hello", 3)
    assert leveret("peek other").err == "leveret: error: no queue 'other' in vhost '/'\n"
    assert leveret("get q --count 2") == (0, "hello\na\n", "")
    assert leveret("consume q --count 2") == (0, "b\nwhole\ninput\n", "")
    assert leveret("get q") == (1, "", "leveret: error: queue 'q' is empty\n")
    assert leveret("get other").err == "leveret: error: 404 NOT_FOUND - no queue 'other' in vhost '/'\n"
    assert leveret("publish q x --property size=5").code == 2
    assert "LEVERET_PASSWORD" in leveret("get q --user other").err
    assert leveret("get q --tls").err.endswith(
        "listens without TLS only: leave out --tls; --host or --uri names another one\n"
    )
    figures = json.loads(leveret("bench --seconds 0.3 --size 10 --json").out)
    assert figures["published_per_second"] > 0
    assert [row["name"] for row in fresh_broker.tell("list_queues", vhost="/")] == ["q"]
    log = fresh_broker.log()
    assert ("NOT_FOUND - no queue 'other' in vhost '/'" in log, "unexpectedly" in log) == (True, False)


@pytest.mark.parametrize(
    ("line", "seen"),
    [("tail amq.topic --key a.#", "amq.topic  a.b  hi"), ("tail", f"{FIREHOSE}  publish.amq.topic  hi")],
)
def test_messages_are_watched_as_they_are_published(
    run: Run, fresh_broker: BrokerProcess, line: str, seen: str
) -> None:
    here = ["--data-dir", str(fresh_broker.data_dir)]
    program = [sys.executable, "-m", "broker", *line.split(), "--count", "1", *here]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stderr is not None
        assert watching.stderr.readline() == "watching; ^C ends it\n"
        run("publish", "a.b", "hi", "--exchange", "amq.topic", *here)
        assert watching.communicate(timeout=60) == (f"{seen}\n", "")
