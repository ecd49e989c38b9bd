"""Play docs/clusters.md on this machine: a master and two workers, a job over TLS, the audit, and Spark Connect.

python -m tests.documents.cluster [--environment DIR] [--only job | audit | connect]

The commands are the page's own, with this machine for its hosts. DIR has the page's virtual environment from an earlier
time; without it pip fetches half a gigabyte. Java is the one on PATH.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.certificate_authority import Authority
from harness.brokers.http_broker import WITHOUT_METRICS, web_address
from harness.campaign_options import exit_on_sigterm
from harness.project import ROOT
from harness.waiting import eventually
from pipeline.audit.audit import audit, reduce
from pipeline.audit.verdict_counts import tally_of
from pipeline.event_parts import parts_of
from pipeline.file_target import Target
from pipeline.jobs.job_results import last_run
from pipeline.spark.java import find_java, java_home
from tests.pipeline.inputs.queue_client import Desk, desk_at

PAGE = "docs/clusters.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MESSAGES = 500
SECONDS = 900
SERVICES = """\
[management]
tls_listen = ["127.0.0.1:0"]
[events]
enabled = true
segment_seconds = 1.0
"""
CONNECT = ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")
"""Packages of `pyspark[connect]` that this environment need not have."""


def commands() -> list[str]:
    """The commands of the page, each in a line."""
    blocks = BLOCK.findall((ROOT / PAGE).read_text(encoding="utf-8"))
    return [line for block in blocks for line in block.replace("\\\n", "").splitlines()]


class Player:
    """Runs commands of the page in a directory, with this machine for its hosts and places."""

    def __init__(self, directory: Path, environment: Path) -> None:
        self._directory = directory
        self._environment = environment
        self._commands = commands()
        java = java_home(find_java())
        python = str(environment / "bin" / "python")
        path = os.pathsep.join([str(environment / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        self._variables = {**os.environ, "PATH": path, "PYSPARK_PYTHON": python, "JAVA_HOME": str(java)}
        self._connect = environment / "connect"
        self.replaced: dict[str, str] = {
            "/opt/leveret": str(environment),
            "python3": sys.executable,
            "leveret pipeline": f"PYTHONPATH={self._connect} leveret pipeline",
        }

    def install(self) -> None:
        """Make the page's environment, unless it is there, and what the command needs for Spark Connect."""
        if not (self._environment / "bin" / "spark-class").exists():
            for beginning in ("python3 -m venv /opt", "/opt/leveret/bin/pip install ./leveret_spark"):
                subprocess.run(self._command(beginning), cwd=ROOT, env=self._variables, check=True, timeout=SECONDS)
        pip = [str(self._environment / "bin" / "pip"), "install", "-q"]
        for packages in (["pyspark[connect]==4.3.0"], ["--target", str(self._connect), *CONNECT]):
            subprocess.run([*pip, *packages], env=self._variables, check=True, timeout=SECONDS)

    def _command(self, beginning: str) -> list[str]:
        """The page's only command with this beginning. Raises ValueError if there is another number of them."""
        (line,) = (each for each in self._commands if each.startswith(beginning))
        for there, here in self.replaced.items():
            line = line.replace(there, here)
        return ["bash", "-c", line]

    def run(self, beginning: str) -> str:
        """Run one of the page's commands; what it has printed. Raises CalledProcessError."""
        return self.run_program(self._command(beginning))

    def run_program(self, command: list[str]) -> str:
        """Run any command; what it has printed. Raises CalledProcessError."""
        print(f"{time.strftime('%X')} {command[-1][:160]}", flush=True)
        done = subprocess.run(
            command, cwd=self._directory, env=self._variables, stdout=subprocess.PIPE, check=True, timeout=SECONDS
        )
        return done.stdout.decode()

    @contextmanager
    def started(self, beginning: str, log: str) -> Iterator[None]:
        """Have one of the page's commands run, with all that it starts."""
        with (self._directory / log).open("wb") as output:
            process = subprocess.Popen(self._command(beginning), cwd=self._directory, env=self._variables,
                                       stdout=output, stderr=output, start_new_session=True)  # fmt: skip
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def await_port(port: int) -> None:
    """Return when somebody listens there."""

    def listens() -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", port)) == 0

    eventually(listens, f"port {port} to be listened at", seconds=120)


def prepare(player: Player, directory: Path, broker: BrokerProcess, authority: Authority) -> None:
    """Fill the queue and the stream, write what the jobs are told, and put this machine in the page's place."""
    broker.start()
    password = directory / "password"
    password.write_text("wonderland")
    broker.tell("add_user", name="reader", password="wonderland", tags=["monitoring"])
    broker.tell("set_permissions", vhost="/", user="reader", configure="", write=".*", read=".*")
    with desk_at(broker.address) as desk:
        fill(desk)
    _, port = broker.tls_address
    place = {"host": "localhost", "port": str(port), "tls": "true", "tlsCaFile": str(authority.ca_file)}
    login = {"user": "reader", "passwordFile": str(password)}
    names = ("rows", "checkpoint", "connect_rows", "connect_checkpoint")
    said = {name: str(directory / name) for name in names} | {"broker": place | login}
    (directory / "job.json").write_text(json.dumps(said))
    (directory / "job.py").write_text((Path(__file__).parent / "moving_job.py").read_text())
    master, web = free_port(), web_address(broker, "https")[1]
    player.replaced |= {
        "--host master": f"--host 127.0.0.1 --port {master} --webui-port 0",
        "Worker spark://": "Worker --webui-port 0 --cores 1 --memory 1g spark://",
        "spark://master:7077": f"spark://127.0.0.1:{master}",
        "https://broker.example:15671": f"https://localhost:{web}",
        "/etc/ssl/broker-ca.pem": str(authority.ca_file),
        "/run/secrets/reader": str(password),
        "hdfs://name/audit": str(directory / "audit"),
    }


def fill(desk: Desk) -> None:
    """Publish messages into a queue and a stream, and declare the queues of what the jobs send."""
    for name, arguments in {
        "orders": {},
        "moved": {},
        "copied": {},
        "kept": {},
        "log": {"x-queue-type": "stream"},
    }.items():
        desk.channel.queue_declare(name, durable=True, arguments=arguments)
    bodies = [b"%d" % number for number in range(MESSAGES)]
    desk.publish("orders", bodies)
    desk.publish("kept", bodies)
    desk.channel.confirm_delivery()
    for body in bodies:
        desk.channel.basic_publish("", "log", body)


def run_job(player: Player, broker: BrokerProcess) -> None:
    """The job, which moves the messages of a queue into another one over TLS."""
    told = player.run("spark-submit --master spark://master:7077 job.py").splitlines()
    assert told[-1] == str(MESSAGES), told  # before it there may be warnings of Python's
    with desk_at(broker.address) as desk:
        assert (desk.count("orders"), desk.count("moved")) == (0, MESSAGES)


def run_audit(player: Player, broker: BrokerProcess) -> None:
    """The audit of the broker's events over HTTPS. Its exit code says whether it found something."""
    eventually(lambda: fits(sealed_copies(broker)), "the messages to be in sealed segments")
    print(player.run("PYSPARK_PYTHON=/opt/leveret/bin/python leveret pipeline audit"))
    check_audit(player)


def sealed_copies(broker: BrokerProcess) -> pa.Table:
    """The tally of the sealed segments of a broker on this machine, by an audit without Spark."""
    return tally_of(audit(map(reduce, parts_of(str(broker.data_dir / "events")))).rows)


def fits(tally: pa.Table) -> bool:
    """Return whether a tally has each message of two queues, and none of it is lost or breaks a rule."""
    copies = Counter[str]()
    for row in tally.to_pylist():
        if row["verdict"] not in ("queued", "settled") or row["violations"]:
            return False
        copies[row["queue"]] += row["copies"]
    return copies["orders"] == copies["kept"] == MESSAGES


def check_audit(player: Player) -> None:
    """Read the results of an audit. Raises AssertionError if they lack messages."""
    run = last_run(Target(player.replaced["hdfs://name/audit"]), "audit")
    assert run is not None
    tally = run.table("tally")
    assert fits(tally), tally.to_pylist()


def run_connect(player: Player, broker: BrokerProcess) -> None:
    """A server of Spark Connect, a client that reads a queue and a stream, and publishes, and the audit."""
    port = free_port()
    player.replaced["spark-internal"] = f"--conf spark.connect.grpc.binding.port={port} spark-internal"
    player.replaced["sc://master:15002"] = f"sc://127.0.0.1:{port}"
    with player.started("spark-submit --master spark://master:7077 --class", "connect.log"):
        await_port(port)
        client = [str(Path(__file__).parent / "connect_client.py"), f"sc://127.0.0.1:{port}"]
        told = player.run_program([player.replaced["/opt/leveret"] + "/bin/python", *client])
        assert json.loads(told.splitlines()[-1]) == [MESSAGES, MESSAGES], told
        player.replaced["hdfs://name/audit"] += "-by-connect"
        eventually(lambda: fits(sealed_copies(broker)), "the messages to be in sealed segments")
        print(player.run("leveret pipeline audit --master sc://"))
        check_audit(player)
    with desk_at(broker.address) as desk:
        assert desk.count("copied") == MESSAGES


STEPS = {"job": run_job, "audit": run_audit, "connect": run_connect}


def play(player: Player, broker: BrokerProcess, master: int, steps: Iterable[str]) -> None:
    """Start the cluster by the page, and run some of the steps. Raises AssertionError, CalledProcessError."""
    with ExitStack() as running:
        running.enter_context(player.started("spark-class org.apache.spark.deploy.master", "master.log"))
        await_port(master)
        for number in (1, 2):
            running.enter_context(player.started("spark-class org.apache.spark.deploy.worker", f"worker-{number}.log"))
        for step in steps:
            STEPS[step](player, broker)


def main() -> None:
    """Play the page; exits with 1 when a command fails or messages are missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.documents.cluster", description=__doc__)
    parser.add_argument("--environment", type=Path, help="the page's virtual environment, kept for another time")
    parser.add_argument("--only", choices=STEPS, help="one step")
    options = parser.parse_args()
    steps = [options.only] if options.only else [*STEPS]
    exit_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="leveret-cluster-") as place:
        directory = Path(place)
        player = Player(directory, (options.environment or directory / "opt").absolute())
        player.install()
        authority = Authority(directory)
        broker = BrokerProcess(directory / "data", "--config", str(authority.config(SERVICES)))
        broker.http = ("--management-listen", "off", *WITHOUT_METRICS)
        try:
            prepare(player, directory, broker, authority)
            play(player, broker, int(player.replaced["spark://master:7077"].rpartition(":")[2]), steps)
        finally:
            if broker.running:
                broker.kill()
    print(f"the page holds: {', '.join(steps)}, {MESSAGES} messages each")


if __name__ == "__main__":
    main()
