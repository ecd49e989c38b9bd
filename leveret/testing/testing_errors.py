"""What may go wrong between a test and its broker."""

from __future__ import annotations


class LeveretError(Exception):
    """A broker did not start, does not answer, or refuses an order; the message says why and what to do."""


class NotMetError(AssertionError):
    """What a test expected has not come about in time; the message says what was seen instead."""
