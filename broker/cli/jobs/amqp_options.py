"""Options of commands that are clients of a broker, the one that is configured here or another."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from broker.admin.commands.node_admin import ListListeners
from broker.admin.protocol import NotRunning
from broker.cli.target_broker import Target

Command = TypeVar("Command", bound=Callable[..., Any])

PASSWORD = "LEVERET_PASSWORD"
ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses at which a listener on all interfaces is reached."""

PLACES = {"host": "host", "port": "port", "vhost": "vhost", "user": "user", "uri": "uri"}
FILES = {"password_file": "passwordFile", "tls_ca_file": "tlsCaFile"}


def broker_options(command: Command) -> Command:
    """Give a command, behind its Target, the argument `broker`: the options of the data source `amqp` that name one."""

    def run(target: Target, tls: bool, **options: Any) -> Any:
        given = {option: options.pop(option) for option in PLACES | FILES}
        for option, value in given.items():
            if value == "":  # a default in its place could be a broker that nobody meant
                raise click.UsageError(f"--{option.replace('_', '-')} is empty: is a variable not set?")
        named = {name: str(given[option]) for option, name in (PLACES | FILES).items() if given[option] is not None}
        return command(target, _broker(target, named, tls), **options)

    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    run.__dict__.update(command.__dict__)
    for option in reversed(_OPTIONS):
        run = option(run)
    return run  # type: ignore[return-value]


_OPTIONS = (
    click.option("--host", help="The broker; default: the one that runs or is configured here."),
    click.option("--port", type=click.IntRange(1, 65535), help="Its port; default: where that listens, or 5672."),
    click.option("-p", "--vhost", metavar="VHOST", help="The virtual host; default: /."),
    click.option("--user", help=f"User to log in with; the password is in {PASSWORD} or in a file."),
    click.option("--password-file", metavar="FILE", help="A file with the password."),
    click.option("--uri", envvar="LEVERET_URI", help="amqp://user@host:port/vhost, or amqps://, in place of these."),
    click.option("--tls", is_flag=True, help="Connect by TLS."),
    click.option("--tls-ca-file", metavar="FILE", help="Trusted CA certificates, PEM; default: the system's."),
)


def _broker(target: Target, given: dict[str, str], tls: bool) -> dict[str, str]:
    if PASSWORD in os.environ and "passwordFile" not in given:
        given["password"] = os.environ[PASSWORD]
    if tls:
        given["tls"] = "true"
    if "uri" in given or "host" in given:
        return given
    host, port = _address_here(target, tls)
    configured = {"host": ANY.get(host, host), "port": str(port), "vhost": target.config.defaults.vhost}
    if "user" not in given:
        configured |= {"user": target.config.defaults.user}
        if not {"password", "passwordFile"} & given.keys():
            configured |= {"password": target.config.defaults.password}
    return configured | given


def _address_here(target: Target, tls: bool) -> tuple[str, int]:
    """Return an address of the broker that runs here, or else of the one that is configured. Raises UsageError."""
    try:
        listeners = target.ask(ListListeners())
    except NotRunning:
        return _configured(target, tls)
    wanted, other = ("amqp/ssl", "amqp") if tls else ("amqp", "amqp/ssl")
    found = {each["protocol"]: (each["interface"].strip("[]"), each["port"]) for each in reversed(listeners)}
    if wanted in found:
        return found[wanted]
    with_other = f"listens {'without' if tls else 'with'} TLS only: {'leave out' if tls else 'add'} --tls"
    problem = with_other if other in found else "listens for no AMQP"
    raise click.UsageError(f"the broker that runs here {problem}; --host or --uri names another one")


def _configured(target: Target, tls: bool) -> tuple[str, int]:
    section, listening = ("tls", target.config.tls) if tls else ("server", target.config.server)
    if not listening.addresses:
        raise click.UsageError(f"[{section}] has no address here to connect to; --host names a broker")
    return listening.addresses[0]
