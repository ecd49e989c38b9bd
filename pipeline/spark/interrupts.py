"""Ctrl+C in the middle of a job: it ends without a traceback."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible(context: SparkContext) -> Iterator[None]:
    """Make SIGINT and SIGTERM raise KeyboardInterrupt, and stop Spark quietly. Only in the main thread.

    PySpark's own handler of SIGINT sends Spark a cancellation in the middle of another request: both fail, with long
    tracebacks.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    from py4j.protocol import Py4JError

    def end(number: int, _: FrameType | None) -> None:
        logging.disable()  # py4j logs the interrupted call, and those that fail after it
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in ENDING}
    try:
        yield
    except KeyboardInterrupt:
        with suppress(Py4JError, OSError):  # Java may not answer after an interrupted call
            context.setLogLevel("OFF")  # Spark logs interrupted tasks
            context.stop()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        logging.disable(logging.NOTSET)
