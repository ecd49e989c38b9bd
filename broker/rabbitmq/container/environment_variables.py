"""Variables of the environment that RabbitMQ's image knows, and what they mean here."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from broker.config import ConfigError
from broker.environment_settings import ENVIRONMENT
from broker.rabbitmq.conf.conf_values import Unfit, addresses, ip, port

CONFIG_FILE = "RABBITMQ_CONFIG_FILE"
CONFIG_FILES = "RABBITMQ_CONFIG_FILES"
ADVANCED_CONFIG_FILE = "RABBITMQ_ADVANCED_CONFIG_FILE"
ENABLED_PLUGINS_FILE = "RABBITMQ_ENABLED_PLUGINS_FILE"
NODE_PORT = "RABBITMQ_NODE_PORT"
NODE_IP_ADDRESS = "RABBITMQ_NODE_IP_ADDRESS"
NODE_NAME = "RABBITMQ_NODENAME"
FROM_FILES = {f"{name}_FILE": name for *_, names in ENVIRONMENT for name in names}
"""Variables that name a file, as secrets are mounted, and the variable whose value the file holds."""

OBEYED = {
    *(name for *_, names in ENVIRONMENT for name in names),
    *FROM_FILES,
    CONFIG_FILE,
    CONFIG_FILES,
    ADVANCED_CONFIG_FILE,
    ENABLED_PLUGINS_FILE,
    NODE_PORT,
    NODE_IP_ADDRESS,
    NODE_NAME,
}


class ImageEnvironment(NamedTuple):
    """The environment with secrets from their files, and the file system that its paths are in."""

    root: Path
    variables: dict[str, str]

    @property
    def without_effect(self) -> list[str]:
        """RabbitMQ's variables that mean nothing here, such as the Erlang cookie."""
        return sorted(name for name in self.variables if name.startswith("RABBITMQ_") and name not in OBEYED)

    def below_root(self, path: str) -> Path:
        """A path of the image in the file system that this is about."""
        return self.root / path.lstrip("/")

    @property
    def conf_files(self) -> list[Path]:
        """Files in the format of rabbitmq.conf that there are: the main one, then those of conf.d by name."""
        main = self._file(CONFIG_FILE, "/etc/rabbitmq/rabbitmq.conf", ".conf")
        directory = self.below_root(self.variables.get(CONFIG_FILES) or "/etc/rabbitmq/conf.d")
        return [*main, *sorted(directory.glob("*.conf"))]

    @property
    def erlang_files(self) -> list[Path]:
        """Files of Erlang terms that there are, which are not read."""
        classic = self._file(CONFIG_FILE, "/etc/rabbitmq/rabbitmq.config", ".config")
        return [*classic, *self._file(ADVANCED_CONFIG_FILE, "/etc/rabbitmq/advanced.config", ".config")]

    @property
    def plugins_file(self) -> Path:
        """File that names the plugins to enable; it may not exist."""
        return self.below_root(self.variables.get(ENABLED_PLUGINS_FILE) or "/etc/rabbitmq/enabled_plugins")

    @property
    def node_name(self) -> str:
        """Name of the node, with the host's short name if it has none. Empty for the default."""
        name = self.variables.get(NODE_NAME, "")
        return name if not name or "@" in name else f"{name}@{socket.gethostname().partition('.')[0]}"

    @property
    def listen(self) -> list[str]:
        """Addresses for AMQP clients unless settings name others. Raises ConfigError."""
        variable = NODE_PORT
        try:
            number = port(self.variables.get(NODE_PORT) or "5672")
            variable = NODE_IP_ADDRESS
            host = self.variables.get(NODE_IP_ADDRESS)
            return addresses(ip(host) if host and host != "auto" else None, number)
        except Unfit as unfit:
            raise ConfigError(f"{variable}: expected {unfit}, got {self.variables[variable]}") from None

    def _file(self, variable: str, default: str, suffix: str) -> list[Path]:
        """The file that a variable names, with or without its ending."""
        path = self.below_root(self.variables.get(variable) or default)
        candidates = [path] if path.suffix == suffix else [path.with_name(path.name + suffix)]
        return [file for file in candidates if file.exists()]


def read_environment(environ: Mapping[str, str], root: Path) -> ImageEnvironment:
    """Take the environment in, with what is in files. Raises ConfigError."""
    variables = dict(environ)
    for file_variable, variable in FROM_FILES.items():
        name = environ.get(file_variable)
        if name and environ.get(variable):
            raise ConfigError(f"{variable} and {file_variable} are both set: expected one of them")
        if name:
            variables[variable] = _secret(file_variable, root / name.lstrip("/"))
    return ImageEnvironment(root, variables)


def _secret(variable: str, file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise ConfigError(f"{variable}: {file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{variable}: {file}: is not UTF-8 text") from error
