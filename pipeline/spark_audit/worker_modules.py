"""The modules that a Python process of Spark's has loaded, kept apart from what its tasks make.

Spark has the process search for cycles after each task. With NumPy, pyarrow and pandas that takes 30 to 50 ms, a fourth
of a small task; without them nothing that shows.
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def kept_apart() -> None:
    """Take all that is there from later searches, once in a process: at the end of its first task."""
    gc.collect()
    gc.freeze()
