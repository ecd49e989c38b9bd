"""The findings of a definitions file and a rabbitmq.conf, between two series of RabbitMQ."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from broker.admin.definitions.definitions_file import read_file
from broker.config import Config, DeprecatedFeaturesSettings, IdentitySettings, RehearsalSettings
from broker.entities.scheduling.clock import SteadyClock
from broker.rehearsal import rehearsed_conf
from broker.rehearsal.rehearsed_definitions import DefinitionsRehearsal
from broker.server.recovery import new_watch


def findings(definitions: Path | None, conf: Path | None, own: str, target: str) -> list[dict[str, Any]]:
    """Return the findings as the API shows them. Raises AdministrationError and ConfigError for files that are none."""
    lines = [] if conf is None else rehearsed_conf.read(conf, os.environ)
    permitted = cast(dict[str, Any], rehearsed_conf.permitted(lines))
    config = Config(
        identity=IdentitySettings(personality=cast(Any, own)),
        deprecated_features=DeprecatedFeaturesSettings(**permitted),
        rehearsal=RehearsalSettings(watch=cast(Any, target)),
    )
    watch = new_watch(config, SteadyClock(), lambda finding: None)
    rehearsed_conf.check(watch, lines)
    if definitions is not None:
        DefinitionsRehearsal(watch, read_file(definitions)).check()
    return [finding.shown() for finding in watch.findings()]
