"""The client libraries, how each program is run, and where its library is looked for.

Debian has most of them: `apt-get install nodejs npm ruby-bunny php-cli php-amqplib golang-go
golang-github-rabbitmq-amqp091-go-dev default-jdk-headless librabbitmq-client-java gcc librabbitmq-dev`; pip and npm
the others: `pip install pika aio-pika kombu`, `npm install --prefix build/clients amqplib amqp-connection-manager`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from harness.project import ROOT

PROGRAMS = ROOT / "bench" / "clients"
MODULES = ROOT / "build" / "clients" / "node_modules"
GO_SOURCES = Path("/usr/share/gocode")
GO_LIBRARY = GO_SOURCES / "src/github.com/rabbitmq/amqp091-go"
PHP_LIBRARY = Path("/usr/share/php/PhpAmqpLib/autoload.php")
JARS = Path("/usr/share/java")
JAVA_LIBRARY = JARS / "amqp-client.jar"
C_LIBRARY = Path("/usr/include/amqp_tcp_socket.h")
BUILD_SECONDS = 120


class Program(NamedTuple):
    """A client's program: its command, to which URI, sessions and times are added, and its surroundings."""

    command: tuple[str, ...]
    version: str
    environment: dict[str, str]


class Missing(Exception):
    """A library or the interpreter of its language is not installed; the message says which."""


def programs(directory: Path) -> dict[str, Program | Missing]:
    """Return each client's program, compiled into a directory where it has to be, or the reason it is left out."""
    found: dict[str, Program | Missing] = {}
    for name, prepare in PREPARED.items():
        try:
            found[name] = prepare(directory)
        except Missing as missing:
            found[name] = missing
    return found


def _python(library: str, module: str) -> Program:
    try:
        installed = version(library)
    except PackageNotFoundError:
        raise Missing(f"{library} is not installed") from None
    return Program((sys.executable, "-m", f"bench.clients.{module}"), installed, {"PYTHONPATH": str(ROOT)})


def _node(library: str, script: str) -> Program:
    _needed("node", MODULES / library)
    of_node = f"require('{MODULES / library / 'package.json'}').version"
    installed = _said("node", "--print", of_node)
    return Program(("node", str(PROGRAMS / script)), installed, {"NODE_PATH": str(MODULES)})


def _bunny(_directory: Path) -> Program:
    _needed("ruby")
    installed = _said("ruby", "-r", "bunny", "-e", "puts Bunny::VERSION")
    return Program(("ruby", str(PROGRAMS / "bunny_steps.rb")), installed, {})


def _php(_directory: Path) -> Program:
    _needed("php", PHP_LIBRARY)
    installed = _of_debian("php-amqplib")
    return Program(("php", str(PROGRAMS / "php_amqplib_steps.php")), installed, {"PHP_AMQPLIB": str(PHP_LIBRARY)})


def _go(directory: Path) -> Program:
    _needed("go", GO_LIBRARY)
    built = directory / "amqp091_steps"
    settings = {"GO111MODULE": "off", "GOPATH": str(GO_SOURCES), "GOFLAGS": ""}
    _said("go", "build", "-o", str(built), str(PROGRAMS / "amqp091_steps.go"), **settings)
    return Program((str(built),), _of_debian("golang-github-rabbitmq-amqp091-go-dev"), {})


def _java(directory: Path) -> Program:
    _needed("javac", JAVA_LIBRARY)
    path = ":".join(map(str, (JAVA_LIBRARY, JARS / "slf4j-api.jar", JARS / "slf4j-nop.jar", directory)))
    _said("javac", "-cp", path, "-d", str(directory), str(PROGRAMS / "JavaSteps.java"))
    return Program(("java", "-cp", path, "JavaSteps"), _of_debian("librabbitmq-client-java"), {})


def _c(directory: Path) -> Program:
    _needed("cc", C_LIBRARY)
    built = directory / "rabbitmq_c_steps"
    _said("cc", "-O2", "-o", str(built), str(PROGRAMS / "rabbitmq_c_steps.c"), "-lrabbitmq")
    return Program((str(built),), _of_debian("librabbitmq-dev"), {})


PREPARED = {
    "pika": lambda _directory: _python("pika", "pika_client"),
    "aio-pika": lambda _directory: _python("aio-pika", "aio_pika_client"),
    "kombu": lambda _directory: _python("kombu", "kombu_client"),
    "amqplib": lambda _directory: _node("amqplib", "amqplib_steps.js"),
    "amqp-connection-manager": lambda _directory: _node("amqp-connection-manager", "amqp_connection_manager_steps.js"),
    "Bunny": _bunny,
    "php-amqplib": _php,
    "amqp091-go": _go,
    "Java client": _java,
    "rabbitmq-c": _c,
}


def _needed(program: str, library: Path | None = None) -> None:
    if shutil.which(program) is None:
        raise Missing(f"{program} is not installed")
    if library is not None and not library.exists():
        raise Missing(f"{library} is missing")


def _said(*command: str, **settings: str) -> str:
    """Run a command and return its output. Raises Missing if it fails."""
    try:
        run = subprocess.run(
            command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=BUILD_SECONDS, check=True
        )
    except subprocess.CalledProcessError as error:
        raise Missing(f"{command[0]}: {error.stderr.strip().splitlines()[-1:]}") from None
    return run.stdout.strip()


def _of_debian(package: str) -> str:
    """Return the version of an installed package of Debian; empty on another system."""
    if shutil.which("dpkg-query") is None:
        return ""
    return _said("dpkg-query", "--show", "--showformat", "${Version}", package)
