"""Imports of modules of the data pipeline, whose libraries may not be installed."""

from __future__ import annotations

import importlib
from typing import Any

from broker.admin.protocol import AdministrationError
from leveret.extras import how_to_install


def pipeline_module(name: str) -> Any:
    """The module `pipeline.NAME`. Raises AdministrationError, with the cure, when a library of the extra is missing."""
    try:
        return importlib.import_module(f"pipeline.{name}")
    except ImportError as error:
        library = str(error.name).partition(".")[0]
        text = f"{library} is missing: `{how_to_install('pipeline')}` brings what the data pipeline needs"
        raise AdministrationError("missing", text) from error
