"""Connections to the broker: made of options by pika, and what their failures mean."""

from __future__ import annotations

import ast
import logging
import re
import ssl

import pika
from pika import exceptions

from leveret_spark.amqp.float_headers import blocking
from leveret_spark.option_errors import OptionError
from leveret_spark.options import Broker, Tls

logging.getLogger("pika").addHandler(logging.NullHandler())  # its failures reach the query by what we raise

HOPELESS = (
    exceptions.ProbableAuthenticationError,
    exceptions.ProbableAccessDeniedError,
    exceptions.AuthenticationError,
    exceptions.IncompatibleProtocolError,
    exceptions.ChannelClosedByBroker,
)
"""Failures that trying again does not cure."""

HOPELESS_CODES = {402, 403, 530, 540}
"""Reply codes of a closed connection that trying again does not cure: no access, no such virtual host, not allowed."""


def connected(broker: Broker, purpose: str) -> pika.BlockingConnection:
    """A connection for callers that wait. Raises what pika raises, and OptionError."""
    each = [parameters(broker, purpose, attempt) for attempt in range(len(broker.endpoints))]
    return blocking(each[0] if len(each) == 1 else each)


def parameters(broker: Broker, purpose: str, attempt: int = 0) -> pika.ConnectionParameters:
    """Return pika's connection parameters; the broker's list of connections shows `purpose`.

    Each attempt is for the next of the broker's addresses.
    """
    host, port = broker.endpoints[attempt % len(broker.endpoints)]
    return pika.ConnectionParameters(
        host=host,
        port=port,
        virtual_host=broker.vhost,
        credentials=pika.PlainCredentials(broker.login.user, broker.login.password, erase_on_connect=True),
        heartbeat=broker.heartbeat_seconds,
        socket_timeout=broker.connect_timeout_seconds,
        stack_timeout=broker.connect_timeout_seconds,
        ssl_options=_ssl_options(broker.tls, host) if broker.tls else None,
        client_properties={"connection_name": f"leveret_spark {purpose}"},
    )


def _ssl_options(tls: Tls, host: str) -> pika.SSLOptions:
    try:
        context = tls.context()
    except OSError as error:  # ssl.SSLError is one
        raise OptionError(f"the files of options tlsCaFile, tlsCertFile, tlsKeyFile: {error}") from None
    return pika.SSLOptions(context, host)


SAID = re.compile(r"ConnectionClosedByBroker: \((\d+)\) (.+)")
"""Error texts of pika for a close by the broker before the connection was open."""


def is_hopeless(error: BaseException) -> bool:
    """True if another attempt would fail in the same way."""
    root = _root(error)
    if isinstance(root, exceptions.ConnectionClosedByBroker):
        return root.reply_code in HOPELESS_CODES
    return isinstance(root, (*HOPELESS, OptionError))


def explained(error: BaseException) -> str:
    """A failure in one line: what the broker said, or what happened to the connection."""
    root = _root(error)
    if isinstance(root, exceptions.ConnectionClosed | exceptions.ChannelClosed):
        return f"{root.reply_code} {root.reply_text}"
    if said := SAID.fullmatch(str(root)):
        return f"{said[1]} {ast.literal_eval(said[2])}"
    if isinstance(root, exceptions.IncompatibleProtocolError):
        return "the port does not speak AMQP, or only over TLS"
    if isinstance(root, ssl.SSLError) and root.reason == "WRONG_VERSION_NUMBER":
        return "the port does not speak TLS"
    if isinstance(root, OSError) and root.strerror:
        return root.strerror
    return f"{type(root).__name__}: {root}"


def _root(error: BaseException) -> BaseException:
    """Yield the causes that pika has wrapped: the failure of a phase, of an attempt, of all attempts."""
    while True:
        inner = getattr(error, "exception", None) or [*getattr(error, "exceptions", error.args), None][-2:][0]
        if not isinstance(inner, BaseException):
            return error
        error = inner
