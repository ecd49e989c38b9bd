"""What may go wrong, in words that a query's failure can show: they never hold a password."""


class OptionError(ValueError):
    """An option is missing, unknown, or does not mean anything."""


class HttpError(OSError):
    """The broker cannot be reached by HTTP, or refuses what is asked of it."""


class AmqpError(Exception):
    """The broker cannot be reached, or refuses what a query asks of it."""
