"""Methods of channel 0, from the protocol header to connection.close-ok.

A client that fails before connection.open is told no reason, as in RabbitMQ: nothing is sent for three seconds, which
slows down password guessing, then the socket is closed (`Connection.refuse`). The log has the reason. Only a
client with the capability `authentication_failure_close` is told of a refused login, at once.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable
from typing import Any

from broker import __version__
from broker.entities.node.user_limits import MAX_CONNECTIONS
from broker.entities.rehearsal.rehearsal_rules import FRAME_SIZE
from broker.entities.rehearsal.rehearsal_watch import RehearsalWatch
from broker.entities.statistics.totals import AMQP
from broker.session import connection_event_messages
from broker.session.channel.channel import Channel, withdraw
from broker.session.connection import Connection, enter
from broker.session.login import authenticate, sasl
from broker.session.login.phase import Phase
from broker.wire import methods
from broker.wire.amqp_errors import ChannelException, ConnectionException, reply_text
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import Field, Table
from broker.wire.frames import PROTOCOL_HEADER
from broker.wire.method import Method

log = logging.getLogger("leveret.connection")

ACCEPTED_HEADERS = (PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09")
"""Protocol headers of AMQP 0-9-1 and 0-9, which RabbitMQ treats alike."""
_OLDER_HEADERS = frozenset(b"AMQP\x00\x00" + version for version in (b"\x09\x00", b"\x0a\x00", b"\x09\x02"))
"""Headers that RabbitMQ 4 answers with that of 0-9-1; it answers others with that of AMQP 1.0 behind SASL."""
_HEADER_OF_1_0 = b"AMQP\x03\x01\x00\x00"
TLS_HANDSHAKE = b"\x16\x03"
HTTP_VERBS = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"OPTIONS ")
"""First bytes of clients of other protocols, which the log names."""

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


def read_header(connection: Connection, data: bytes) -> bytes:
    """Check the protocol header at the start of `data` and return the bytes behind it, or `data` if it is incomplete.

    A wrong header is answered with ours, and the connection is closed (specification, 2.2.4).
    """
    if len(data) < len(PROTOCOL_HEADER):
        return data
    if data[:8] not in ACCEPTED_HEADERS:
        log.warning("closing connection %s: %s", connection.peer, _opened_with(data[:8]), extra=connection.log_fields())
        ours = PROTOCOL_HEADER
        if connection.settings.personality.speaks_1_0 and data[:8] not in _OLDER_HEADERS:
            ours = _HEADER_OF_1_0
        connection.output.send(ours)
        connection.end()
        return b""
    connection.phase = Phase.START
    properties, mechanisms = server_properties(connection), " ".join(_mechanisms(connection)).encode()
    connection.send(methods.ConnectionStart(0, 9, properties, mechanisms, b"en_US"))
    return data[8:]


def _opened_with(header: bytes) -> str:
    if header.startswith(TLS_HANDSHAKE):
        return "a TLS client on a plain port; amqps clients use the port of tls.listen"
    if header.startswith(HTTP_VERBS):
        return f"an HTTP client on an AMQP port, it sent {header!r}"
    return f"it sent {header!r} instead of the protocol header of AMQP 0-9-1"


def server_properties(connection: Connection) -> Table:
    """Return the server properties of connection.start. Keys and capabilities are RabbitMQ's."""
    settings = connection.settings
    return {
        "capabilities": Field("F", {name: Field("t", True) for name in CAPABILITIES}),
        "cluster_name": _string(connection.registry.cluster_name),
        "copyright": _string("Copyright the Leveret authors. Apache License 2.0."),
        "information": _string(f"Leveret {__version__}, a durable AMQP 0-9-1 broker."),
        "platform": _string(f"Leveret {__version__}, Python {platform.python_version()}"),
        "product": _string(settings.product),
        "version": _string(settings.version),
    }


def handle(connection: Connection, method: Method) -> None:
    """Handle a method on channel 0."""
    if connection.phase is Phase.CLOSING:
        _while_closing(connection, method)
        return
    handler = _HANDLERS.get((connection.phase, type(method)))
    if handler is not None:
        handler(connection, method)
    elif connection.phase is Phase.OPEN:
        text = "unexpected method in connection state running"
        raise ConnectionException(ReplyCode.CHANNEL_ERROR, text, method.CLASS_ID, method.METHOD_ID)
    else:
        connection.refuse(f"{method.NAME} out of place")


def _start_ok(connection: Connection, method: methods.ConnectionStartOk) -> None:
    connection.opened(method.client_properties)
    secured, mechanism = connection.peer.secured, method.mechanism
    try:
        if mechanism not in _mechanisms(connection):
            raise sasl.Malformed(f"unknown authentication mechanism '{mechanism}'")
        if mechanism == sasl.EXTERNAL:
            assert secured is not None, "EXTERNAL is offered where certificates are asked for"
            login = sasl.proved(secured.certificate, connection.settings.naming)
        else:
            login = sasl.read(mechanism, method.response)
    except sasl.Malformed as error:
        connection.refuse(str(error))
    except sasl.Unproved as unproved:
        connection.broker.statistics.logins[AMQP].count(succeeded=False)
        refuse_login(connection, "", mechanism, str(unproved))
    else:
        _log_in(connection, mechanism, login)


def _mechanisms(connection: Connection) -> list[str]:
    secured = connection.peer.secured
    return sasl.offered(connection.settings.mechanisms, certificates_asked=secured is not None and secured.asked)


def _log_in(connection: Connection, mechanism: str, login: sasl.Login) -> None:
    refused = authenticate.check_login(connection.registry, connection.peer, login, AMQP)
    if refused is not None:
        reason = f"user '{login.user}' - {refused.reason}"
        refuse_login(connection, login.user, mechanism, reason, refused.delay)
        return
    connection_event_messages.login_taken(connection, login.user, mechanism)
    connection.user, connection.mechanism = login.user, mechanism
    connection.phase = Phase.TUNE
    settings = connection.settings
    connection.send(methods.ConnectionTune(settings.channel_max, settings.frame_max, settings.heartbeat))


def refuse_login(connection: Connection, user: str, mechanism: str, reason: str, delay: float = 0.0) -> None:
    """Refuse a login, with `delay` seconds more of silence than usual. The reason is for the log."""
    connection_event_messages.login_refused(connection, user, mechanism, reason)
    if delay or not connection.knows("authentication_failure_close"):
        connection.refuse(f"login refused: {reason}", delay)
        return
    fields = connection.log_fields(user=user, code=int(ReplyCode.ACCESS_REFUSED))
    log.warning("closing connection %s: login refused: %s", connection.peer, reason, extra=fields)
    text = f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
    connection.phase = Phase.CLOSING
    connection.send(methods.ConnectionClose(ReplyCode.ACCESS_REFUSED, reply_text(ReplyCode.ACCESS_REFUSED, text), 0, 0))


def _tune_ok(connection: Connection, method: methods.ConnectionTuneOk) -> None:
    settings = connection.settings
    for name, asked, lowest in (
        ("frame_max", method.frame_max, settings.personality.frame_min),
        ("channel_max", method.channel_max, 1),
    ):
        limit = getattr(settings, name)
        if (limit and not lowest <= asked <= limit) or (asked and asked < lowest):
            connection.refuse(f"negotiated {name} = {asked} is outside {lowest} to {limit or 'any'}")
            return
    if connection.broker.watch is not None:
        _note_frame_size(connection, connection.broker.watch, method.frame_max)
    connection.frame_max = method.frame_max or 1 << 32
    connection.channel_max = method.channel_max or 65535
    connection.heartbeat = method.heartbeat
    connection.phase = Phase.OPENING


def _note_frame_size(connection: Connection, watch: RehearsalWatch, frame_max: int) -> None:
    """Note frames that a later series does not accept."""
    if watch.own.frame_min <= frame_max < watch.target.frame_min:
        watch.note(FRAME_SIZE, "", ("connection", connection.client_name), connection.client_name, f"{frame_max} bytes")


def _open(connection: Connection, method: methods.ConnectionOpen) -> None:
    name, user = method.virtual_host, connection.user
    vhost = connection.broker.vhosts.get(name)
    if vhost is None:
        raise ConnectionException(ReplyCode.NOT_ALLOWED, f"vhost {name} not found", 10, 40)
    _check_connection_limits(connection, name)
    if not connection.broker.users.may_enter(user, name):
        raise ConnectionException(ReplyCode.NOT_ALLOWED, f"access to vhost '{name}' refused for user '{user}'", 10, 40)
    enter(connection, vhost)
    connection.registry.handshaking.pop(connection, None)
    connection.send(methods.ConnectionOpenOk())
    connection_event_messages.connection_created(connection)
    text = "connection %s: user '%s' authenticated and granted access to vhost '%s'"
    log.info(text, connection.peer, user, name, extra=connection.log_fields())


def _check_connection_limits(connection: Connection, vhost: str) -> None:
    registry, limits, user = connection.registry, connection.broker.user_limits, connection.user
    limit: int | None = connection.settings.connections_max
    if limit and len(registry.connections) > limit:
        text = f"connection refused: node connection limit ({limit}) is reached"
        raise ConnectionException(ReplyCode.NOT_ALLOWED, text, 10, 40)
    limit = limits.vhost_reached(vhost, MAX_CONNECTIONS, lambda: registry.count_connections(vhost=vhost))
    if limit is not None:
        text = f"access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) is reached"
        raise ConnectionException(ReplyCode.NOT_ALLOWED, text, 10, 40)
    limit = limits.user_reached(user, MAX_CONNECTIONS, lambda: registry.count_connections(user=user))
    if limit is not None:
        text = f"connection refused for user '{user}': user connection limit ({limit}) is reached"
        raise ConnectionException(ReplyCode.NOT_ALLOWED, text, 10, 40)


def _close(connection: Connection, method: methods.ConnectionClose) -> None:
    code, said, fields = method.reply_code, method.reply_text, connection.log_fields(code=method.reply_code)
    words = f"{code} {said}" if said else code
    log.info("connection %s closed by the client: %s", connection.peer, words, extra=fields)
    connection.phase = Phase.CLOSING
    connection.release().then(lambda _: connection.say_goodbye())


def _while_closing(connection: Connection, method: Method) -> None:
    if isinstance(method, methods.ConnectionCloseOk):
        connection.end()
    elif isinstance(method, methods.ConnectionClose):
        connection.say_goodbye()


def _update_secret(connection: Connection, method: methods.ConnectionUpdateSecret) -> None:
    """Answer connection.update-secret: it renews tokens, and users here have passwords.

    RabbitMQ 4.3 then cancels the consumers that may no longer read.
    """
    peer, user, fields = connection.peer, connection.user, connection.log_fields()
    log.info("connection %s: secret of user '%s' updated: %s", peer, user, method.reason, extra=fields)
    connection.send(methods.ConnectionUpdateSecretOk())
    if connection.settings.personality.rechecks_consumers:
        for channel in list(connection.channels.values()):
            _recheck_consumers(channel)


def _recheck_consumers(channel: Channel) -> None:
    for consumer in list(channel.consumers.values()):
        try:
            channel.access.read_queue(consumer.queue.name)
        except ChannelException:
            withdraw(channel, consumer)


def _string(text: str) -> Field:
    return Field("S", text.encode())


_HANDLERS: dict[tuple[Phase, type[Method]], Callable[[Connection, Any], None]] = {
    (Phase.START, methods.ConnectionStartOk): _start_ok,
    (Phase.TUNE, methods.ConnectionTuneOk): _tune_ok,
    (Phase.OPENING, methods.ConnectionOpen): _open,
    (Phase.OPENING, methods.ConnectionClose): _close,
    (Phase.OPEN, methods.ConnectionClose): _close,
    (Phase.OPEN, methods.ConnectionUpdateSecret): _update_secret,
}
