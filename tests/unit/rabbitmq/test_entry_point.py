"""The image's entry point in a root made for the test: what RabbitMQ's image reads, and what tools wait for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.cli.main import LINKS
from broker.config import ConfigError
from broker.rabbitmq.conf.enabled_plugins import read_plugins
from broker.rabbitmq.container.entry_point import OWN_CONFIG_FILE, data_directory, read_image
from broker.rabbitmq.container.environment_variables import OBEYED, ImageEnvironment
from broker.wire.methods import ConnectionTune
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import ask, web_address
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from harness.project import ROOT

PROGRAM = (sys.executable, "-m", "broker.rabbitmq.container")
CONF, PLUGINS = "etc/rabbitmq/rabbitmq.conf", "etc/rabbitmq/enabled_plugins"
LOOPBACK = "listeners.tcp.1 = 127.0.0.1:0\n"
HTTP = "management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = 0\n"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user, and give files away")


class ContainerProcess(BrokerProcess):
    """The entry point, in the file system of an image below a directory."""

    def __init__(self, root: Path, files: dict[str, str], **variables: str) -> None:
        super().__init__(root / "var/lib/rabbitmq/leveret", environment={**bare(root), **variables})
        self.log_file = root.parent / f"{root.name}.log"
        self.program = PROGRAM
        for name, text in {CONF: LOOPBACK, PLUGINS: "[].", **files}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

    def arguments(self) -> list[str]:
        return []

    @contextmanager
    def held(self) -> Iterator[ContainerProcess]:
        self.start()
        yield self
        assert self.stop() == 0, "within shutdown.timeout_seconds"


def bare(root: Path) -> dict[str, str]:
    """The environment of an image, without what the test run has of RabbitMQ's and ours."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "LEVERET_"))}
    return {**ours, "LEVERET_ROOT": str(root)}


def test_a_container_reads_what_rabbitmqs_image_reads(tmp_path: Path) -> None:
    queues = [{"name": "defined", "vhost": "/", "durable": True, "arguments": {}}]
    files = {
        CONF: f"{LOOPBACK}{HTTP}heartbeat = 7\nload_definitions = /definitions.json\n",
        "etc/rabbitmq/conf.d/20-more.conf": "heartbeat = 8\nnet_ticktime = 60\n",
        "etc/rabbitmq/conf.d/not-read": "what = ever\n",
        "etc/leveret/leveret.toml": "[limits]\nheartbeat_seconds = 9\nchannel_max = 99\n",
        "definitions.json": json.dumps({"queues": queues}),
        "etc/rabbitmq/advanced.config": "[].\n",
        PLUGINS: "% a\n[ rabbitmq_management ,\n 'rabbitmq_mqtt' % b\n] .\n",
        "run/secrets/password": "secret\n",
    }
    variables = {"RABBITMQ_DEFAULT_USER": "app", "RABBITMQ_DEFAULT_PASS_FILE": "/run/secrets/password"}
    variables["RABBITMQ_NODENAME"] = "rabbit@here"
    without_effect = {"RABBITMQ_LOGS": "-", "RABBITMQ_ERLANG_COOKIE": "cookie"}
    with ContainerProcess(tmp_path / "root", files, **variables, **without_effect).held() as container:
        client = Client(container.address)
        client.start(user="app", password="secret")
        tune = client.expect(ConnectionTune, channel=0)
        assert (tune.heartbeat, tune.channel_max) == (8, 99)
        client.close()
        assert [row["name"] for row in container.tell("list_queues", vhost="/")] == ["defined"]
        overview = ask(web_address(container), "/api/overview?columns=node", user="app:secret")
        assert json.loads(overview.body) == {"node": "rabbit@here"}
    log, advanced = container.log(), tmp_path / "root/etc/rabbitmq/advanced.config"
    ignored = f"without effect here: net_ticktime, {advanced}, RABBITMQ_ERLANG_COOKIE, RABBITMQ_LOGS\n"
    assert log.count("without effect") == log.count(ignored) == 1
    assert "user guest" not in log
    assert log.count("plugins without a counterpart here: rabbitmq_mqtt\n") == 1
    assert re.search(r"Server startup complete; 3 plugins started\.\n.* \* rabbitmq_management\n", log)


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True], ids=["rabbitmq's volume", "our own, where it is mounted"])
def test_it_keeps_what_is_in_its_volume(tmp_path: Path, *, own: bool) -> None:
    container = ContainerProcess(tmp_path / "root", {"var/lib/leveret/.keep": ""} if own else {})
    with container.held():
        client = Client.connect(container.address)
        client.ask(queue_declare("kept", durable=True))
        deposit(client, b"hello", key="kept", properties=PERSISTENT)
        client.close()
    assert container.data_dir.resolve() == (tmp_path / "root/var/lib/leveret" if own else container.data_dir)
    with container.held():
        client = Client.connect(container.address)
        assert drain(client, "kept") == [b"hello"]
        client.close()


@pytest.mark.slow
@pytest.mark.parametrize("metrics", [True, False], ids=["metrics", "no metrics"])
def test_its_health_check_asks_whether_clients_are_accepted(tmp_path: Path, *, metrics: bool) -> None:
    """By HTTP, and by `leveret ping` where nothing is on the metrics port."""
    assert 'CMD ["leveret-healthcheck"]' in DOCKERFILE
    files = {CONF: f"{LOOPBACK}prometheus.tcp.ip = 127.0.0.1\nprometheus.tcp.port = 0\n"}
    files[PLUGINS] = "[rabbitmq_prometheus]." if metrics else "[]."
    check, command, ping = (tmp_path / name for name in ("check", "bin/leveret", "pinged"))
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\necho "$1" > {ping}\nexec {sys.executable} -m broker "$@"\n')
    command.chmod(0o755)

    def healthy() -> bool:
        environment = {**bare(tmp_path), "LEVERET_DATA_DIR": str(container.data_dir)}
        environment["PATH"] = f"{command.parent}:{environment['PATH']}"
        return subprocess.run(["bash", check], env=environment, cwd=ROOT, check=False).returncode == 0

    container = ContainerProcess(tmp_path / "root", files)
    with container.held():
        port = web_address(container, "metrics")[1] if metrics else 1
        check.write_text((ROOT / "deploy/healthcheck.bash").read_text().replace("15692", str(port)))
        assert healthy()
        assert ping.exists() is not metrics
    assert not healthy()


@pytest.mark.slow
def test_a_user_that_everybody_knows_is_warned_of_while_there_is_one(tmp_path: Path) -> None:
    """Settings are for a new data directory: guest stays there when they name another user."""
    container = ContainerProcess(tmp_path / "root", {})
    warning = "user guest with password guest may log in from any address, as in RabbitMQ's image: "
    with container.held():
        assert container.log().count(warning) == 1
    assert container.environment is not None
    container.environment["RABBITMQ_DEFAULT_USER"] = "app"
    with container.held():
        assert container.log().count(warning) == 2
        container.tell("delete_user", name="guest")
    del container.environment["RABBITMQ_DEFAULT_USER"]
    with container.held():
        assert container.log().count(warning) == 2


@pytest.mark.parametrize(
    ("files", "variables", "said"),
    [
        ({CONF: "heartbeat = x"}, {}, "rabbitmq.conf:1: heartbeat: expected a whole number"),
        ({"etc/custom.conf": "a"}, {"RABBITMQ_CONFIG_FILE": "/etc/custom"}, "custom.conf:1: expected KEY = VALUE"),
        *(
            ({PLUGINS: text}, {}, "enabled_plugins: expected a list of plugins such as [rabb")
            for text in ("[a,].", "[A].")
        ),
        ({}, {"RABBITMQ_NODE_PORT": "x"}, "RABBITMQ_NODE_PORT: expected a port between 0 and 65535, got x"),
        ({}, {"RABBITMQ_DEFAULT_PASS_FILE": "/no"}, "RABBITMQ_DEFAULT_PASS_FILE: {root}/no: cannot be read: No such"),
        ({}, {"RABBITMQ_DEFAULT_USER_FILE": "/no", "RABBITMQ_DEFAULT_USER": "a"}, "RABBITMQ_DEFAULT_USER and RABBITMQ"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, files: dict[str, str], variables: dict[str, str], said: str) -> None:
    container = ContainerProcess(tmp_path / "root", files, **variables)
    assert not container.try_to_start()
    assert container.wait() == 1
    assert re.fullmatch(r"leveret: error: .*\n", container.log())
    assert said.format(root=tmp_path / "root") in container.log()


@AS_ROOT
@pytest.mark.parametrize(("name", "uid"), [("rabbitmq-who", 54321), ("who", 0)])
def test_rabbitmqs_commands_are_run_as_its_user_and_others_as_they_are(name: str, uid: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "etc").mkdir()
        (root / "etc/passwd").write_text("root:x:0:0\nrabbitmq:x:54321:54322::/:/bin/sh\n")
        (root / name).write_text("#!/bin/sh\necho $(id -u) $(id -g) $*\n")
        for path in (root, root / name):
            path.chmod(0o755)
        environment = {**bare(root), "PATH": f"{root}:{os.environ['PATH']}"}
        run = subprocess.run([*PROGRAM, name, "a"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    assert run.stdout.decode().split() == [str(uid), str(uid and 54322), "a"]


@AS_ROOT
def test_a_volume_becomes_the_users_own_and_nothing_beside_it(tmp_path: Path) -> None:
    files = {"etc/passwd": f"rabbitmq:x:{os.geteuid()}:7::/:/bin/sh\n", "var/lib/rabbitmq/leveret/sub/file": "x"}
    container = ContainerProcess(tmp_path / "root", files)
    for place in ("..", "", "sub", "sub/file"):
        os.chown(container.data_dir / place, 54321, 54322)
    with container.held():
        groups = [(container.data_dir / place).stat().st_gid for place in ("..", "", "sub", "sub/file")]
    assert groups == [54322, 7, 7, 7]


@AS_ROOT
def test_a_volume_of_another_user_is_said_with_the_cure() -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        os.seteuid(54321)
        try:
            with pytest.raises(ConfigError, match=r"user 54321:0 may not write here; `chown -R 54321:0`"):
                data_directory(Path(directory))
        finally:
            os.seteuid(0)


def test_the_image_has_rabbitmqs_files_ports_and_names(tmp_path: Path) -> None:
    fixed = {"EXPOSE 5671 5672 15671 15672 15692", "VOLUME /var/lib/rabbitmq", "USER 999:999"}
    assert fixed <= set(DOCKERFILE.splitlines())
    names = {*LINKS, "rabbitmq-server"}
    assert names <= set(re.findall(r"rabbitmq[a-z-]*", DOCKERFILE.partition("\nFROM python:${PYTHON}-slim\n")[2]))
    shutil.copytree(ROOT / "deploy/container", tmp_path / "root/etc/rabbitmq")
    image = ImageEnvironment(tmp_path / "root", {})
    config = read_image(image, tmp_path).config
    assert (config.defaults.loopback_users, config.server.listen) == ((), ("0.0.0.0:5672", "[::]:5672"))
    kept = ImageEnvironment(tmp_path / "root", {"LEVERET_LOOPBACK_USERS": "guest", "LEVERET_LISTEN": "127.0.0.1:1"})
    config = read_image(kept, tmp_path).config
    assert (config.defaults.loopback_users, config.server.listen) == (("guest",), ("127.0.0.1:1",))
    assert read_plugins(image.plugins_file) == read_plugins(tmp_path / "none"), "what is enabled without the file"


def test_the_compose_file_uses_what_the_image_has() -> None:
    text = (ROOT / "deploy/compose.yaml").read_text()
    ports = set(re.findall(r'- "(?:[\d.]+:)?\d+:(\d+)"', text))
    assert ports <= set(DOCKERFILE.partition("\nEXPOSE ")[2].partition("\n")[0].split())
    assert {"data:/var/lib/rabbitmq", f"./leveret.toml:{OWN_CONFIG_FILE}:ro"} <= set(re.findall(r"\S+:/\S+", text))
    variables = set(re.findall(r"(?:RABBITMQ|LEVERET)_\w+", text))
    assert variables <= OBEYED
