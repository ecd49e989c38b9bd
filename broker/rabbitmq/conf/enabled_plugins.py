"""RabbitMQ's plugins: which of them an image enables, and what stands for them here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from broker.config import ConfigError
from broker.rabbitmq.conf.conf_translation import SETTINGS

_COMMENT = re.compile("%[^\n]*")
_LIST = re.compile(r"\s*\[([^\[\]]*)\]\s*\.\s*")
_ATOM = re.compile(r"[a-z]\w*|'[^']+'")

MANAGEMENT, PROMETHEUS, EVENTS = "rabbitmq_management", "rabbitmq_prometheus", "rabbitmq_event_exchange"
DEFAULT = (MANAGEMENT, PROMETHEUS)
"""Plugins that `rabbitmq:3-management` enables."""
_WEB = ("rabbitmq_management_agent", "rabbitmq_web_dispatch")
BUILT_IN = {
    MANAGEMENT: _WEB,
    PROMETHEUS: _WEB,
    EVENTS: (),
    **dict.fromkeys(_WEB, ()),
    "rabbitmq_auth_mechanism_ssl": (),
    "rabbitmq_consistent_hash_exchange": (),
    "rabbitmq_delayed_message_exchange": (),
    "rabbitmq_random_exchange": (),
    "rabbitmq_recent_history_exchange": (),
    "rabbitmq_sharding": (),
    "rabbitmq_shovel": (),
    "rabbitmq_shovel_management": ("rabbitmq_shovel", *_WEB),
}
"""Plugins whose work is done here, and those that RabbitMQ starts with them."""


NEEDED = {MANAGEMENT: "management.listen", PROMETHEUS: "prometheus.listen", EVENTS: "event_exchange.enabled"}
"""Plugins that a setting of ours switches on and off."""


class Plugins(NamedTuple):
    """Plugins that are enabled and have a counterpart here, and those that have none."""

    started: list[str]
    unknown: list[str]


def read_plugins(file: Path) -> Plugins:
    """Read the file `enabled_plugins`; without it the image's own are enabled. Raises ConfigError."""
    names = _names(file) if file.exists() else list(DEFAULT)
    started = dict.fromkeys(name for name in names if _is_built_in(name))
    started |= dict.fromkeys(other for name in started for other in BUILT_IN[name])
    return Plugins(list(started), [name for name in names if name not in started])


def _is_built_in(name: str) -> bool:
    return name in BUILT_IN and (name not in NEEDED or NEEDED[name] in SETTINGS)


def _names(file: Path) -> list[str]:
    try:
        text = _COMMENT.sub("", file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 text") from error
    found = _LIST.fullmatch(text)
    names = [name.strip() for name in found[1].split(",")] if found and found[1].strip() else []
    if found is None or not all(_ATOM.fullmatch(name) for name in names):
        raise ConfigError(f"{file}: expected a list of plugins such as [rabbitmq_management,rabbitmq_prometheus].")
    return [name.strip("'") for name in names]
