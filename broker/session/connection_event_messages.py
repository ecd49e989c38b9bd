"""Events of connections and logins, published to the event exchange if `[event_exchange]` is on.

Headers are those of RabbitMQ 3.10's plugin; `broker/entities/exchanges/event_exchange.py` publishes them.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from broker.entities.exchanges.event_exchange import arguments
from broker.session.login import certificate_names
from broker.wire.amqp_errors import DecodeError
from broker.wire.field_tables import plain_value

if TYPE_CHECKING:
    from broker.session.connection import Connection
    from broker.session.peer import Peer

Headers = dict[str, Any]

PROTOCOL = "{0,9,1}"


def login_taken(connection: Connection, user: str, mechanism: str) -> None:
    """Publish user.authentication.success."""
    events = connection.broker.event_exchange
    if events is not None:
        events.publish("user.authentication.success", _login(connection.peer, user, mechanism))


def login_refused(connection: Connection, user: str, mechanism: str, reason: str) -> None:
    """Publish user.authentication.failure."""
    events = connection.broker.event_exchange
    if events is not None:
        events.publish("user.authentication.failure", {**_login(connection.peer, user, mechanism), "error": reason})


def connection_created(connection: Connection) -> None:
    """Publish connection.created: a client has opened a virtual host."""
    broker, peer = connection.broker, connection.peer
    if broker.event_exchange is not None:
        headers = {
            **_identity(connection),
            **_ends(peer),
            "type": "network",
            "port": peer.local_port,
            "protocol": PROTOCOL,
            "auth_mechanism": connection.mechanism,
            **_security(peer),
            "user": connection.user,
            "vhost": connection.vhost_name,
            "timeout": connection.heartbeat,
            "frame_max": connection.frame_max,
            "channel_max": connection.channel_max,
            "connected_at": connection.connected_at,
        }
        broker.event_exchange.publish("connection.created", headers, connection.user)


def connection_closed(connection: Connection) -> None:
    """Publish connection.closed, once channels and exclusive queues of the connection are gone."""
    events = connection.broker.event_exchange
    if events is not None and not connection.direct:
        events.publish("connection.closed", _identity(connection))


def _login(peer: Peer, user: str, mechanism: str) -> Headers:
    return {
        "connection_type": "network",
        "name": user,
        **_ends(peer),
        "connection_name": str(peer),
        "protocol": PROTOCOL,
        "auth_mechanism": mechanism,
        "ssl": peer.secured is not None,
    }


def _identity(connection: Connection) -> Headers:
    events, properties = connection.broker.event_exchange, connection.client_properties
    assert events is not None
    named = properties.get("connection_name")
    return {
        **({"user_provided_name": plain_value(named)} if named is not None and named.kind == "S" else {}),
        "name": str(connection.peer),
        "pid": events.pid(connection.number),
        "node": events.node,
        "client_properties": arguments(properties),
    }


def _ends(peer: Peer) -> Headers:
    return {"host": _address(peer.local_host), "peer_host": _address(peer.host), "peer_port": peer.port}


def _address(host: str) -> str:
    """Return an IP address as the Erlang term that the plugin shows, such as {127,0,0,1}."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    packed, size = address.packed, 1 if address.version == 4 else 2
    numbers = (int.from_bytes(packed[at : at + size], "big") for at in range(0, len(packed), size))
    return f"{{{','.join(map(str, numbers))}}}"


def _security(peer: Peer) -> Headers:
    secured = peer.secured
    texts = dict.fromkeys(("ssl_key_exchange", "ssl_hash", "peer_cert_issuer", "peer_cert_validity"), "")
    return {
        "ssl": secured is not None,
        "ssl_protocol": "" if secured is None else secured.version.lower(),
        "ssl_cipher": "" if secured is None else secured.cipher,
        "peer_cert_subject": "" if secured is None or secured.certificate is None else _subject(secured.certificate),
        **texts,
    }


def _subject(certificate: bytes) -> str:
    try:
        return certificate_names.subject(certificate)
    except DecodeError:
        return ""
