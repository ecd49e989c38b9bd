"""The program `leveret` of this checkout as one file, for clients in other languages."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.project import ROOT


def program_file(directory: Path) -> Path:
    """Write it into a directory; its place."""
    file = directory / "leveret"
    file.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -P -m leveret "$@"\n')
    file.chmod(0o755)
    return file
