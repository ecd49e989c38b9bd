"""`python -m tools.try_single DIRECTORY`: try the single directory in a root with glibc and nothing else; as root.

DIRECTORY/leveret is what `make single` has built. There is no shell and no Python in that root: commands, a message
over a restart, TLS, the web page and `leveret test` work there all the same.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pika

from broker.cli.catalogue import TOP
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.certificate_authority import Authority
from harness.process_figures import cpu_seconds
from harness.project import ROOT
from harness.waiting import eventually

GLIBC = re.compile(
    r"\s(?:ld-linux-(?:x86-64|aarch64)|lib(?:c|m|dl|pthread|rt|resolv|util))\.so\.\d \(.*(?:x86-64|AArch64).* => (.+)"
)
"""A line of `ldconfig -p` for a library of glibc."""
DEVICES = ("null", "urandom")
COMMAND_SECONDS = 60
READY_CPU_SECONDS_MAX = 0.4
STARTS = 5
RUNNING = (
    *("status", "ping", "wait", "health running", "memory", "environment", "report", "stop --help"),
    *("publish kept.orders text --declare", "peek kept.orders", "get kept.orders", "list queues", "list connections"),
    *("publish kept.orders more", "consume kept.orders --count 1", "rabbitmqadmin list queues", "test-brokers"),
    *("bench --seconds 0.2", "testing clock", "trace on", "trace off", "set-log-level info", "set-log-form text"),
    *("queue declare q", "exchange declare x", "binding add x q key", "purge-queue q", "delete-queue q"),
    *("user add reader secret", "vhost add v", "permission set -p v reader . . .", "topic-permission set reader x . ."),
    *("policy set p . '{\"max-length\": 9}'", "operator-policy list", "parameter list", "global-parameter list"),
    *("cluster-name n", "set-memory-high-watermark 0.5", "set-disk-free-limit 1MB", "close-connections --all text"),
    *("export definitions /tmp/defined.json", "import definitions /tmp/defined.json", "backup /tmp/monday"),
    *("rehearse --definitions /tmp/defined.json", "inspect --copy"),
    *("rabbitmqctl list_queues", "rabbitmq-diagnostics ping", "rabbitmq-plugins list", "rabbitmq-streams --help"),
    *("rabbitmq-queues check_if_node_is_quorum_critical", "rabbitmq-upgrade --help"),
)
STOPPED = ("check", "inspect", "recover", "restore --replace /tmp/monday", "list queues", "user list")
"""Commands on the broker's data directory, which end with exit code 0 while it runs, and afterwards."""
STARTED = "serve", "config", "test"
"""Commands that are run in other ways."""
ASKED_FOR_HELP = {
    "archive": "takes Spark",
    "pipeline": "takes Spark",
    "close-connection": "takes the name of a connection that is open",
    "follow": "takes a second place for what is stored",
    "migrate": "takes a second broker",
    "promote": "takes a second place for what is stored",
    "ship": "takes a second place for what is stored",
    "tail": "takes a publisher beside it",
}
"""Commands of which only the help is shown, and the reason."""
PAGE = re.compile(r"listening for HTTP on (http://127\.0\.0\.1:\d+)")


def main() -> None:
    """Ends with a traceback at the first thing that does not work."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--core", choices=("compiled", "pure"), default="compiled")
    parser.add_argument("directory", type=Path)
    wanted = parser.parse_args()
    single: Path = wanted.directory.absolute() / "leveret"
    with tempfile.TemporaryDirectory(prefix="leveret-empty-") as scratch:
        root = Path(scratch)
        furnish(root)
        program = in_root(root, {"/leveret": single}, "/leveret/leveret")
        _try_commands(program)
        _try_broker(program, root, wanted.core)
        starts = [_start(program, root) for _ in range(STARTS)]
    print(
        f"{single}: {len(TOP)} commands, a message over a restart, TLS, page and `leveret test` work in an empty root"
    )
    seconds, cpu = map(min, zip(*starts, strict=True))
    print(f"{single}: ready in {seconds:.2f} s, {cpu:.2f} s of CPU, the best of {STARTS} starts")
    if wanted.core == "compiled" and cpu > READY_CPU_SECONDS_MAX:
        raise SystemExit(f"leveret: ready after {cpu:.2f} s of CPU; the limit is {READY_CPU_SECONDS_MAX:g}")


def furnish(root: Path) -> None:
    """Copy glibc to where its loader is looked for, and make what every root has."""
    for name in ("dev", "proc", "tmp", "lib64", "leveret"):
        (root / name).mkdir()
    (root / "lib").symlink_to("lib64")
    cache = subprocess.run(["ldconfig", "-p"], check=True, capture_output=True, text=True).stdout
    for file in map(Path, GLIBC.findall(cache)):
        shutil.copy(file, root / "lib64" / file.name)
    for device in DEVICES:
        (root / "dev" / device).touch()


def in_root(root: Path, binds: Mapping[str, Path], *program: str, user: str = "") -> tuple[str, ...]:
    """Return a command that runs a program in the root, in mounts of its own, with directories of this machine by their
    places there. Arguments may follow."""
    bound = {f"{root}{place}": ours for place, ours in binds.items()}
    bound |= {f"{root}/dev/{name}": Path("/dev", name) for name in DEVICES}
    mounts = [*(["--bind", str(ours), place] for place, ours in bound.items()), ["-t", "proc", "proc", f"{root}/proc"]]
    script = "\n".join([*(shlex.join(["mount", *mount]) for mount in mounts), 'exec "$@"'])
    become = [f"--userspec={user}"] if user else []
    return "unshare", "--mount", "sh", "-euc", script, "sh", "chroot", *become, str(root), *program


def _try_commands(program: tuple[str, ...]) -> None:
    """Show each command's help: its modules are there. A broker for a command is one more program."""
    assert _run(program, "config", "show") == (ROOT / "config.example.toml").read_text()
    for name in TOP:
        _run(program, name, "--help")
    assert _run(program, "test", "--", "/leveret/leveret", "--version").startswith("leveret ")
    _run(program, "test", "--personality", "3.13,4.3", "--", "/leveret/leveret", "--version")


def _run(program: tuple[str, ...], *arguments: str) -> str:
    """Return what a command printed; its errors go where this process's go."""
    return subprocess.run(
        [*program, *arguments],
        env={**os.environ, "LEVERET_DATA_DIR": "/tmp/data"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=COMMAND_SECONDS,
    ).stdout


def _broker(program: tuple[str, ...], root: Path, data: str, *options: str) -> BrokerProcess:
    broker = BrokerProcess(root / "tmp" / data, *options)
    broker.data_dir = Path("/tmp", data)
    broker.program = program
    return broker


def _try_broker(program: tuple[str, ...], root: Path, core: str) -> None:
    """Get a message from the broker after the one that confirmed it, by TLS; look at its page; run the commands."""
    authority = Authority(root / "tmp")
    settings = authority.settings()
    (root / "tmp/leveret.toml").write_text(
        "[testing]\nenabled = true\n"
        f'[tls]\nlisten = ["127.0.0.1:0"]\ncertificate_file = "/tmp/{Path(settings.certificate_file).name}"\n'
        f'key_file = "/tmp/{Path(settings.key_file).name}"\n'
    )
    broker = _broker(program, root, "data", "--config", "/tmp/leveret.toml")
    broker.http = ("--management-listen", "127.0.0.1:0", "--prometheus-listen", "off")
    broker.start()
    try:
        assert f"core: {core}" in broker.log(), broker.log()
        assert core in _run(program, "status")
        _run(program, "permission", "set", "guest", "^(?=kept|leveret-bench).", ".*", ".*")
        secure = pika.SSLOptions(ssl.create_default_context(cafile=authority.ca_file), "127.0.0.1")
        host, port = broker.tls_address
        with pika.BlockingConnection(pika.ConnectionParameters(host, port, ssl_options=secure)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("kept", durable=True)
            channel.basic_publish("", "kept", b"hello", pika.BasicProperties(delivery_mode=2))
        broker.restart()
        with pika.BlockingConnection(pika.ConnectionParameters(*broker.address)) as connection:
            assert connection.channel().basic_get("kept", auto_ack=True)[2] == b"hello"
        _look_at_the_page(broker)
        for line in RUNNING:
            _run(program, *shlex.split(line))
    finally:
        broker.stop()
    for line in STOPPED:
        _run(program, *shlex.split(line))


def _look_at_the_page(broker: BrokerProcess) -> None:
    """Get the web page by the address that the log has since the second start."""

    def addresses() -> list[str]:
        found: list[str] = PAGE.findall(broker.log())
        return found[1:]

    with urllib.request.urlopen(f"{eventually(addresses, 'the page to be served')[0]}/") as answer:
        assert b"Leveret" in answer.read()


def _start(program: tuple[str, ...], root: Path) -> tuple[float, float]:
    """Start a broker on a new data directory, with the listener of HTTP, as users have it; the seconds until it was
    ready, and those of CPU, which a busy machine does not add to."""
    broker = _broker(program, root, f"data-{time.monotonic_ns()}")
    broker.http = ("--management-listen", "127.0.0.1:0", "--prometheus-listen", "off")
    broker.check_invariants = False
    began = time.monotonic()
    broker.start()
    seconds = time.monotonic() - began
    cpu = cpu_seconds(broker.pid)
    broker.stop()
    return seconds, cpu


if __name__ == "__main__":
    main()
