"""Errors with texts for the failure of a query: they never contain a password."""


class OptionError(ValueError):
    """An option is missing, unknown, or does not mean anything."""


class HttpError(OSError):
    """The broker cannot be reached by HTTP, or refuses a request."""


class AmqpError(Exception):
    """The broker cannot be reached, or refuses what a query asks of it."""


class DataLossError(Exception):
    """Rows that a query was to read are gone."""
