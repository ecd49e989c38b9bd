"""The RabbitMQ that a broker says to be, which RabbitMQ's programs speak like."""

from __future__ import annotations

from typing import NamedTuple

from broker.admin.commands.node_admin import ShowVersion
from broker.admin.protocol import AdministrationError
from broker.admin.socket_conversation import ask
from broker.config import Config

ANSWER_SECONDS = 5.0


class SpokenIdentity(NamedTuple):
    """Node name, version and series of a RabbitMQ. `stopped`: its process runs, after stop_app."""

    node: str
    version: str
    series: str
    stopped: bool = False


def spoken_identity(config: Config, timeout: float | None = None) -> SpokenIdentity:
    """Return that of the broker that runs on the settings' data directory, else that of the settings."""
    seconds = min(ANSWER_SECONDS, timeout or ANSWER_SECONDS)
    try:
        found = ask(config.server.directory, ShowVersion(), seconds)
        return SpokenIdentity(found["node"], found["rabbitmq_version"], found["series"], found.get("stopped", False))
    except AdministrationError:
        identity = config.identity
        return SpokenIdentity(identity.shown_node_name, identity.version, config.personality.series_name)
