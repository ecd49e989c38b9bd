"""A rabbitmq.conf as RabbitMQ 4.3 would read it: settings that are gone, on which a node does not start.

Measured on 4.3.6, whose schemas and those of 3.10.8 were compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from broker.config import ConfigError, DeprecatedFeaturesSettings
from broker.entities.rehearsal import rehearsal_rules as rules
from broker.entities.rehearsal.rehearsal_watch import RehearsalWatch
from broker.rabbitmq.conf.conf_lines import ConfLine, read_lines

CLIENT = "rabbitmq.conf"
GONE = (
    "amqp1_0.",
    "cluster_formation.randomized_startup_delay_range.",
    "management.enable_uaa",
    "management.uaa_client_id",
    "management.uaa_location",
    "mqtt.default_pass",
    "mqtt.default_user",
)
"""Keys, or their beginnings, that 3.x knows and 4.3 does not."""
RENAMED = {"channel_max": "max_channels_per_connection", "connection_max": "max_connections"}
_PERMIT = "deprecated_features.permit."
_REMOVED = ("classic_queue_mirroring", "ram_node_type")


def permitted(lines: Iterable[ConfLine]) -> dict[str, str]:
    """Return the deprecated features that a file permits or not, as our settings have them."""
    words = {"true": "permit", "false": "deny"}
    found = {line.key.removeprefix(_PERMIT): words.get(line.value, "default") for line in lines}
    return {name: word for name, word in found.items() if name in DeprecatedFeaturesSettings.__struct_fields__}


def read(file: Path, environ: Mapping[str, str]) -> list[ConfLine]:
    """Return the lines of a file. Raises ConfigError."""
    lines, problems = read_lines([file], environ)
    if problems:
        raise ConfigError("\n".join(problems))
    return lines


def check(watch: RehearsalWatch, lines: Sequence[ConfLine]) -> None:
    """Note what 4.3 does differently with the settings of a file."""
    if watch.target.series < (4, 3):
        return
    for line in lines:
        subject, place = ("setting", line.key), f"line {line.number}"
        if line.key.startswith(GONE):
            watch.note(rules.CONF_KEY, "", subject, CLIENT, place)
        elif line.key == "classic_queue.default_version" and line.value == "1":
            watch.note(rules.CONF_KEY, "", subject, CLIENT, f"{place}: the value 1")
        elif line.key in RENAMED:
            watch.note(rules.CONF_RENAMED, "", subject, CLIENT, f"{place}: {RENAMED[line.key]}")
        elif line.key.removeprefix(_PERMIT) in _REMOVED and line.value == "true":
            watch.note(rules.CONF_PERMIT, "", subject, CLIENT, place)
        elif line.key == "consumer_timeout":
            watch.note(rules.CONF_TIMEOUT, "", subject, CLIENT, f"{place}: {line.value}")
