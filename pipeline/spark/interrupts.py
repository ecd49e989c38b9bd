"""^C in the middle of a job: the end of it, and no more words than that."""

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
    """Have SIGINT and SIGTERM raise KeyboardInterrupt, and Spark stop quietly then. In the main thread; else nothing.

    PySpark's own handler of SIGINT asks Spark to cancel, in the middle of whatever it is being asked: that fails, in
    many words, and so does what was asked.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    from py4j.protocol import Py4JError

    def end(number: int, _: FrameType | None) -> None:
        logging.disable()  # py4j logs the call that is broken off, and those that it breaks off after it
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in ENDING}
    try:
        yield
    except KeyboardInterrupt:
        with suppress(Py4JError, OSError):  # Java may answer no more after a call that was broken off
            context.setLogLevel("OFF")  # Spark logs tasks that are broken off
            context.stop()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        logging.disable(logging.NOTSET)
