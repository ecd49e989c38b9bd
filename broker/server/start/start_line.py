"""The log line of a broker that has started: version, settings, data, limits, users and virtual hosts."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from pathlib import Path

from broker import __version__
from broker.config import Config
from broker.entities.node.broker import Broker
from broker.entities.node.users import Users
from broker.environment_settings import obeyed_variables
from broker.server.resource_alarms import ResourceWatch
from broker.session.login import passwords
from broker.wire import method

log = logging.getLogger("leveret.server")

NAMES_SHOWN = 10
GUEST = "guest"
MEBIBYTE = 1 << 20

CORE = "pure" if str(method.__file__).endswith((".py", ".pyc")) else "compiled"
"""The core is Python (pure), or compiled by mypyc, as in wheels for one platform."""


def log_started(
    settings_files: Sequence[Path], config: Config, broker: Broker, resources: ResourceWatch, sockets_max: int
) -> None:
    """Log the facts by which most problems with logins and publishing are explained."""
    log.info(
        "leveret %s as RabbitMQ %s, on Python %s, core: %s, process %d; settings: %s; data: %s, start number %d;"
        " limits: memory %s, free disk %s, %d connections; users: %s; virtual hosts: %s",
        __version__,
        config.identity.personality,
        platform.python_version(),
        CORE,
        os.getpid(),
        ", ".join([*(str(file.absolute()) for file in settings_files), *obeyed_variables(os.environ)]) or "defaults",
        config.server.directory.absolute(),
        broker.boot,
        _size(resources.memory_limit),
        _size(resources.disk_free_limit),
        sockets_max,
        _names(broker.users.by_name, lambda name: _user(name, config)),
        _names(broker.vhosts),
    )
    _warn_of_guest(config, broker.users)


def _warn_of_guest(config: Config, users: Users) -> None:
    """Warn of a user that everybody knows: guest with the password guest, who may log in from anywhere."""
    guest = users.by_name.get(GUEST)
    if guest is None or GUEST in config.defaults.loopback_users:
        return
    if passwords.verify(GUEST.encode(), guest.password_hash, guest.hashing_algorithm):
        log.warning(
            "user guest with password guest may log in from any address, as in RabbitMQ's image: another password, or "
            "LEVERET_LOOPBACK_USERS=guest, keeps others out; a new data directory gets the user of "
            "RABBITMQ_DEFAULT_USER and RABBITMQ_DEFAULT_PASS"
        )


def _user(name: str, config: Config) -> str:
    return f"{name} (from this machine only)" if name in config.defaults.loopback_users else name


def _names(names: Collection[str], shown: Callable[[str], str] = str) -> str:
    first, more = list(map(shown, islice(names, NAMES_SHOWN))), len(names) - NAMES_SHOWN
    return ", ".join([*first, f"{more} more"] if more > 0 else first) or "none"


def _size(size: int) -> str:
    return f"{size / MEBIBYTE:,.0f} MiB"
