"""Ctrl+C in the middle of a job: it ends without a traceback."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible(stop: Callable[[], object]) -> Iterator[None]:
    """Make SIGINT and SIGTERM raise KeyboardInterrupt, behind which Spark's jobs are stopped. Only in the main thread.

    PySpark's own handler of SIGINT sends Spark a cancellation in the middle of another request: both fail, with long
    tracebacks.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: FrameType | None) -> None:
        logging.disable()  # py4j logs the interrupted call, and those that fail after it
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in ENDING}
    try:
        yield
    except KeyboardInterrupt:
        stop()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        logging.disable(logging.NOTSET)
