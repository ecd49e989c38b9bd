"""What exists, as rows with RabbitMQ's column names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.json_tables import plain
from broker.entities.arguments.policies import Policy
from broker.entities.exchanges.exchange import Binding
from broker.entities.queues.consumers import Consumer
from broker.entities.queues.queue import Queue
from broker.entities.vhosts.vhost import VHost
from broker.session.channel.channel import Channel
from broker.session.connection import Connection
from broker.session.login import certificate_names
from broker.session.login.phase import Phase
from broker.session.peer import Secured
from broker.wire.amqp_errors import DecodeError
from broker.wire.field_tables import decode_table

Row = dict[str, Any]

STATES = {
    Phase.HEADER: "starting",
    Phase.START: "starting",
    Phase.TUNE: "tuning",
    Phase.OPENING: "opening",
    Phase.OPEN: "running",
    Phase.CLOSING: "closing",
}


def list_users(administration: Administration, arguments: Arguments) -> list[Row]:
    """Users with tags and limits."""
    limits = administration.broker.user_limits.users
    users = administration.users.by_name.values()
    return [{"name": user.name, "tags": list(user.tags), "limits": limits.get(user.name, {})} for user in users]


def list_vhosts(administration: Administration, arguments: Arguments) -> list[Row]:
    """Virtual hosts with what was said of them and their limits."""
    return [
        {
            "name": vhost.name,
            "description": vhost.description.description,
            "tags": list(vhost.description.tags),
            "default_queue_type": vhost.description.default_queue_type,
            "limits": administration.broker.user_limits.vhosts.get(vhost.name, {}),
            "tracing": vhost.traced,
        }
        for vhost in administration.broker.vhosts.values()
    ]


def list_permissions(administration: Administration, arguments: Arguments) -> list[Row]:
    """Permissions: of each user in each virtual host."""
    chosen = {vhost.name for vhost in _vhosts(administration, arguments)}
    return [
        {"vhost": vhost, "user": user, **permission._asdict()}
        for (vhost, user), permission in administration.users.permissions.items()
        if vhost in chosen
    ]


def list_user_permissions(administration: Administration, arguments: Arguments) -> list[Row]:
    """What one user may do in each virtual host."""
    name = administration.user(arguments.text("name")).name
    return [
        {"vhost": vhost, **permission._asdict()}
        for (vhost, user), permission in administration.users.permissions.items()
        if user == name
    ]


def list_topic_permissions(administration: Administration, arguments: Arguments) -> list[Row]:
    """Topic permissions: routing keys of each exchange for each user."""
    chosen = {vhost.name for vhost in _vhosts(administration, arguments)}
    return [
        {"vhost": vhost, "user": user, "exchange": exchange, **permission._asdict()}
        for (vhost, user, exchange), permission in administration.users.topic_permissions.items()
        if vhost in chosen
    ]


def list_queues(administration: Administration, arguments: Arguments) -> list[Row]:
    """Queues with their messages and consumers at this moment."""
    return [_queue(vhost, queue) for vhost in _vhosts(administration, arguments) for queue in vhost.queues.values()]


def _queue(vhost: VHost, queue: Queue) -> Row:
    ready = queue.ready
    return {
        "vhost": vhost.name,
        "name": queue.name,
        "messages_ready": ready,
        "messages_unacknowledged": queue.unacked,
        "messages": queue.messages,
        "consumers": len(queue.consumers),
        "message_bytes_ready": queue.ready_bytes,
        "messages_persistent": queue.store.state.messages,
        "durable": queue.durable,
        "auto_delete": queue.spec.auto_delete,
        "exclusive": queue.owner is not None,
        "owner": str(queue.owner.peer) if isinstance(queue.owner, Connection) else "",
        "type": queue.type.name,
        "arguments": plain(queue.spec.arguments),
        "policy": _name(queue.policies.policy),
        "operator_policy": _name(queue.policies.operator),
        "effective_policy_definition": queue.policies.definition,
    }


def _name(policy: Policy | None) -> str:
    return "" if policy is None else policy.name


def list_exchanges(administration: Administration, arguments: Arguments) -> list[Row]:
    """Exchanges, the pre-declared ones among them."""
    return [
        {
            "vhost": vhost.name,
            "name": exchange.name,
            "type": exchange.type,
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            "messages_delayed": 0 if exchange.delays is None else exchange.delays.messages,
            "arguments": plain(exchange.arguments),
            "policy": _name(exchange.policies.policy),
        }
        for vhost in _vhosts(administration, arguments)
        for exchange in vhost.exchanges.values()
    ]


def list_bindings(administration: Administration, arguments: Arguments) -> list[Row]:
    """Bindings, and those by which the default exchange reaches every queue."""
    return [
        {"vhost": vhost.name, **row}
        for vhost in _vhosts(administration, arguments)
        for row in (*map(_default_binding, vhost.queues.values()), *map(binding_row, bindings(vhost)))
    ]


def bindings(vhost: VHost) -> Iterable[Binding]:
    """Every binding of a virtual host."""
    return (binding for exchange in vhost.exchanges.values() for binding in exchange.bindings)


def binding_row(binding: Binding) -> Row:
    """A binding in the terms of definitions files."""
    return {
        "source": binding.source.name,
        "destination": binding.destination.name,
        "destination_type": destination_type(binding),
        "routing_key": binding.key,
        "arguments": plain(decode_table(binding.arguments)[0]),
    }


def destination_type(binding: Binding) -> str:
    """`queue` or `exchange`."""
    return "queue" if isinstance(binding.destination, Queue) else "exchange"


def _default_binding(queue: Queue) -> Row:
    name = queue.name
    return {"source": "", "destination": name, "destination_type": "queue", "routing_key": name, "arguments": {}}


def list_connections(administration: Administration, arguments: Arguments) -> list[Row]:
    """Connections, from the moment their sockets are accepted."""
    return [_connection(connection) for connection in administration.registry.network_connections]


def _connection(connection: Connection) -> Row:
    return {
        "name": str(connection.peer),
        "user": connection.user,
        "vhost": connection.vhost_name,
        "state": "blocked" if connection.blocked else STATES[connection.phase],
        "channels": len(connection.channels),
        "peer_host": connection.peer.host,
        "peer_port": connection.peer.port,
        "host": connection.peer.local_host,
        "port": connection.peer.local_port,
        "protocol": "AMQP 0-9-1",
        **_security(connection.peer.secured),
        "timeout": connection.heartbeat,
        "frame_max": connection.frame_max,
        "channel_max": connection.channel_max,
        "client_properties": plain(connection.client_properties),
    }


def _security(secured: Secured | None) -> Row:
    if secured is None:
        return {"ssl": False, "ssl_protocol": "", "ssl_cipher": "", "peer_cert_subject": ""}
    return {
        "ssl": True,
        "ssl_protocol": secured.version,
        "ssl_cipher": secured.cipher,
        "peer_cert_subject": _subject(secured.certificate),
    }


def _subject(certificate: bytes | None) -> str:
    try:
        return "" if certificate is None else certificate_names.subject(certificate)
    except DecodeError:
        return ""


def list_channels(administration: Administration, arguments: Arguments) -> list[Row]:
    """Channels of all connections."""
    connections = administration.registry.network_connections
    return [_channel(channel) for connection in connections for channel in connection.channels.values()]


def _channel(channel: Channel) -> Row:
    return {
        "name": _channel_name(channel),
        "connection": str(channel.connection.peer),
        "number": channel.number,
        "user": channel.connection.user,
        "vhost": channel.vhost.name,
        "consumer_count": len(channel.consumers),
        "messages_unacknowledged": len(channel.deliveries.unacked),
        "prefetch_count": channel.prefetch,
        "global_prefetch_count": channel.prefetch_all,
        "confirm": channel.confirms is not None,
        "transactional": channel.transaction is not None,
        "state": "closing" if channel.closing else "running",
    }


def list_consumers(administration: Administration, arguments: Arguments) -> list[Row]:
    """Consumers of all queues."""
    return [
        _consumer(vhost, consumer)
        for vhost in _vhosts(administration, arguments)
        for queue in vhost.queues.values()
        for consumer in queue.consumers.members
    ]


def _consumer(vhost: VHost, consumer: Consumer) -> Row:
    outlet = consumer.outlet
    return {
        "vhost": vhost.name,
        "queue": consumer.queue.name,
        "consumer_tag": consumer.tag,
        "channel": _channel_name(outlet) if isinstance(outlet, Channel) else "",
        "ack_required": not consumer.no_ack,
        "prefetch_count": consumer.prefetch,
        "exclusive": consumer.exclusive,
        "active": consumer.queue.consumers.active(consumer),
        "priority": consumer.priority,
        "arguments": plain(consumer.arguments),
    }


def _channel_name(channel: Channel) -> str:
    return f"{channel.connection.peer} ({channel.number})"


def _vhosts(administration: Administration, arguments: Arguments) -> Iterable[VHost]:
    name = arguments.optional("vhost")
    return list(administration.broker.vhosts.values()) if name is None else [administration.vhost(name)]
