"""The entry point of the image, which stands in for the one of `rabbitmq:3-management`.

It reads what RabbitMQ's image reads: variables of the environment, /etc/rabbitmq with rabbitmq.conf, conf.d and
enabled_plugins, the volume /var/lib/rabbitmq. Our own settings are in /etc/leveret/leveret.toml. Every path is below
LEVERET_ROOT where that is set. A command other than `rabbitmq-server` is run as it is.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from broker.cli.main import end_with
from broker.cli.named_directory import ROOT
from broker.config import Config, ConfigError
from broker.logs import set_up
from broker.rabbitmq.conf.conf_translation import SETTINGS, Conf, read_conf
from broker.rabbitmq.conf.conf_values import addresses
from broker.rabbitmq.conf.enabled_plugins import EVENTS, MANAGEMENT, PROMETHEUS, Plugins, read_plugins
from broker.rabbitmq.container.environment_variables import ImageEnvironment, read_environment
from broker.rabbitmq.container.image_user import find_image_user
from broker.settings_loader import load

log = logging.getLogger("leveret.container")

SERVER = "rabbitmq-server"
DATA, OWN_CONFIG = "LEVERET_DATA_DIR", "LEVERET_CONFIG"
VOLUME, OWN_VOLUME = "/var/lib/rabbitmq", "/var/lib/leveret"
OWN_CONFIG_FILE = "/etc/leveret/leveret.toml"


class Image(NamedTuple):
    """All that says how the broker is to run."""

    environment: ImageEnvironment
    conf: Conf
    plugins: Plugins
    config: Config


def main() -> NoReturn:
    """Run what the command line of the container says, `rabbitmq-server` where it says nothing."""
    called = Path(sys.argv[0]).name
    command = [called, *sys.argv[1:]] if called == SERVER else sys.argv[1:] or [SERVER]
    end_with(lambda: _run(command))


def _run(command: list[str]) -> int:
    root = Path(os.environ.get(ROOT) or "/")
    user = find_image_user(root) if command[0].startswith("rabbitmq") else None
    if command[0] != SERVER:
        if user is not None:
            user.become()
        try:
            os.execvp(command[0], command)
        except OSError as error:
            raise ConfigError(f"{command[0]}: cannot be run: {error.strerror}") from error
    # Process 1 is not ended by a signal that it does not handle; from here to the broker's own handling it may be.
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    data = data_directory(root)
    if user is not None:
        user.own(data.resolve())
        user.become()
    return _serve(read_image(read_environment(os.environ, root), data), command[1:])


def data_directory(root: Path) -> Path:
    """Create and return the data directory: in RabbitMQ's volume, or in our own if one is mounted.

    Commands look for it in RabbitMQ's volume, where a link leads to our own. Raises ConfigError.
    """
    volume, own = root / VOLUME.lstrip("/"), root / OWN_VOLUME.lstrip("/")
    data = Path(os.environ.get(DATA) or volume / "leveret")
    try:
        if data.parent == volume and own.is_dir() and not data.exists():
            volume.mkdir(parents=True, exist_ok=True)
            data.unlink(missing_ok=True)
            data.symlink_to(own)
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except PermissionError as error:
        raise _not_writable(data) from error
    if not os.access(data, os.W_OK | os.X_OK, effective_ids=True):
        raise _not_writable(data)
    return data


def _not_writable(data: Path) -> ConfigError:
    """A directory of the host belongs to another user, mostly to root, for whom the engine has made it."""
    numbers = f"{os.geteuid()}:{os.getegid()}"
    cure = f"`chown -R {numbers}` what is mounted there, or start the container with `--user 0`, which does it"
    return ConfigError(f"{data}: user {numbers} may not write here; {cure}")


def read_image(environment: ImageEnvironment, data: Path) -> Image:
    """Put together what the files and the environment say. Raises ConfigError."""
    conf = read_conf(environment.conf_files, environment.variables, environment.root)
    plugins = read_plugins(environment.plugins_file)
    settings = {
        "server.listen": environment.listen,
        "identity.node_name": environment.node_name,
        "defaults.loopback_users": [],  # a client of a container is never on its own loopback
        **_of_plugins(plugins),
    }
    config = load(
        _own_config_file(environment),
        environment.variables,
        beneath=_tree(settings),
        translated=conf.settings,
        data_dir=str(data),
    )
    return Image(environment, conf, plugins, config)


def _own_config_file(environment: ImageEnvironment) -> Path | None:
    """The file of settings that the environment names, or the one at its fixed place."""
    named, fixed = environment.variables.get(OWN_CONFIG), environment.below_root(OWN_CONFIG_FILE)
    if named:
        return Path(named)
    return fixed if fixed.exists() else None


def _of_plugins(plugins: Plugins) -> dict[str, object]:
    """Settings that stand for plugins being enabled or not."""
    return {
        "management.listen": addresses(None, 15672) if MANAGEMENT in plugins.started else [],
        "prometheus.listen": addresses(None, 15692) if PROMETHEUS in plugins.started else [],
        "event_exchange.enabled": EVENTS in plugins.started,
    }


def _tree(settings: dict[str, object]) -> dict[str, dict[str, object]]:
    tree = dict[str, dict[str, object]]()
    for setting, value in settings.items():
        if setting in SETTINGS:
            section, field = setting.split(".")
            tree.setdefault(section, {})[field] = value
    return tree


def _serve(image: Image, arguments: Sequence[str]) -> int:
    set_up(image.config.logs)
    image.conf.warn([*map(str, image.environment.erlang_files), *image.environment.without_effect, *arguments])
    if image.plugins.unknown:
        log.warning("plugins without a counterpart here: %s", ", ".join(image.plugins.unknown))
    _warn_of_other_data(image)
    # Imported last: a wrong setting is reported without loading the broker.
    from broker.server.serve import run

    own = image.environment.variables.get("LEVERET_CONFIG")
    files = [*([Path(own)] if own else []), *image.environment.conf_files]
    return run(image.config, lambda: _announce(image.plugins.started), files)


def _warn_of_other_data(image: Image) -> None:
    data, own = image.config.server.directory, image.environment.below_root(OWN_VOLUME)
    if own.is_dir() and data.resolve() != own.resolve():
        log.warning("%s is mounted and not used: the data are in %s", own, data)
    if image.environment.below_root(f"{VOLUME}/mnesia").is_dir():
        log.warning("RabbitMQ's own data in %s are not read: import its definitions", VOLUME)


def _announce(plugins: Sequence[str]) -> None:
    """Log the lines that tools wait for, as RabbitMQ does."""
    log.info("Server startup complete; %d plugins started.", len(plugins))
    for plugin in plugins:
        log.info(" * %s", plugin)
