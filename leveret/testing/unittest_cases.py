"""Tests of unittest with a broker: one per process, reset for each test."""

from __future__ import annotations

import atexit
import re
import unittest
from functools import cache
from pathlib import Path

from leveret.testing.broker_for_tests import Broker
from leveret.testing.failure_report import report

OWN_FRAME = re.compile(rf' +File "{re.escape(str(Path(__file__).parent))}/[^"]+", line .*\n(?:    .*\n)*')
"""A frame of this library in a traceback: the line of the test that leads to it says enough."""


@cache
def shared_broker() -> Broker:
    """Return the broker of this process's tests, started at the first call; it ends with the process."""
    broker = Broker()
    atexit.register(broker.close)
    broker.start()
    return broker


class LeveretMixin(unittest.TestCase):
    """For a TestCase of any kind, in front of it: `self.leveret` is a running, empty broker.

    A failure shows the line of the test, the broker's log during the test and the last events of its queues.
    """

    leveret: Broker

    def setUp(self) -> None:
        """Empty the broker."""
        super().setUp()
        self.leveret = shared_broker()
        self.leveret.fresh()

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Run the test, and add the broker's report to a failure."""
        if result is None:
            result = self.defaultTestResult()
        super().run(result)
        for listed in (getattr(result, "failures", []), getattr(result, "errors", [])):
            test, text = listed[-1] if listed else (None, "")
            if getattr(test, "test_case", test) is self and hasattr(self, "leveret"):  # of a subtest it is the case
                listed[-1] = (test, f"{OWN_FRAME.sub('', text)}\n{report(self.leveret)}\n")
        return result


class LeveretTestCase(LeveretMixin):
    """A TestCase with a broker: `class OrdersTest(LeveretTestCase)`."""
