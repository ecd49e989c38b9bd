"""Passwords are shown to nobody: not in the log at its most talkative, not in answers, not in what a start refuses.

And what holds their hashes is its owner's alone.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.admin.protocol import SOCKET_NAME, AdministrationError
from broker.session.login.sasl import Login
from broker.wire.field_tables import encode_table, from_python
from broker.wire.frames import PROTOCOL_HEADER, method_frame
from broker.wire.methods import ConnectionStart, ConnectionStartOk, ConnectionUpdateSecret
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.copied_commands import run_text
from harness.brokers.http_broker import Caller, request, web_address
from harness.clients.wire_client import Client
from harness.project import ROOT
from harness.waiting import eventually
from tests.unit.conftest import Configured

SECRET = "hunter2hunter2"
LOGGED = 'logs = {level = "debug"}\nmanagement = {listen = ["127.0.0.1:0"]}\n'


def shows(text: str) -> list[str]:
    """In which disguises a text shows the secret."""
    raw = SECRET.encode()
    disguises = [SECRET, base64.b64encode(raw).decode().rstrip("="), raw.hex(), str(list(raw))[1:-1], SECRET[:8]]
    return [disguise for disguise in disguises if disguise in text]


def responses() -> list[tuple[str, bytes]]:
    """Ways to send the secret, most of them wrong. None has it in the user's place: names of users are logged."""
    raw = SECRET.encode()
    login = encode_table(from_python({"LOGIN": "guest", "PASSWORD": SECRET}))[4:]
    return [
        ("PLAIN", b"\0guest\0" + raw),
        ("PLAIN", b"\0guest\0" + raw + b"\0more"),
        ("PLAIN", raw),
        ("AMQPLAIN", login),
        ("AMQPLAIN", login[:-3]),
        ("AMQPLAIN", raw),
        ("AMQPLAIN", encode_table(from_python({"LOGIN": 5, "PASSWORD": SECRET}))[4:]),
        ("NONE SUCH", raw),
        ("EXTERNAL", raw),
    ]


def say_wrongly(process: BrokerProcess) -> None:
    """Send connection.start-ok frames that cannot be decoded, with the secret in them."""
    whole = method_frame(0, ConnectionStartOk({}, "PLAIN", b"\0guest\0" + SECRET.encode(), "en_US"))
    size = struct.unpack(">I", whole[3:7])[0]
    damaged = [
        whole[:3] + struct.pack(">I", size - 4) + whole[7:],  # the end is not where it should be
        whole[:-1] + b"x",
        whole.replace(struct.pack(">I", 7 + len(SECRET)), struct.pack(">I", 5000), 1),
        whole.replace(b"\0\x0a\0\x0b\0\0\0\0", b"\0\x0a\0\x0b\0\0\0\x10", 1),
    ]
    for frame in damaged:
        client = Client(process.address)
        client.send_raw(PROTOCOL_HEADER)
        client.expect(ConnectionStart, channel=0)
        client.send_raw(frame)
        client.close()


def administer(process: BrokerProcess) -> str:
    """Everything in which a password may be told to the broker by its operator; what it answers."""
    answers = []
    user = {"name": "app", "password": SECRET, "tags": []}
    commands: list[tuple[str, dict[str, Any]]] = [
        ("add_user", user),
        ("add_user", user),
        ("add_user", {**user, "name": "", "tags": 5}),
        ("add_user", {"name": "x", "password": [SECRET]}),
        ("change_password", {"name": "app", "password": SECRET + "2"}),
        ("change_password", {"name": "nobody", "password": SECRET}),
        ("put_user", user),
        ("put_user", {**user, "password": {"x": SECRET}}),
        ("authenticate_user", {"name": "app", "password": SECRET}),
        ("import_definitions", {"definitions": {"users": [{"name": "new", "password": SECRET, "tags": ""}]}}),
        ("import_definitions", {"definitions": {"users": [{"name": "new", "password": {"x": SECRET}, "tags": ""}]}}),
        ("import_definitions", {"definitions": {"users": [{"name": 5, "password": SECRET, "tags": ""}]}}),
        ("import_definitions", {"definitions": {"users": [{"nam": "new", "password": SECRET}]}}),
        ("import_definitions", {"definitions": {"users": [{**user, "name": "new", "limits": {"a": 1}}]}}),
        (SECRET, user),
        ("list_users", {}),
        ("list_connections", {}),
        ("status", {}),
        ("export_definitions", {}),
    ]
    for command, arguments in commands:
        try:
            answers.append(json.dumps(process.tell(command, **arguments)))
        except AdministrationError as error:
            answers.append(str(error))
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(process.data_dir / SOCKET_NAME))
        peer.sendall(f'{{"command": "add_user", "arguments": {{"password": "{SECRET}"\n'.encode())
        answers.append(peer.recv(4096).decode())
    return "\n".join(answers)


def say_by_http(process: BrokerProcess) -> str:
    """Requests with the secret where it belongs and where it does not; what the broker answers."""
    coded = base64.b64encode(f"guest:{SECRET}".encode()).decode()
    path = "/api/events"
    right = request(path, user=f"guest:{SECRET}")
    lines = [
        right,
        request(path, user=SECRET),
        request(path, "GET", f"Authorization: Basic {coded}"),
        right.replace(b"Authorization:", b"Authorization\x01:"),
        right.replace(b"Basic", b"Basic\x01"),
        right.replace(b"Basic", b"Bearer"),
        right[:-2] + b"X: " + SECRET.encode() * 1000,
        request(f"{path}?password={SECRET}"),
        request(f"{path}/{SECRET}"),
        request(f"http://guest:{SECRET}@broker{path}"),
        request(f"http://guest:{SECRET}@[{path}"),
        f"{SECRET}\r\n\r\n".encode(),
        f"GET / {SECRET}\r\n\r\n".encode(),
        f"GET / HTTP/1.1\r\n{SECRET}\r\n\r\n".encode(),
        f"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: {SECRET}\r\n\r\n".encode(),
    ]
    json_type = "Content-Type: application/json"
    for method, target, kind, body in (
        ("PUT", "/api/users/http", json_type, {"password": SECRET, "tags": ""}),
        ("PUT", "/api/users/http", json_type, {"password": [SECRET], "tags": ""}),
        ("PUT", "/api/users/http", json_type, {"password": SECRET, "password_hash": SECRET, "tags": ""}),
        ("PUT", "/api/users/http", json_type, {"password_hash": SECRET + "!", "tags": ""}),
        ("PUT", "/api/users/http", json_type, {"password": SECRET, "tags": 5}),
        ("POST", "/api/definitions", json_type, {"users": [{"name": 5, "password": SECRET}]}),
        ("POST", "/api/definitions", json_type, SECRET),
        ("POST", "/api/login", "Content-Type: application/x-www-form-urlencoded", f"username=guest&password={SECRET}"),
        ("GET", f"/api/definitions?auth={coded}", json_type, ""),
        ("GET", f"/api/auth/hash_password/{SECRET}", json_type, ""),
    ):
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        lines.append(request(target, method, kind, f"Content-Length: {len(data)}") + data)
    answers = []
    for line in lines:
        caller = Caller(web_address(process))
        caller.say(line)
        answers.append(str(caller.hear()))
        caller.close()
    return "\n".join(answers)


@pytest.mark.slow
def test_no_password_is_ever_shown(configured: Configured) -> None:
    talkative = configured(LOGGED)
    by_http = say_by_http(talkative)
    say_wrongly(talkative)
    clients = []
    for mechanism, response in responses():
        client = Client(talkative.address)
        client.start(mechanism=mechanism, response=response, capabilities={})
        clients.append(client)
    answers = administer(talkative)
    logged_in = Client.connect(talkative.address)
    logged_in.ask(ConnectionUpdateSecret(SECRET.encode(), "token expired"), channel=0)
    eventually(lambda: "secret of user 'guest' updated" in talkative.log(), "the update to be logged")
    eventually(lambda: talkative.log().count("refused") >= 2, "the refusals")
    for client in [*clients, logged_in]:
        client.close()
    assert talkative.stop() == 0
    assert shows(talkative.log()) == []
    assert shows(answers) == []
    assert shows(by_http) == []
    assert "user 'app' is added, by the command line" in talkative.log(), "who was added is logged, with what is not"


def test_a_login_does_not_print_its_password() -> None:
    assert repr(Login("app", SECRET.encode())) == "Login(user='app')"


@pytest.mark.parametrize(
    "setting", [f'[defaults]\npassword = ["{SECRET}"]\n', f'[tls]\nkey_password = {{a = "{SECRET}"}}\n']
)
def test_a_setting_that_does_not_fit_is_not_shown(tmp_path: Path, setting: str) -> None:
    config = tmp_path / "leveret.toml"
    config.write_text(setting)
    ended = run_text("serve", "--config", str(config), "--data-dir", str(tmp_path / "data"))
    assert ended.returncode == 1
    assert "expected text" in ended.stderr
    assert shows(ended.stdout + ended.stderr) == []


# Files


def open_to_others(directory: Path) -> list[str]:
    """Return files that others than the owner may touch."""
    return [
        path.relative_to(directory).as_posix()
        for path in [directory, *directory.rglob("*")]
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    ]


@pytest.fixture
def careless() -> Iterator[None]:
    """A umask that lets everybody do everything."""
    before = os.umask(0)
    yield
    os.umask(before)


def run(process: BrokerProcess, *command: str) -> None:
    """A command of the command line, which inherits the umask."""
    whole = [sys.executable, "-m", "broker", *command, "--data-dir", str(process.data_dir)]
    done = subprocess.run(whole, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_files_are_their_owner_s_whatever_the_umask(careless: None, tmp_path: Path) -> None:
    """Those that were open to others are closed, but the data directory, of which the log says so."""
    tmp_path.chmod(0o700)
    process = BrokerProcess(tmp_path / "data")
    process.start()
    assert open_to_others(process.data_dir) == [], "the socket for commands is there meanwhile"
    run(process, "backup", str(tmp_path / "copy"))
    run(process, "export", "definitions", str(tmp_path / "definitions.json"))
    assert process.stop() == 0
    run(process, "user", "add", "app", "secret")
    run(process, "backup", str(tmp_path / "second copy"))
    process.log_file.unlink()
    assert open_to_others(tmp_path) == []
    directory = process.data_dir
    for path in [directory, *directory.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    process.start()
    log = process.log()
    assert f"{directory}/definitions.sqlite was open to others (mode 0644): permissions of others removed" in log
    assert f"{directory}/messages was open to others (mode 0755): permissions of others removed" in log
    assert f"the data directory {directory} is open to others (mode 0755): chmod 700" in log
    assert open_to_others(directory) == ["."]
    assert process.stop() == 0
