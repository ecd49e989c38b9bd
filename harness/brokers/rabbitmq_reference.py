"""The real RabbitMQ that the protocol tests can be held against, and the places where Leveret differs on purpose."""

from __future__ import annotations

import os

import pytest

REFERENCE = os.environ.get("LEVERET_REFERENCE", "")
"""`host:port` of a RabbitMQ to test instead of a broker of our own."""
REFERENCE_HTTP = os.environ.get("LEVERET_REFERENCE_HTTP", "")
"""`host:port` of its management API."""
REFERENCE_SERIES = os.environ.get("LEVERET_REFERENCE_SERIES", "3.10")
"""The series of that RabbitMQ, as personalities are named: 3.10 or 4.3."""

OF_3_10 = bool(REFERENCE) and REFERENCE_SERIES == "3.10"
"""The reference is a 3.10, which has nothing of what came later."""


def differs(reason: str) -> pytest.MarkDecorator:
    """Mark a test that holds for RabbitMQ and, for the reason given, not yet or never for Leveret."""
    return pytest.mark.xfail(not REFERENCE, reason=reason, strict=True)
