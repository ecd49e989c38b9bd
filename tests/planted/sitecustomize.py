"""Plants the mistake named by PLANTED, and has the wall clock jump where JUMPING is set.

Python imports this at its start when its directory is in PYTHONPATH.
"""

from __future__ import annotations

import os

if "JUMPING" in os.environ:
    from tests.planted.jumps import follow_signals

    follow_signals()

if "PLANTED" in os.environ:
    from tests.planted.planted_catalogue import plant_here

    plant_here(os.environ["PLANTED"])
