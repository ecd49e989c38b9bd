"""Errors with texts for the failure of a query: they never contain a password."""


class OptionError(ValueError):
    """An option is missing, unknown, or does not mean anything."""


class HttpError(OSError):
    """The broker cannot be reached by HTTP, or refuses a request, with a status then."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class AmqpError(Exception):
    """The broker cannot be reached, or refuses what a query asks of it."""


class DataLossError(Exception):
    """Rows that a query was to read are gone."""
