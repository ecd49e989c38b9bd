"""Plants the mistake named by PLANTED. Python imports this at its start when its directory is in PYTHONPATH."""

from __future__ import annotations

import os

if "PLANTED" in os.environ:
    from tests.planted.catalogue import CATALOGUE

    CATALOGUE[os.environ["PLANTED"]].plant()
