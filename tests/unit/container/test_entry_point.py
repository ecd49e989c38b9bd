"""The image's entry point in a root made for the test: what RabbitMQ's image reads, and what tools wait for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.config import ConfigError
from broker.container.entry_point import read_image
from broker.container.image_environment import ImageEnvironment
from broker.rabbitmq_conf.enabled_plugins import read_plugins
from broker.wire.methods import ConnectionTune
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from harness.project import ROOT

PROGRAM = (sys.executable, "-m", "broker.container")
LOOPBACK = "listeners.tcp.1 = 127.0.0.1:0\n"
DEFINITIONS = {"queues": [{"name": "defined", "vhost": "/", "durable": True, "arguments": {}}]}
PLUGINS = "etc/rabbitmq/enabled_plugins"
Files = dict[str, str]


class ContainerProcess(BrokerProcess):
    """The entry point, in the file system of an image below a directory."""

    def __init__(self, root: Path, files: Files, **variables: str) -> None:
        super().__init__(root / "var/lib/rabbitmq/leveret", environment={**bare(root), **variables})
        self.log_file = root.parent / f"{root.name}.log"
        self.program = PROGRAM
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

    def arguments(self) -> list[str]:
        return []


def bare(root: Path) -> dict[str, str]:
    """The environment of an image, without what the test run has of RabbitMQ's and ours."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "LEVERET_"))}
    return {**ours, "LEVERET_ROOT": str(root)}


Boot = Callable[..., ContainerProcess]


@pytest.fixture
def boot(tmp_path: Path) -> Iterator[Boot]:
    """A function that starts a container with files and variables; it is stopped at the end."""
    started: list[ContainerProcess] = []

    def boot(files: Files, **variables: str) -> ContainerProcess:
        started.append(ContainerProcess(tmp_path / "root", {PLUGINS: "[].", **files}, **variables))
        started[-1].start()
        return started[-1]

    yield boot
    for process in started:
        process.stop()


def test_a_container_reads_what_rabbitmqs_image_reads(boot: Boot) -> None:
    container = boot(
        {
            "etc/rabbitmq/rabbitmq.conf": f"{LOOPBACK}heartbeat = 7\nload_definitions = /definitions.json\n",
            "etc/rabbitmq/conf.d/20-more.conf": "heartbeat = 8\nnet_ticktime = 60\n",
            "etc/rabbitmq/conf.d/not-read": "what = ever\n",
            "definitions.json": json.dumps(DEFINITIONS),
            "etc/rabbitmq/advanced.config": "[].\n",
            PLUGINS: "[rabbitmq_consistent_hash_exchange,rabbitmq_mqtt].\n",
            "run/secrets/password": "secret\n",
        },
        RABBITMQ_DEFAULT_USER="app",
        RABBITMQ_DEFAULT_PASS_FILE="/run/secrets/password",
        RABBITMQ_DEFAULT_VHOST="/",
        RABBITMQ_NODENAME="rabbit@here",
        RABBITMQ_ERLANG_COOKIE="cookie",
    )
    client = Client(container.address)
    client.start(user="app", password="secret")
    assert client.expect(ConnectionTune, channel=0).heartbeat == 8
    client.close()
    assert [row["name"] for row in container.tell("list_queues", vhost="/")] == ["defined"]
    log = container.log()
    advanced = container.data_dir.parents[3] / "etc/rabbitmq/advanced.config"
    ignored = f"without effect here: net_ticktime, {advanced}, RABBITMQ_ERLANG_COOKIE, RABBITMQ_NODENAME\n"
    assert log.count("without effect") == log.count(ignored) == 1
    assert log.count("plugins without a counterpart here: rabbitmq_mqtt\n") == 1
    assert re.search(r"Server startup complete; 1 plugins started\.\n.* \* rabbitmq_consistent_hash_exchange\n", log)


def test_it_answers_health_checks_stops_in_time_and_keeps_its_volume(boot: Boot) -> None:
    container = boot({"etc/rabbitmq/rabbitmq.conf": LOOPBACK})
    command = (sys.executable, "-m", "broker", "ping")
    environment = {**bare(container.data_dir), "LEVERET_DATA_DIR": str(container.data_dir)}
    assert subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout == b"pong\n"
    client = Client.connect(container.address)
    client.ask(queue_declare("kept", durable=True))
    deposit(client, b"hello", key="kept", properties=PERSISTENT)
    client.close()
    assert container.stop() == 0, "within shutdown.timeout_seconds"
    container.start()
    client = Client.connect(container.address)
    assert drain(client, "kept") == [b"hello"]
    client.close()


def test_a_volume_of_our_own_is_used_where_one_is_mounted(boot: Boot, tmp_path: Path) -> None:
    own = tmp_path / "root/var/lib/leveret"
    container = boot({"etc/rabbitmq/rabbitmq.conf": LOOPBACK, "var/lib/leveret/.keep": ""})
    assert (own / "definitions.sqlite").exists()
    assert container.data_dir.resolve() == own
    assert container.tell("status")["data_directory"] == str(container.data_dir)


@pytest.mark.parametrize(
    ("files", "variables", "said"),
    [
        ({"etc/rabbitmq/rabbitmq.conf": "heartbeat = x"}, {}, "rabbitmq.conf:1: heartbeat: expected a whole number"),
        ({"etc/custom.conf": "a"}, {"RABBITMQ_CONFIG_FILE": "/etc/custom"}, "custom.conf:1: expected KEY = VALUE"),
        ({"conf/a.conf": "a"}, {"RABBITMQ_CONFIG_FILES": "/conf"}, "a.conf:1: expected KEY = VALUE"),
        ({PLUGINS: "a"}, {}, "enabled_plugins: expected a list of plugins such as [rabbitmq_m"),
        ({}, {"RABBITMQ_NODE_PORT": "x"}, "RABBITMQ_NODE_PORT: expected a port between 0 and 65535, got x"),
        ({}, {"RABBITMQ_DEFAULT_PASS_FILE": "/no"}, "RABBITMQ_DEFAULT_PASS_FILE: {root}/no: cannot be read: No such"),
        ({}, {"RABBITMQ_DEFAULT_USER_FILE": "/no", "RABBITMQ_DEFAULT_USER": "a"}, "RABBITMQ_DEFAULT_USER and RABBITMQ"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(tmp_path: Path, files: Files, variables: dict[str, str], said: str) -> None:
    container = ContainerProcess(tmp_path / "root", files, **variables)
    assert not container.try_to_start()
    assert container.wait() == 1
    assert re.fullmatch(r"leveret: error: .*\n", container.log())
    assert said.format(root=tmp_path / "root") in container.log()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("name", "uid"), [("rabbitmq-who", 54321), ("who", 0)])
def test_rabbitmqs_commands_are_run_as_its_user_and_others_as_they_are(name: str, uid: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        root.chmod(0o755)
        (root / "etc").mkdir()
        (root / "etc/passwd").write_text("root:x:0:0\nrabbitmq:x:54321:54322::/:/bin/sh\n")
        (root / name).write_text("#!/bin/sh\necho $(id -u) $(id -g) $*\n")
        (root / name).chmod(0o755)
        environment = {**bare(root), "PATH": f"{root}:{os.environ['PATH']}"}
        run = subprocess.run([*PROGRAM, name, "a"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    assert run.stdout.decode().split() == [str(uid), str(uid and 54322), "a"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_volume_becomes_the_users_own_and_nothing_beside_it(tmp_path: Path) -> None:
    passwd = f"rabbitmq:x:{os.geteuid()}:7::/:/bin/sh\n"
    files = {
        PLUGINS: "[].",
        "etc/passwd": passwd,
        "etc/rabbitmq/rabbitmq.conf": LOOPBACK,
        "var/lib/rabbitmq/leveret/sub/file": "x",
    }
    container = ContainerProcess(tmp_path / "root", files)
    for place in ("", "sub", "sub/file"):
        os.chown(container.data_dir / place, 54321, 54322)
    os.chown(container.data_dir.parent, 54321, 54322)
    container.start()
    try:
        assert {(container.data_dir / place).stat().st_gid for place in ("", "sub", "sub/file")} == {7}
        assert container.data_dir.parent.stat().st_gid == 54322
    finally:
        container.stop()


@pytest.mark.parametrize(
    ("text", "started", "unknown"),
    [
        ("[].", [], []),
        ("% a\n[ rabbitmq_sharding ,\n 'rabbitmq_mqtt' % b\n] .\n", ["rabbitmq_sharding"], ["rabbitmq_mqtt"]),
    ],
)
def test_plugins_have_a_counterpart_or_none(tmp_path: Path, text: str, started: list[str], unknown: list[str]) -> None:
    file = tmp_path / "enabled_plugins"
    file.write_text(text)
    assert read_plugins(file) == (started, unknown)


@pytest.mark.parametrize("text", ["", "[a", "[a]", "[a,].", "[A].", "[a b].", "{a}."])
def test_a_list_of_plugins_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plugins").write_text(text)
    with pytest.raises(ConfigError, match="expected a list of plugins"):
        read_plugins(tmp_path / "plugins")


def test_the_image_has_rabbitmqs_files_ports_and_names(tmp_path: Path) -> None:
    lines = (ROOT / "Dockerfile").read_text()
    assert "EXPOSE 5671 5672 15671 15672 15692\n" in lines
    assert "VOLUME /var/lib/rabbitmq\n" in lines
    for name in ("rabbitmqctl", "rabbitmq-diagnostics", "rabbitmqadmin", "rabbitmq-plugins", "rabbitmq-server"):
        assert re.search(rf"\b{name}\b", lines.partition("RUN ")[2])
    shutil.copytree(ROOT / "deploy/container", tmp_path / "root/etc/rabbitmq")
    image = ImageEnvironment(tmp_path / "root", {})
    assert read_image(image, tmp_path).config.defaults.loopback_users == ()
    assert read_plugins(image.plugins_file) == read_plugins(tmp_path / "none"), "what is enabled without the file"
    assert image.listen[0] == "0.0.0.0:5672"
