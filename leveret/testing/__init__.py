"""A Leveret for tests of applications: a process to kill, a clock to stop, faults to request, a history to look at.

Nothing of the broker is imported: docs/testing-applications.md shows how it is used, with pytest, unittest or neither.
"""

from leveret.testing.broker_for_tests import Broker
from leveret.testing.control_client import Clock, Control, Event, Fault
from leveret.testing.testing_errors import LeveretError, NotMetError
from leveret.testing.unittest_cases import LeveretMixin, LeveretTestCase

__all__ = [
    "Broker",
    "Clock",
    "Control",
    "Event",
    "Fault",
    "LeveretError",
    "LeveretMixin",
    "LeveretTestCase",
    "NotMetError",
]
