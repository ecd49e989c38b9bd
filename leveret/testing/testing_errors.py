"""Errors between a test and its broker."""

from __future__ import annotations


class LeveretError(Exception):
    """A broker did not start, does not answer, or refuses a request; the message has the reason and the remedy."""

    __module__ = "leveret.testing"  # as it is imported; pytest's summary has more room for the message then


class NotMetError(AssertionError):
    """An expectation was not met in time; the message says what was seen instead."""

    __module__ = "leveret.testing"
