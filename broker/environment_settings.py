"""Environment variables that override settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.config import OFF, Config, DeprecatedFeaturesSettings, SettingOrigin, Translated

CHECK_INVARIANTS = "LEVERET_CHECK_INVARIANTS"
"""The variable that switches `debug.check_invariants` on, if it is not empty."""
ENVIRONMENT = (
    ("server", "listen", ("LEVERET_LISTEN",)),
    ("management", "listen", ("LEVERET_MANAGEMENT_LISTEN",)),
    ("prometheus", "listen", ("LEVERET_PROMETHEUS_LISTEN",)),
    ("identity", "personality", ("LEVERET_PERSONALITY",)),
    ("rehearsal", "watch", ("LEVERET_REHEARSAL_WATCH",)),
    *(
        ("deprecated_features", feature, (f"LEVERET_PERMIT_{feature.upper()}",))
        for feature in DeprecatedFeaturesSettings.__struct_fields__
    ),
    ("ship", "to", ("LEVERET_SHIP_TO",)),
    ("logs", "level", ("LEVERET_LOG_LEVEL",)),
    ("logs", "form", ("LEVERET_LOG_FORM",)),
    ("defaults", "user", ("LEVERET_DEFAULT_USER", "RABBITMQ_DEFAULT_USER")),
    ("defaults", "password", ("LEVERET_DEFAULT_PASS", "RABBITMQ_DEFAULT_PASS")),
    ("defaults", "vhost", ("LEVERET_DEFAULT_VHOST", "RABBITMQ_DEFAULT_VHOST")),
    ("defaults", "loopback_users", ("LEVERET_LOOPBACK_USERS",)),
    ("tls", "key_password", ("LEVERET_TLS_KEY_PASSWORD",)),
    ("debug", "check_invariants", (CHECK_INVARIANTS,)),
)
"""Settings and the variables that override them, of which the first non-empty one counts. Lists are comma-separated."""


def obeyed_variables(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that override settings."""
    return [origin.place for origin in from_environment(environ).origins.values()]


def from_environment(environ: Mapping[str, str]) -> Translated:
    """Return the settings that variables override."""
    found = Translated({}, {})
    for section, field, names in ENVIRONMENT:
        name = next((name for name in names if environ.get(name)), None)
        if name is not None:
            found.tree.setdefault(section, {})[field] = _of_variable(section, field, environ[name])
            found.origins[section, field] = SettingOrigin(name, f'"{environ[name]}"')
    return found


def _of_variable(section: str, field: str, value: str) -> Any:
    default = getattr(getattr(Config(), section), field)
    if isinstance(default, tuple):
        return [] if value == OFF else [item.strip() for item in value.split(",")]
    if isinstance(default, bool):
        return True
    return value.lower() if section == "logs" else value
