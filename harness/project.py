"""The place of this checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The directory of the checkout: commands that tests and measurements run are run from there."""
