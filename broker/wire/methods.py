"""Every method of the protocol, with its encoder and its decoder. generated: do not edit, run `make wire`.

A decoder takes a method frame's whole payload and raises DecodeError unless it is exactly one valid method:
RabbitMQ too refuses both missing and additional bytes.
"""

# ruff: noqa: RUF023 (slots stand in the order of the arguments)

from __future__ import annotations

import struct
from collections.abc import Callable

from broker.wire.amqp_errors import DecodeError
from broker.wire.field_tables import Table, decode_table, encode_table
from broker.wire.method import Method as Method

_B = struct.Struct(">B")
_BB = struct.Struct(">BB")
_H = struct.Struct(">H")
_HB = struct.Struct(">HB")
_HH = struct.Struct(">HH")
_HHB = struct.Struct(">HHB")
_HHBB = struct.Struct(">HHBB")
_HHH = struct.Struct(">HHH")
_HHHB = struct.Struct(">HHHB")
_HHHIH = struct.Struct(">HHHIH")
_HHI = struct.Struct(">HHI")
_HHIHB = struct.Struct(">HHIHB")
_HHQB = struct.Struct(">HHQB")
_HHQBB = struct.Struct(">HHQBB")
_HIH = struct.Struct(">HIH")
_I = struct.Struct(">I")
_IHB = struct.Struct(">IHB")
_II = struct.Struct(">II")
_QB = struct.Struct(">QB")
_QBB = struct.Struct(">QBB")


class ConnectionStart(Method):
    __slots__ = ("version_major", "version_minor", "server_properties", "mechanisms", "locales")
    __match_args__ = ("version_major", "version_minor", "server_properties", "mechanisms", "locales")
    CLASS_ID = 10
    METHOD_ID = 10
    KEY = 0x000A000A
    NAME = "connection.start"

    def __init__(
        self, version_major: int, version_minor: int, server_properties: Table, mechanisms: bytes, locales: bytes
    ) -> None:
        self.version_major = version_major
        self.version_minor = version_minor
        self.server_properties = server_properties
        self.mechanisms = mechanisms
        self.locales = locales

    def encode(self) -> bytes:
        return (
            _HHBB.pack(10, 10, self.version_major, self.version_minor)
            + encode_table(self.server_properties)
            + _I.pack(len(self.mechanisms))
            + self.mechanisms
            + _I.pack(len(self.locales))
            + self.locales
        )


class ConnectionStartOk(Method):
    __slots__ = ("client_properties", "mechanism", "response", "locale")
    __match_args__ = ("client_properties", "mechanism", "response", "locale")
    CLASS_ID = 10
    METHOD_ID = 11
    KEY = 0x000A000B
    NAME = "connection.start-ok"

    def __init__(self, client_properties: Table, mechanism: str, response: bytes, locale: str) -> None:
        self.client_properties = client_properties
        self.mechanism = mechanism
        self.response = response
        self.locale = locale

    def encode(self) -> bytes:
        mechanism = self.mechanism.encode("utf-8", "surrogateescape")
        locale = self.locale.encode("utf-8", "surrogateescape")
        return (
            _HH.pack(10, 11)
            + encode_table(self.client_properties)
            + _B.pack(len(mechanism))
            + mechanism
            + _I.pack(len(self.response))
            + self.response
            + _B.pack(len(locale))
            + locale
        )


class ConnectionSecure(Method):
    __slots__ = ("challenge",)
    __match_args__ = ("challenge",)
    CLASS_ID = 10
    METHOD_ID = 20
    KEY = 0x000A0014
    NAME = "connection.secure"

    def __init__(self, challenge: bytes) -> None:
        self.challenge = challenge

    def encode(self) -> bytes:
        return _HHI.pack(10, 20, len(self.challenge)) + self.challenge


class ConnectionSecureOk(Method):
    __slots__ = ("response",)
    __match_args__ = ("response",)
    CLASS_ID = 10
    METHOD_ID = 21
    KEY = 0x000A0015
    NAME = "connection.secure-ok"

    def __init__(self, response: bytes) -> None:
        self.response = response

    def encode(self) -> bytes:
        return _HHI.pack(10, 21, len(self.response)) + self.response


class ConnectionTune(Method):
    __slots__ = ("channel_max", "frame_max", "heartbeat")
    __match_args__ = ("channel_max", "frame_max", "heartbeat")
    CLASS_ID = 10
    METHOD_ID = 30
    KEY = 0x000A001E
    NAME = "connection.tune"

    def __init__(self, channel_max: int, frame_max: int, heartbeat: int) -> None:
        self.channel_max = channel_max
        self.frame_max = frame_max
        self.heartbeat = heartbeat

    def encode(self) -> bytes:
        return _HHHIH.pack(10, 30, self.channel_max, self.frame_max, self.heartbeat)


class ConnectionTuneOk(Method):
    __slots__ = ("channel_max", "frame_max", "heartbeat")
    __match_args__ = ("channel_max", "frame_max", "heartbeat")
    CLASS_ID = 10
    METHOD_ID = 31
    KEY = 0x000A001F
    NAME = "connection.tune-ok"

    def __init__(self, channel_max: int, frame_max: int, heartbeat: int) -> None:
        self.channel_max = channel_max
        self.frame_max = frame_max
        self.heartbeat = heartbeat

    def encode(self) -> bytes:
        return _HHHIH.pack(10, 31, self.channel_max, self.frame_max, self.heartbeat)


class ConnectionOpen(Method):
    __slots__ = ("virtual_host",)
    __match_args__ = ("virtual_host",)
    CLASS_ID = 10
    METHOD_ID = 40
    KEY = 0x000A0028
    NAME = "connection.open"

    def __init__(self, virtual_host: str) -> None:
        self.virtual_host = virtual_host

    def encode(self) -> bytes:
        virtual_host = self.virtual_host.encode("utf-8", "surrogateescape")
        return _HHB.pack(10, 40, len(virtual_host)) + virtual_host + _B.pack(0) + _B.pack(0)


class ConnectionOpenOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 10
    METHOD_ID = 41
    KEY = 0x000A0029
    NAME = "connection.open-ok"

    def encode(self) -> bytes:
        return b"\x00\x0a\x00\x29\x00"


class ConnectionClose(Method):
    __slots__ = ("reply_code", "reply_text", "class_id", "method_id")
    __match_args__ = ("reply_code", "reply_text", "class_id", "method_id")
    CLASS_ID = 10
    METHOD_ID = 50
    KEY = 0x000A0032
    NAME = "connection.close"

    def __init__(self, reply_code: int, reply_text: str, class_id: int, method_id: int) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.class_id = class_id
        self.method_id = method_id

    def encode(self) -> bytes:
        reply_text = self.reply_text.encode("utf-8", "surrogateescape")
        return (
            _HHHB.pack(10, 50, self.reply_code, len(reply_text)) + reply_text + _HH.pack(self.class_id, self.method_id)
        )


class ConnectionCloseOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 10
    METHOD_ID = 51
    KEY = 0x000A0033
    NAME = "connection.close-ok"

    def encode(self) -> bytes:
        return b"\x00\x0a\x00\x33"


class ConnectionBlocked(Method):
    __slots__ = ("reason",)
    __match_args__ = ("reason",)
    CLASS_ID = 10
    METHOD_ID = 60
    KEY = 0x000A003C
    NAME = "connection.blocked"

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def encode(self) -> bytes:
        reason = self.reason.encode("utf-8", "surrogateescape")
        return _HHB.pack(10, 60, len(reason)) + reason


class ConnectionUnblocked(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 10
    METHOD_ID = 61
    KEY = 0x000A003D
    NAME = "connection.unblocked"

    def encode(self) -> bytes:
        return b"\x00\x0a\x00\x3d"


class ConnectionUpdateSecret(Method):
    __slots__ = ("new_secret", "reason")
    __match_args__ = ("new_secret", "reason")
    CLASS_ID = 10
    METHOD_ID = 70
    KEY = 0x000A0046
    NAME = "connection.update-secret"

    def __init__(self, new_secret: bytes, reason: str) -> None:
        self.new_secret = new_secret
        self.reason = reason

    def encode(self) -> bytes:
        reason = self.reason.encode("utf-8", "surrogateescape")
        return _HHI.pack(10, 70, len(self.new_secret)) + self.new_secret + _B.pack(len(reason)) + reason


class ConnectionUpdateSecretOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 10
    METHOD_ID = 71
    KEY = 0x000A0047
    NAME = "connection.update-secret-ok"

    def encode(self) -> bytes:
        return b"\x00\x0a\x00\x47"


class ChannelOpen(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 20
    METHOD_ID = 10
    KEY = 0x0014000A
    NAME = "channel.open"

    def encode(self) -> bytes:
        return b"\x00\x14\x00\x0a\x00"


class ChannelOpenOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 20
    METHOD_ID = 11
    KEY = 0x0014000B
    NAME = "channel.open-ok"

    def encode(self) -> bytes:
        return b"\x00\x14\x00\x0b\x00\x00\x00\x00"


class ChannelFlow(Method):
    __slots__ = ("active",)
    __match_args__ = ("active",)
    CLASS_ID = 20
    METHOD_ID = 20
    KEY = 0x00140014
    NAME = "channel.flow"

    def __init__(self, active: bool) -> None:
        self.active = active

    def encode(self) -> bytes:
        return _HHB.pack(20, 20, self.active)


class ChannelFlowOk(Method):
    __slots__ = ("active",)
    __match_args__ = ("active",)
    CLASS_ID = 20
    METHOD_ID = 21
    KEY = 0x00140015
    NAME = "channel.flow-ok"

    def __init__(self, active: bool) -> None:
        self.active = active

    def encode(self) -> bytes:
        return _HHB.pack(20, 21, self.active)


class ChannelClose(Method):
    __slots__ = ("reply_code", "reply_text", "class_id", "method_id")
    __match_args__ = ("reply_code", "reply_text", "class_id", "method_id")
    CLASS_ID = 20
    METHOD_ID = 40
    KEY = 0x00140028
    NAME = "channel.close"

    def __init__(self, reply_code: int, reply_text: str, class_id: int, method_id: int) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.class_id = class_id
        self.method_id = method_id

    def encode(self) -> bytes:
        reply_text = self.reply_text.encode("utf-8", "surrogateescape")
        return (
            _HHHB.pack(20, 40, self.reply_code, len(reply_text)) + reply_text + _HH.pack(self.class_id, self.method_id)
        )


class ChannelCloseOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 20
    METHOD_ID = 41
    KEY = 0x00140029
    NAME = "channel.close-ok"

    def encode(self) -> bytes:
        return b"\x00\x14\x00\x29"


class AccessRequest(Method):
    __slots__ = ("realm", "exclusive", "passive", "active", "write", "read")
    __match_args__ = ("realm", "exclusive", "passive", "active", "write", "read")
    CLASS_ID = 30
    METHOD_ID = 10
    KEY = 0x001E000A
    NAME = "access.request"

    def __init__(self, realm: str, exclusive: bool, passive: bool, active: bool, write: bool, read: bool) -> None:
        self.realm = realm
        self.exclusive = exclusive
        self.passive = passive
        self.active = active
        self.write = write
        self.read = read

    def encode(self) -> bytes:
        realm = self.realm.encode("utf-8", "surrogateescape")
        return (
            _HHB.pack(30, 10, len(realm))
            + realm
            + _B.pack(self.exclusive | self.passive << 1 | self.active << 2 | self.write << 3 | self.read << 4)
        )


class AccessRequestOk(Method):
    __slots__ = ("ticket",)
    __match_args__ = ("ticket",)
    CLASS_ID = 30
    METHOD_ID = 11
    KEY = 0x001E000B
    NAME = "access.request-ok"

    def __init__(self, ticket: int) -> None:
        self.ticket = ticket

    def encode(self) -> bytes:
        return _HHH.pack(30, 11, self.ticket)


class ExchangeDeclare(Method):
    __slots__ = ("exchange", "type", "passive", "durable", "auto_delete", "internal", "no_wait", "arguments")
    __match_args__ = ("exchange", "type", "passive", "durable", "auto_delete", "internal", "no_wait", "arguments")
    CLASS_ID = 40
    METHOD_ID = 10
    KEY = 0x0028000A
    NAME = "exchange.declare"

    def __init__(
        self,
        exchange: str,
        type: str,
        passive: bool,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        no_wait: bool,
        arguments: Table,
    ) -> None:
        self.exchange = exchange
        self.type = type
        self.passive = passive
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.no_wait = no_wait
        self.arguments = arguments

    def encode(self) -> bytes:
        exchange = self.exchange.encode("utf-8", "surrogateescape")
        type = self.type.encode("utf-8", "surrogateescape")
        return (
            _HHHB.pack(40, 10, 0, len(exchange))
            + exchange
            + _B.pack(len(type))
            + type
            + _B.pack(self.passive | self.durable << 1 | self.auto_delete << 2 | self.internal << 3 | self.no_wait << 4)
            + encode_table(self.arguments)
        )


class ExchangeDeclareOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 40
    METHOD_ID = 11
    KEY = 0x0028000B
    NAME = "exchange.declare-ok"

    def encode(self) -> bytes:
        return b"\x00\x28\x00\x0b"


class ExchangeDelete(Method):
    __slots__ = ("exchange", "if_unused", "no_wait")
    __match_args__ = ("exchange", "if_unused", "no_wait")
    CLASS_ID = 40
    METHOD_ID = 20
    KEY = 0x00280014
    NAME = "exchange.delete"

    def __init__(self, exchange: str, if_unused: bool, no_wait: bool) -> None:
        self.exchange = exchange
        self.if_unused = if_unused
        self.no_wait = no_wait

    def encode(self) -> bytes:
        exchange = self.exchange.encode("utf-8", "surrogateescape")
        return _HHHB.pack(40, 20, 0, len(exchange)) + exchange + _B.pack(self.if_unused | self.no_wait << 1)


class ExchangeDeleteOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 40
    METHOD_ID = 21
    KEY = 0x00280015
    NAME = "exchange.delete-ok"

    def encode(self) -> bytes:
        return b"\x00\x28\x00\x15"


class ExchangeBind(Method):
    __slots__ = ("destination", "source", "routing_key", "no_wait", "arguments")
    __match_args__ = ("destination", "source", "routing_key", "no_wait", "arguments")
    CLASS_ID = 40
    METHOD_ID = 30
    KEY = 0x0028001E
    NAME = "exchange.bind"

    def __init__(self, destination: str, source: str, routing_key: str, no_wait: bool, arguments: Table) -> None:
        self.destination = destination
        self.source = source
        self.routing_key = routing_key
        self.no_wait = no_wait
        self.arguments = arguments

    def encode(self) -> bytes:
        destination = self.destination.encode("utf-8", "surrogateescape")
        source = self.source.encode("utf-8", "surrogateescape")
        routing_key = self.routing_key.encode("utf-8", "surrogateescape")
        return (
            _HHHB.pack(40, 30, 0, len(destination))
            + destination
            + _B.pack(len(source))
            + source
            + _B.pack(len(routing_key))
            + routing_key
            + _B.pack(self.no_wait)
            + encode_table(self.arguments)
        )


class ExchangeBindOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 40
    METHOD_ID = 31
    KEY = 0x0028001F
    NAME = "exchange.bind-ok"

    def encode(self) -> bytes:
        return b"\x00\x28\x00\x1f"


class ExchangeUnbind(Method):
    __slots__ = ("destination", "source", "routing_key", "no_wait", "arguments")
    __match_args__ = ("destination", "source", "routing_key", "no_wait", "arguments")
    CLASS_ID = 40
    METHOD_ID = 40
    KEY = 0x00280028
    NAME = "exchange.unbind"

    def __init__(self, destination: str, source: str, routing_key: str, no_wait: bool, arguments: Table) -> None:
        self.destination = destination
        self.source = source
        self.routing_key = routing_key
        self.no_wait = no_wait
        self.arguments = arguments

    def encode(self) -> bytes:
        destination = self.destination.encode("utf-8", "surrogateescape")
        source = self.source.encode("utf-8", "surrogateescape")
        routing_key = self.routing_key.encode("utf-8", "surrogateescape")
        return (
            _HHHB.pack(40, 40, 0, len(destination))
            + destination
            + _B.pack(len(source))
            + source
            + _B.pack(len(routing_key))
            + routing_key
            + _B.pack(self.no_wait)
            + encode_table(self.arguments)
        )


class ExchangeUnbindOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 40
    METHOD_ID = 51
    KEY = 0x00280033
    NAME = "exchange.unbind-ok"

    def encode(self) -> bytes:
        return b"\x00\x28\x00\x33"


class QueueDeclare(Method):
    __slots__ = ("queue", "passive", "durable", "exclusive", "auto_delete", "no_wait", "arguments")
    __match_args__ = ("queue", "passive", "durable", "exclusive", "auto_delete", "no_wait", "arguments")
    CLASS_ID = 50
    METHOD_ID = 10
    KEY = 0x0032000A
    NAME = "queue.declare"

    def __init__(
        self,
        queue: str,
        passive: bool,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        no_wait: bool,
        arguments: Table,
    ) -> None:
        self.queue = queue
        self.passive = passive
        self.durable = durable
        self.exclusive = exclusive
        self.auto_delete = auto_delete
        self.no_wait = no_wait
        self.arguments = arguments

    def encode(self) -> bytes:
        queue = self.queue.encode("utf-8", "surrogateescape")
        return (
            _HHHB.pack(50, 10, 0, len(queue))
            + queue
            + _B.pack(
                self.passive | self.durable << 1 | self.exclusive << 2 | self.auto_delete << 3 | self.no_wait << 4
            )
            + encode_table(self.arguments)
        )


class QueueDeclareOk(Method):
    __slots__ = ("queue", "message_count", "consumer_count")
    __match_args__ = ("queue", "message_count", "consumer_count")
    CLASS_ID = 50
    METHOD_ID = 11
    KEY = 0x0032000B
    NAME = "queue.declare-ok"

    def __init__(self, queue: str, message_count: int, consumer_count: int) -> None:
        self.queue = queue
        self.message_count = message_count
        self.consumer_count = consumer_count

    def encode(self) -> bytes:
        queue = self.queue.encode("utf-8", "surrogateescape")
        return _HHB.pack(50, 11, len(queue)) + queue + _II.pack(self.message_count, self.consumer_count)


class QueueBind(Method):
    __slots__ = ("queue", "exchange", "routing_key", "no_wait", "arguments")
    __match_args__ = ("queue", "exchange", "routing_key", "no_wait", "arguments")
    CLASS_ID = 50
    METHOD_ID = 20
    KEY = 0x00320014
    NAME = "queue.bind"

    def __init__(self, queue: str, exchange: str, routing_key: str, no_wait: bool, arguments: Table) -> None:
        self.queue = queue
        self.exchange = exchange
        self.routing_key = routing_key
        self.no_wait = no_wait
        self.arguments = arguments

    def encode(self) -> bytes:
        queue = self.queue.encode("utf-8", "surrogateescape")
        exchange = self.exchange.encode("utf-8", "surrogateescape")
        routing_key = self.routing_key.encode("utf-8", "surrogateescape")
        return (
            _HHHB.pack(50, 20, 0, len(queue))
            + queue
            + _B.pack(len(exchange))
            + exchange
            + _B.pack(len(routing_key))
            + routing_key
            + _B.pack(self.no_wait)
            + encode_table(self.arguments)
        )


class QueueBindOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 50
    METHOD_ID = 21
    KEY = 0x00320015
    NAME = "queue.bind-ok"

    def encode(self) -> bytes:
        return b"\x00\x32\x00\x15"


class QueuePurge(Method):
    __slots__ = ("queue", "no_wait")
    __match_args__ = ("queue", "no_wait")
    CLASS_ID = 50
    METHOD_ID = 30
    KEY = 0x0032001E
    NAME = "queue.purge"

    def __init__(self, queue: str, no_wait: bool) -> None:
        self.queue = queue
        self.no_wait = no_wait

    def encode(self) -> bytes:
        queue = self.queue.encode("utf-8", "surrogateescape")
        return _HHHB.pack(50, 30, 0, len(queue)) + queue + _B.pack(self.no_wait)


class QueuePurgeOk(Method):
    __slots__ = ("message_count",)
    __match_args__ = ("message_count",)
    CLASS_ID = 50
    METHOD_ID = 31
    KEY = 0x0032001F
    NAME = "queue.purge-ok"

    def __init__(self, message_count: int) -> None:
        self.message_count = message_count

    def encode(self) -> bytes:
        return _HHI.pack(50, 31, self.message_count)


class QueueDelete(Method):
    __slots__ = ("queue", "if_unused", "if_empty", "no_wait")
    __match_args__ = ("queue", "if_unused", "if_empty", "no_wait")
    CLASS_ID = 50
    METHOD_ID = 40
    KEY = 0x00320028
    NAME = "queue.delete"

    def __init__(self, queue: str, if_unused: bool, if_empty: bool, no_wait: bool) -> None:
        self.queue = queue
        self.if_unused = if_unused
        self.if_empty = if_empty
        self.no_wait = no_wait

    def encode(self) -> bytes:
        queue = self.queue.encode("utf-8", "surrogateescape")
        return (
            _HHHB.pack(50, 40, 0, len(queue)) + queue + _B.pack(self.if_unused | self.if_empty << 1 | self.no_wait << 2)
        )


class QueueDeleteOk(Method):
    __slots__ = ("message_count",)
    __match_args__ = ("message_count",)
    CLASS_ID = 50
    METHOD_ID = 41
    KEY = 0x00320029
    NAME = "queue.delete-ok"

    def __init__(self, message_count: int) -> None:
        self.message_count = message_count

    def encode(self) -> bytes:
        return _HHI.pack(50, 41, self.message_count)


class QueueUnbind(Method):
    __slots__ = ("queue", "exchange", "routing_key", "arguments")
    __match_args__ = ("queue", "exchange", "routing_key", "arguments")
    CLASS_ID = 50
    METHOD_ID = 50
    KEY = 0x00320032
    NAME = "queue.unbind"

    def __init__(self, queue: str, exchange: str, routing_key: str, arguments: Table) -> None:
        self.queue = queue
        self.exchange = exchange
        self.routing_key = routing_key
        self.arguments = arguments

    def encode(self) -> bytes:
        queue = self.queue.encode("utf-8", "surrogateescape")
        exchange = self.exchange.encode("utf-8", "surrogateescape")
        routing_key = self.routing_key.encode("utf-8", "surrogateescape")
        return (
            _HHHB.pack(50, 50, 0, len(queue))
            + queue
            + _B.pack(len(exchange))
            + exchange
            + _B.pack(len(routing_key))
            + routing_key
            + encode_table(self.arguments)
        )


class QueueUnbindOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 50
    METHOD_ID = 51
    KEY = 0x00320033
    NAME = "queue.unbind-ok"

    def encode(self) -> bytes:
        return b"\x00\x32\x00\x33"


class BasicQos(Method):
    __slots__ = ("prefetch_size", "prefetch_count", "global_")
    __match_args__ = ("prefetch_size", "prefetch_count", "global_")
    CLASS_ID = 60
    METHOD_ID = 10
    KEY = 0x003C000A
    NAME = "basic.qos"

    def __init__(self, prefetch_size: int, prefetch_count: int, global_: bool) -> None:
        self.prefetch_size = prefetch_size
        self.prefetch_count = prefetch_count
        self.global_ = global_

    def encode(self) -> bytes:
        return _HHIHB.pack(60, 10, self.prefetch_size, self.prefetch_count, self.global_)


class BasicQosOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 60
    METHOD_ID = 11
    KEY = 0x003C000B
    NAME = "basic.qos-ok"

    def encode(self) -> bytes:
        return b"\x00\x3c\x00\x0b"


class BasicConsume(Method):
    __slots__ = ("queue", "consumer_tag", "no_local", "no_ack", "exclusive", "no_wait", "arguments")
    __match_args__ = ("queue", "consumer_tag", "no_local", "no_ack", "exclusive", "no_wait", "arguments")
    CLASS_ID = 60
    METHOD_ID = 20
    KEY = 0x003C0014
    NAME = "basic.consume"

    def __init__(
        self,
        queue: str,
        consumer_tag: str,
        no_local: bool,
        no_ack: bool,
        exclusive: bool,
        no_wait: bool,
        arguments: Table,
    ) -> None:
        self.queue = queue
        self.consumer_tag = consumer_tag
        self.no_local = no_local
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.no_wait = no_wait
        self.arguments = arguments

    def encode(self) -> bytes:
        queue = self.queue.encode("utf-8", "surrogateescape")
        consumer_tag = self.consumer_tag.encode("utf-8", "surrogateescape")
        return (
            _HHHB.pack(60, 20, 0, len(queue))
            + queue
            + _B.pack(len(consumer_tag))
            + consumer_tag
            + _B.pack(self.no_local | self.no_ack << 1 | self.exclusive << 2 | self.no_wait << 3)
            + encode_table(self.arguments)
        )


class BasicConsumeOk(Method):
    __slots__ = ("consumer_tag",)
    __match_args__ = ("consumer_tag",)
    CLASS_ID = 60
    METHOD_ID = 21
    KEY = 0x003C0015
    NAME = "basic.consume-ok"

    def __init__(self, consumer_tag: str) -> None:
        self.consumer_tag = consumer_tag

    def encode(self) -> bytes:
        consumer_tag = self.consumer_tag.encode("utf-8", "surrogateescape")
        return _HHB.pack(60, 21, len(consumer_tag)) + consumer_tag


class BasicCancel(Method):
    __slots__ = ("consumer_tag", "no_wait")
    __match_args__ = ("consumer_tag", "no_wait")
    CLASS_ID = 60
    METHOD_ID = 30
    KEY = 0x003C001E
    NAME = "basic.cancel"

    def __init__(self, consumer_tag: str, no_wait: bool) -> None:
        self.consumer_tag = consumer_tag
        self.no_wait = no_wait

    def encode(self) -> bytes:
        consumer_tag = self.consumer_tag.encode("utf-8", "surrogateescape")
        return _HHB.pack(60, 30, len(consumer_tag)) + consumer_tag + _B.pack(self.no_wait)


class BasicCancelOk(Method):
    __slots__ = ("consumer_tag",)
    __match_args__ = ("consumer_tag",)
    CLASS_ID = 60
    METHOD_ID = 31
    KEY = 0x003C001F
    NAME = "basic.cancel-ok"

    def __init__(self, consumer_tag: str) -> None:
        self.consumer_tag = consumer_tag

    def encode(self) -> bytes:
        consumer_tag = self.consumer_tag.encode("utf-8", "surrogateescape")
        return _HHB.pack(60, 31, len(consumer_tag)) + consumer_tag


class BasicPublish(Method):
    __slots__ = ("exchange", "routing_key", "mandatory", "immediate")
    __match_args__ = ("exchange", "routing_key", "mandatory", "immediate")
    CLASS_ID = 60
    METHOD_ID = 40
    KEY = 0x003C0028
    NAME = "basic.publish"
    HAS_CONTENT = True

    def __init__(self, exchange: str, routing_key: str, mandatory: bool, immediate: bool) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.mandatory = mandatory
        self.immediate = immediate

    def encode(self) -> bytes:
        exchange = self.exchange.encode("utf-8", "surrogateescape")
        routing_key = self.routing_key.encode("utf-8", "surrogateescape")
        return (
            _HHHB.pack(60, 40, 0, len(exchange))
            + exchange
            + _B.pack(len(routing_key))
            + routing_key
            + _B.pack(self.mandatory | self.immediate << 1)
        )


class BasicReturn(Method):
    __slots__ = ("reply_code", "reply_text", "exchange", "routing_key")
    __match_args__ = ("reply_code", "reply_text", "exchange", "routing_key")
    CLASS_ID = 60
    METHOD_ID = 50
    KEY = 0x003C0032
    NAME = "basic.return"
    HAS_CONTENT = True

    def __init__(self, reply_code: int, reply_text: str, exchange: str, routing_key: str) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.exchange = exchange
        self.routing_key = routing_key

    def encode(self) -> bytes:
        reply_text = self.reply_text.encode("utf-8", "surrogateescape")
        exchange = self.exchange.encode("utf-8", "surrogateescape")
        routing_key = self.routing_key.encode("utf-8", "surrogateescape")
        return (
            _HHHB.pack(60, 50, self.reply_code, len(reply_text))
            + reply_text
            + _B.pack(len(exchange))
            + exchange
            + _B.pack(len(routing_key))
            + routing_key
        )


class BasicDeliver(Method):
    __slots__ = ("consumer_tag", "delivery_tag", "redelivered", "exchange", "routing_key")
    __match_args__ = ("consumer_tag", "delivery_tag", "redelivered", "exchange", "routing_key")
    CLASS_ID = 60
    METHOD_ID = 60
    KEY = 0x003C003C
    NAME = "basic.deliver"
    HAS_CONTENT = True

    def __init__(
        self, consumer_tag: str, delivery_tag: int, redelivered: bool, exchange: str, routing_key: str
    ) -> None:
        self.consumer_tag = consumer_tag
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.routing_key = routing_key

    def encode(self) -> bytes:
        consumer_tag = self.consumer_tag.encode("utf-8", "surrogateescape")
        exchange = self.exchange.encode("utf-8", "surrogateescape")
        routing_key = self.routing_key.encode("utf-8", "surrogateescape")
        return (
            _HHB.pack(60, 60, len(consumer_tag))
            + consumer_tag
            + _QBB.pack(self.delivery_tag, self.redelivered, len(exchange))
            + exchange
            + _B.pack(len(routing_key))
            + routing_key
        )


class BasicGet(Method):
    __slots__ = ("queue", "no_ack")
    __match_args__ = ("queue", "no_ack")
    CLASS_ID = 60
    METHOD_ID = 70
    KEY = 0x003C0046
    NAME = "basic.get"

    def __init__(self, queue: str, no_ack: bool) -> None:
        self.queue = queue
        self.no_ack = no_ack

    def encode(self) -> bytes:
        queue = self.queue.encode("utf-8", "surrogateescape")
        return _HHHB.pack(60, 70, 0, len(queue)) + queue + _B.pack(self.no_ack)


class BasicGetOk(Method):
    __slots__ = ("delivery_tag", "redelivered", "exchange", "routing_key", "message_count")
    __match_args__ = ("delivery_tag", "redelivered", "exchange", "routing_key", "message_count")
    CLASS_ID = 60
    METHOD_ID = 71
    KEY = 0x003C0047
    NAME = "basic.get-ok"
    HAS_CONTENT = True

    def __init__(
        self, delivery_tag: int, redelivered: bool, exchange: str, routing_key: str, message_count: int
    ) -> None:
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.routing_key = routing_key
        self.message_count = message_count

    def encode(self) -> bytes:
        exchange = self.exchange.encode("utf-8", "surrogateescape")
        routing_key = self.routing_key.encode("utf-8", "surrogateescape")
        return (
            _HHQBB.pack(60, 71, self.delivery_tag, self.redelivered, len(exchange))
            + exchange
            + _B.pack(len(routing_key))
            + routing_key
            + _I.pack(self.message_count)
        )


class BasicGetEmpty(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 60
    METHOD_ID = 72
    KEY = 0x003C0048
    NAME = "basic.get-empty"

    def encode(self) -> bytes:
        return b"\x00\x3c\x00\x48\x00"


class BasicAck(Method):
    __slots__ = ("delivery_tag", "multiple")
    __match_args__ = ("delivery_tag", "multiple")
    CLASS_ID = 60
    METHOD_ID = 80
    KEY = 0x003C0050
    NAME = "basic.ack"

    def __init__(self, delivery_tag: int, multiple: bool) -> None:
        self.delivery_tag = delivery_tag
        self.multiple = multiple

    def encode(self) -> bytes:
        return _HHQB.pack(60, 80, self.delivery_tag, self.multiple)


class BasicReject(Method):
    __slots__ = ("delivery_tag", "requeue")
    __match_args__ = ("delivery_tag", "requeue")
    CLASS_ID = 60
    METHOD_ID = 90
    KEY = 0x003C005A
    NAME = "basic.reject"

    def __init__(self, delivery_tag: int, requeue: bool) -> None:
        self.delivery_tag = delivery_tag
        self.requeue = requeue

    def encode(self) -> bytes:
        return _HHQB.pack(60, 90, self.delivery_tag, self.requeue)


class BasicRecoverAsync(Method):
    __slots__ = ("requeue",)
    __match_args__ = ("requeue",)
    CLASS_ID = 60
    METHOD_ID = 100
    KEY = 0x003C0064
    NAME = "basic.recover-async"

    def __init__(self, requeue: bool) -> None:
        self.requeue = requeue

    def encode(self) -> bytes:
        return _HHB.pack(60, 100, self.requeue)


class BasicRecover(Method):
    __slots__ = ("requeue",)
    __match_args__ = ("requeue",)
    CLASS_ID = 60
    METHOD_ID = 110
    KEY = 0x003C006E
    NAME = "basic.recover"

    def __init__(self, requeue: bool) -> None:
        self.requeue = requeue

    def encode(self) -> bytes:
        return _HHB.pack(60, 110, self.requeue)


class BasicRecoverOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 60
    METHOD_ID = 111
    KEY = 0x003C006F
    NAME = "basic.recover-ok"

    def encode(self) -> bytes:
        return b"\x00\x3c\x00\x6f"


class BasicNack(Method):
    __slots__ = ("delivery_tag", "multiple", "requeue")
    __match_args__ = ("delivery_tag", "multiple", "requeue")
    CLASS_ID = 60
    METHOD_ID = 120
    KEY = 0x003C0078
    NAME = "basic.nack"

    def __init__(self, delivery_tag: int, multiple: bool, requeue: bool) -> None:
        self.delivery_tag = delivery_tag
        self.multiple = multiple
        self.requeue = requeue

    def encode(self) -> bytes:
        return _HHQB.pack(60, 120, self.delivery_tag, self.multiple | self.requeue << 1)


class ConfirmSelect(Method):
    __slots__ = ("no_wait",)
    __match_args__ = ("no_wait",)
    CLASS_ID = 85
    METHOD_ID = 10
    KEY = 0x0055000A
    NAME = "confirm.select"

    def __init__(self, no_wait: bool) -> None:
        self.no_wait = no_wait

    def encode(self) -> bytes:
        return _HHB.pack(85, 10, self.no_wait)


class ConfirmSelectOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 85
    METHOD_ID = 11
    KEY = 0x0055000B
    NAME = "confirm.select-ok"

    def encode(self) -> bytes:
        return b"\x00\x55\x00\x0b"


class TxSelect(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 90
    METHOD_ID = 10
    KEY = 0x005A000A
    NAME = "tx.select"

    def encode(self) -> bytes:
        return b"\x00\x5a\x00\x0a"


class TxSelectOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 90
    METHOD_ID = 11
    KEY = 0x005A000B
    NAME = "tx.select-ok"

    def encode(self) -> bytes:
        return b"\x00\x5a\x00\x0b"


class TxCommit(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 90
    METHOD_ID = 20
    KEY = 0x005A0014
    NAME = "tx.commit"

    def encode(self) -> bytes:
        return b"\x00\x5a\x00\x14"


class TxCommitOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 90
    METHOD_ID = 21
    KEY = 0x005A0015
    NAME = "tx.commit-ok"

    def encode(self) -> bytes:
        return b"\x00\x5a\x00\x15"


class TxRollback(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 90
    METHOD_ID = 30
    KEY = 0x005A001E
    NAME = "tx.rollback"

    def encode(self) -> bytes:
        return b"\x00\x5a\x00\x1e"


class TxRollbackOk(Method):
    __slots__ = ()
    __match_args__ = ()
    CLASS_ID = 90
    METHOD_ID = 31
    KEY = 0x005A001F
    NAME = "tx.rollback-ok"

    def encode(self) -> bytes:
        return b"\x00\x5a\x00\x1f"


def decode_connection_start(data: bytes) -> ConnectionStart:
    try:
        version_major, version_minor = _BB.unpack_from(data, 4)
        server_properties, server_properties_end = decode_table(data, 6)
        (mechanisms_size,) = _I.unpack_from(data, server_properties_end)
        mechanisms_end = server_properties_end + 4 + mechanisms_size
        mechanisms = data[server_properties_end + 4 : mechanisms_end]
        (locales_size,) = _I.unpack_from(data, mechanisms_end)
        locales_end = mechanisms_end + 4 + locales_size
        locales = data[mechanisms_end + 4 : locales_end]
        if len(data) != locales_end:
            raise DecodeError("wrong length of connection.start")
        return ConnectionStart(version_major, version_minor, server_properties, mechanisms, locales)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode connection.start") from error


def decode_connection_start_ok(data: bytes) -> ConnectionStartOk:
    try:
        client_properties, client_properties_end = decode_table(data, 4)
        mechanism_size = data[client_properties_end]
        mechanism_end = client_properties_end + 1 + mechanism_size
        mechanism = data[client_properties_end + 1 : mechanism_end].decode("utf-8", "surrogateescape")
        (response_size,) = _I.unpack_from(data, mechanism_end)
        response_end = mechanism_end + 4 + response_size
        response = data[mechanism_end + 4 : response_end]
        locale_size = data[response_end]
        locale_end = response_end + 1 + locale_size
        locale = data[response_end + 1 : locale_end].decode("utf-8", "surrogateescape")
        if len(data) != locale_end:
            raise DecodeError("wrong length of connection.start-ok")
        return ConnectionStartOk(client_properties, mechanism, response, locale)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode connection.start-ok") from error


def decode_connection_secure(data: bytes) -> ConnectionSecure:
    try:
        (challenge_size,) = _I.unpack_from(data, 4)
        challenge_end = 8 + challenge_size
        challenge = data[8:challenge_end]
        if len(data) != challenge_end:
            raise DecodeError("wrong length of connection.secure")
        return ConnectionSecure(challenge)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode connection.secure") from error


def decode_connection_secure_ok(data: bytes) -> ConnectionSecureOk:
    try:
        (response_size,) = _I.unpack_from(data, 4)
        response_end = 8 + response_size
        response = data[8:response_end]
        if len(data) != response_end:
            raise DecodeError("wrong length of connection.secure-ok")
        return ConnectionSecureOk(response)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode connection.secure-ok") from error


def decode_connection_tune(data: bytes) -> ConnectionTune:
    try:
        channel_max, frame_max, heartbeat = _HIH.unpack_from(data, 4)
        if len(data) != 12:
            raise DecodeError("wrong length of connection.tune")
        return ConnectionTune(channel_max, frame_max, heartbeat)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode connection.tune") from error


def decode_connection_tune_ok(data: bytes) -> ConnectionTuneOk:
    try:
        channel_max, frame_max, heartbeat = _HIH.unpack_from(data, 4)
        if len(data) != 12:
            raise DecodeError("wrong length of connection.tune-ok")
        return ConnectionTuneOk(channel_max, frame_max, heartbeat)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode connection.tune-ok") from error


def decode_connection_open(data: bytes) -> ConnectionOpen:
    try:
        virtual_host_size = data[4]
        virtual_host_end = 5 + virtual_host_size
        virtual_host = data[5:virtual_host_end].decode("utf-8", "surrogateescape")
        reserved_1_size = data[virtual_host_end]
        reserved_1_end = virtual_host_end + 1 + reserved_1_size
        if len(data) != reserved_1_end + 1:
            raise DecodeError("wrong length of connection.open")
        return ConnectionOpen(virtual_host)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode connection.open") from error


def decode_connection_open_ok(data: bytes) -> ConnectionOpenOk:
    try:
        reserved_1_size = data[4]
        reserved_1_end = 5 + reserved_1_size
        if len(data) != reserved_1_end:
            raise DecodeError("wrong length of connection.open-ok")
        return ConnectionOpenOk()
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode connection.open-ok") from error


def decode_connection_close(data: bytes) -> ConnectionClose:
    try:
        reply_code, reply_text_size = _HB.unpack_from(data, 4)
        reply_text_end = 7 + reply_text_size
        reply_text = data[7:reply_text_end].decode("utf-8", "surrogateescape")
        class_id, method_id = _HH.unpack_from(data, reply_text_end)
        if len(data) != reply_text_end + 4:
            raise DecodeError("wrong length of connection.close")
        return ConnectionClose(reply_code, reply_text, class_id, method_id)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode connection.close") from error


def decode_connection_close_ok(data: bytes) -> ConnectionCloseOk:
    if len(data) != 4:
        raise DecodeError("wrong length of connection.close-ok")
    return ConnectionCloseOk()


def decode_connection_blocked(data: bytes) -> ConnectionBlocked:
    try:
        reason_size = data[4]
        reason_end = 5 + reason_size
        reason = data[5:reason_end].decode("utf-8", "surrogateescape")
        if len(data) != reason_end:
            raise DecodeError("wrong length of connection.blocked")
        return ConnectionBlocked(reason)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode connection.blocked") from error


def decode_connection_unblocked(data: bytes) -> ConnectionUnblocked:
    if len(data) != 4:
        raise DecodeError("wrong length of connection.unblocked")
    return ConnectionUnblocked()


def decode_connection_update_secret(data: bytes) -> ConnectionUpdateSecret:
    try:
        (new_secret_size,) = _I.unpack_from(data, 4)
        new_secret_end = 8 + new_secret_size
        new_secret = data[8:new_secret_end]
        reason_size = data[new_secret_end]
        reason_end = new_secret_end + 1 + reason_size
        reason = data[new_secret_end + 1 : reason_end].decode("utf-8", "surrogateescape")
        if len(data) != reason_end:
            raise DecodeError("wrong length of connection.update-secret")
        return ConnectionUpdateSecret(new_secret, reason)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode connection.update-secret") from error


def decode_connection_update_secret_ok(data: bytes) -> ConnectionUpdateSecretOk:
    if len(data) != 4:
        raise DecodeError("wrong length of connection.update-secret-ok")
    return ConnectionUpdateSecretOk()


def decode_channel_open(data: bytes) -> ChannelOpen:
    try:
        reserved_1_size = data[4]
        reserved_1_end = 5 + reserved_1_size
        if len(data) != reserved_1_end:
            raise DecodeError("wrong length of channel.open")
        return ChannelOpen()
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode channel.open") from error


def decode_channel_open_ok(data: bytes) -> ChannelOpenOk:
    try:
        (reserved_1_size,) = _I.unpack_from(data, 4)
        reserved_1_end = 8 + reserved_1_size
        if len(data) != reserved_1_end:
            raise DecodeError("wrong length of channel.open-ok")
        return ChannelOpenOk()
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode channel.open-ok") from error


def decode_channel_flow(data: bytes) -> ChannelFlow:
    try:
        bits = data[4]
        if len(data) != 5:
            raise DecodeError("wrong length of channel.flow")
        return ChannelFlow(bits & 1 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode channel.flow") from error


def decode_channel_flow_ok(data: bytes) -> ChannelFlowOk:
    try:
        bits = data[4]
        if len(data) != 5:
            raise DecodeError("wrong length of channel.flow-ok")
        return ChannelFlowOk(bits & 1 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode channel.flow-ok") from error


def decode_channel_close(data: bytes) -> ChannelClose:
    try:
        reply_code, reply_text_size = _HB.unpack_from(data, 4)
        reply_text_end = 7 + reply_text_size
        reply_text = data[7:reply_text_end].decode("utf-8", "surrogateescape")
        class_id, method_id = _HH.unpack_from(data, reply_text_end)
        if len(data) != reply_text_end + 4:
            raise DecodeError("wrong length of channel.close")
        return ChannelClose(reply_code, reply_text, class_id, method_id)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode channel.close") from error


def decode_channel_close_ok(data: bytes) -> ChannelCloseOk:
    if len(data) != 4:
        raise DecodeError("wrong length of channel.close-ok")
    return ChannelCloseOk()


def decode_access_request(data: bytes) -> AccessRequest:
    try:
        realm_size = data[4]
        realm_end = 5 + realm_size
        realm = data[5:realm_end].decode("utf-8", "surrogateescape")
        bits = data[realm_end]
        if len(data) != realm_end + 1:
            raise DecodeError("wrong length of access.request")
        return AccessRequest(realm, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0, bits & 16 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode access.request") from error


def decode_access_request_ok(data: bytes) -> AccessRequestOk:
    try:
        (ticket,) = _H.unpack_from(data, 4)
        if len(data) != 6:
            raise DecodeError("wrong length of access.request-ok")
        return AccessRequestOk(ticket)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode access.request-ok") from error


def decode_exchange_declare(data: bytes) -> ExchangeDeclare:
    try:
        exchange_size = data[6]
        exchange_end = 7 + exchange_size
        exchange = data[7:exchange_end].decode("utf-8", "surrogateescape")
        type_size = data[exchange_end]
        type_end = exchange_end + 1 + type_size
        type = data[exchange_end + 1 : type_end].decode("utf-8", "surrogateescape")
        bits = data[type_end]
        arguments, arguments_end = decode_table(data, type_end + 1)
        if len(data) != arguments_end:
            raise DecodeError("wrong length of exchange.declare")
        return ExchangeDeclare(
            exchange, type, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0, bits & 16 != 0, arguments
        )
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode exchange.declare") from error


def decode_exchange_declare_ok(data: bytes) -> ExchangeDeclareOk:
    if len(data) != 4:
        raise DecodeError("wrong length of exchange.declare-ok")
    return ExchangeDeclareOk()


def decode_exchange_delete(data: bytes) -> ExchangeDelete:
    try:
        exchange_size = data[6]
        exchange_end = 7 + exchange_size
        exchange = data[7:exchange_end].decode("utf-8", "surrogateescape")
        bits = data[exchange_end]
        if len(data) != exchange_end + 1:
            raise DecodeError("wrong length of exchange.delete")
        return ExchangeDelete(exchange, bits & 1 != 0, bits & 2 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode exchange.delete") from error


def decode_exchange_delete_ok(data: bytes) -> ExchangeDeleteOk:
    if len(data) != 4:
        raise DecodeError("wrong length of exchange.delete-ok")
    return ExchangeDeleteOk()


def decode_exchange_bind(data: bytes) -> ExchangeBind:
    try:
        destination_size = data[6]
        destination_end = 7 + destination_size
        destination = data[7:destination_end].decode("utf-8", "surrogateescape")
        source_size = data[destination_end]
        source_end = destination_end + 1 + source_size
        source = data[destination_end + 1 : source_end].decode("utf-8", "surrogateescape")
        routing_key_size = data[source_end]
        routing_key_end = source_end + 1 + routing_key_size
        routing_key = data[source_end + 1 : routing_key_end].decode("utf-8", "surrogateescape")
        bits = data[routing_key_end]
        arguments, arguments_end = decode_table(data, routing_key_end + 1)
        if len(data) != arguments_end:
            raise DecodeError("wrong length of exchange.bind")
        return ExchangeBind(destination, source, routing_key, bits & 1 != 0, arguments)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode exchange.bind") from error


def decode_exchange_bind_ok(data: bytes) -> ExchangeBindOk:
    if len(data) != 4:
        raise DecodeError("wrong length of exchange.bind-ok")
    return ExchangeBindOk()


def decode_exchange_unbind(data: bytes) -> ExchangeUnbind:
    try:
        destination_size = data[6]
        destination_end = 7 + destination_size
        destination = data[7:destination_end].decode("utf-8", "surrogateescape")
        source_size = data[destination_end]
        source_end = destination_end + 1 + source_size
        source = data[destination_end + 1 : source_end].decode("utf-8", "surrogateescape")
        routing_key_size = data[source_end]
        routing_key_end = source_end + 1 + routing_key_size
        routing_key = data[source_end + 1 : routing_key_end].decode("utf-8", "surrogateescape")
        bits = data[routing_key_end]
        arguments, arguments_end = decode_table(data, routing_key_end + 1)
        if len(data) != arguments_end:
            raise DecodeError("wrong length of exchange.unbind")
        return ExchangeUnbind(destination, source, routing_key, bits & 1 != 0, arguments)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode exchange.unbind") from error


def decode_exchange_unbind_ok(data: bytes) -> ExchangeUnbindOk:
    if len(data) != 4:
        raise DecodeError("wrong length of exchange.unbind-ok")
    return ExchangeUnbindOk()


def decode_queue_declare(data: bytes) -> QueueDeclare:
    try:
        queue_size = data[6]
        queue_end = 7 + queue_size
        queue = data[7:queue_end].decode("utf-8", "surrogateescape")
        bits = data[queue_end]
        arguments, arguments_end = decode_table(data, queue_end + 1)
        if len(data) != arguments_end:
            raise DecodeError("wrong length of queue.declare")
        return QueueDeclare(
            queue, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0, bits & 16 != 0, arguments
        )
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode queue.declare") from error


def decode_queue_declare_ok(data: bytes) -> QueueDeclareOk:
    try:
        queue_size = data[4]
        queue_end = 5 + queue_size
        queue = data[5:queue_end].decode("utf-8", "surrogateescape")
        message_count, consumer_count = _II.unpack_from(data, queue_end)
        if len(data) != queue_end + 8:
            raise DecodeError("wrong length of queue.declare-ok")
        return QueueDeclareOk(queue, message_count, consumer_count)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode queue.declare-ok") from error


def decode_queue_bind(data: bytes) -> QueueBind:
    try:
        queue_size = data[6]
        queue_end = 7 + queue_size
        queue = data[7:queue_end].decode("utf-8", "surrogateescape")
        exchange_size = data[queue_end]
        exchange_end = queue_end + 1 + exchange_size
        exchange = data[queue_end + 1 : exchange_end].decode("utf-8", "surrogateescape")
        routing_key_size = data[exchange_end]
        routing_key_end = exchange_end + 1 + routing_key_size
        routing_key = data[exchange_end + 1 : routing_key_end].decode("utf-8", "surrogateescape")
        bits = data[routing_key_end]
        arguments, arguments_end = decode_table(data, routing_key_end + 1)
        if len(data) != arguments_end:
            raise DecodeError("wrong length of queue.bind")
        return QueueBind(queue, exchange, routing_key, bits & 1 != 0, arguments)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode queue.bind") from error


def decode_queue_bind_ok(data: bytes) -> QueueBindOk:
    if len(data) != 4:
        raise DecodeError("wrong length of queue.bind-ok")
    return QueueBindOk()


def decode_queue_purge(data: bytes) -> QueuePurge:
    try:
        queue_size = data[6]
        queue_end = 7 + queue_size
        queue = data[7:queue_end].decode("utf-8", "surrogateescape")
        bits = data[queue_end]
        if len(data) != queue_end + 1:
            raise DecodeError("wrong length of queue.purge")
        return QueuePurge(queue, bits & 1 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode queue.purge") from error


def decode_queue_purge_ok(data: bytes) -> QueuePurgeOk:
    try:
        (message_count,) = _I.unpack_from(data, 4)
        if len(data) != 8:
            raise DecodeError("wrong length of queue.purge-ok")
        return QueuePurgeOk(message_count)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode queue.purge-ok") from error


def decode_queue_delete(data: bytes) -> QueueDelete:
    try:
        queue_size = data[6]
        queue_end = 7 + queue_size
        queue = data[7:queue_end].decode("utf-8", "surrogateescape")
        bits = data[queue_end]
        if len(data) != queue_end + 1:
            raise DecodeError("wrong length of queue.delete")
        return QueueDelete(queue, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode queue.delete") from error


def decode_queue_delete_ok(data: bytes) -> QueueDeleteOk:
    try:
        (message_count,) = _I.unpack_from(data, 4)
        if len(data) != 8:
            raise DecodeError("wrong length of queue.delete-ok")
        return QueueDeleteOk(message_count)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode queue.delete-ok") from error


def decode_queue_unbind(data: bytes) -> QueueUnbind:
    try:
        queue_size = data[6]
        queue_end = 7 + queue_size
        queue = data[7:queue_end].decode("utf-8", "surrogateescape")
        exchange_size = data[queue_end]
        exchange_end = queue_end + 1 + exchange_size
        exchange = data[queue_end + 1 : exchange_end].decode("utf-8", "surrogateescape")
        routing_key_size = data[exchange_end]
        routing_key_end = exchange_end + 1 + routing_key_size
        routing_key = data[exchange_end + 1 : routing_key_end].decode("utf-8", "surrogateescape")
        arguments, arguments_end = decode_table(data, routing_key_end)
        if len(data) != arguments_end:
            raise DecodeError("wrong length of queue.unbind")
        return QueueUnbind(queue, exchange, routing_key, arguments)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode queue.unbind") from error


def decode_queue_unbind_ok(data: bytes) -> QueueUnbindOk:
    if len(data) != 4:
        raise DecodeError("wrong length of queue.unbind-ok")
    return QueueUnbindOk()


def decode_basic_qos(data: bytes) -> BasicQos:
    try:
        prefetch_size, prefetch_count, bits = _IHB.unpack_from(data, 4)
        if len(data) != 11:
            raise DecodeError("wrong length of basic.qos")
        return BasicQos(prefetch_size, prefetch_count, bits & 1 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.qos") from error


def decode_basic_qos_ok(data: bytes) -> BasicQosOk:
    if len(data) != 4:
        raise DecodeError("wrong length of basic.qos-ok")
    return BasicQosOk()


def decode_basic_consume(data: bytes) -> BasicConsume:
    try:
        queue_size = data[6]
        queue_end = 7 + queue_size
        queue = data[7:queue_end].decode("utf-8", "surrogateescape")
        consumer_tag_size = data[queue_end]
        consumer_tag_end = queue_end + 1 + consumer_tag_size
        consumer_tag = data[queue_end + 1 : consumer_tag_end].decode("utf-8", "surrogateescape")
        bits = data[consumer_tag_end]
        arguments, arguments_end = decode_table(data, consumer_tag_end + 1)
        if len(data) != arguments_end:
            raise DecodeError("wrong length of basic.consume")
        return BasicConsume(queue, consumer_tag, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0, arguments)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.consume") from error


def decode_basic_consume_ok(data: bytes) -> BasicConsumeOk:
    try:
        consumer_tag_size = data[4]
        consumer_tag_end = 5 + consumer_tag_size
        consumer_tag = data[5:consumer_tag_end].decode("utf-8", "surrogateescape")
        if len(data) != consumer_tag_end:
            raise DecodeError("wrong length of basic.consume-ok")
        return BasicConsumeOk(consumer_tag)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.consume-ok") from error


def decode_basic_cancel(data: bytes) -> BasicCancel:
    try:
        consumer_tag_size = data[4]
        consumer_tag_end = 5 + consumer_tag_size
        consumer_tag = data[5:consumer_tag_end].decode("utf-8", "surrogateescape")
        bits = data[consumer_tag_end]
        if len(data) != consumer_tag_end + 1:
            raise DecodeError("wrong length of basic.cancel")
        return BasicCancel(consumer_tag, bits & 1 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.cancel") from error


def decode_basic_cancel_ok(data: bytes) -> BasicCancelOk:
    try:
        consumer_tag_size = data[4]
        consumer_tag_end = 5 + consumer_tag_size
        consumer_tag = data[5:consumer_tag_end].decode("utf-8", "surrogateescape")
        if len(data) != consumer_tag_end:
            raise DecodeError("wrong length of basic.cancel-ok")
        return BasicCancelOk(consumer_tag)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.cancel-ok") from error


def decode_basic_publish(data: bytes) -> BasicPublish:
    try:
        exchange_size = data[6]
        exchange_end = 7 + exchange_size
        exchange = data[7:exchange_end].decode("utf-8", "surrogateescape")
        routing_key_size = data[exchange_end]
        routing_key_end = exchange_end + 1 + routing_key_size
        routing_key = data[exchange_end + 1 : routing_key_end].decode("utf-8", "surrogateescape")
        bits = data[routing_key_end]
        if len(data) != routing_key_end + 1:
            raise DecodeError("wrong length of basic.publish")
        return BasicPublish(exchange, routing_key, bits & 1 != 0, bits & 2 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.publish") from error


def decode_basic_return(data: bytes) -> BasicReturn:
    try:
        reply_code, reply_text_size = _HB.unpack_from(data, 4)
        reply_text_end = 7 + reply_text_size
        reply_text = data[7:reply_text_end].decode("utf-8", "surrogateescape")
        exchange_size = data[reply_text_end]
        exchange_end = reply_text_end + 1 + exchange_size
        exchange = data[reply_text_end + 1 : exchange_end].decode("utf-8", "surrogateescape")
        routing_key_size = data[exchange_end]
        routing_key_end = exchange_end + 1 + routing_key_size
        routing_key = data[exchange_end + 1 : routing_key_end].decode("utf-8", "surrogateescape")
        if len(data) != routing_key_end:
            raise DecodeError("wrong length of basic.return")
        return BasicReturn(reply_code, reply_text, exchange, routing_key)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.return") from error


def decode_basic_deliver(data: bytes) -> BasicDeliver:
    try:
        consumer_tag_size = data[4]
        consumer_tag_end = 5 + consumer_tag_size
        consumer_tag = data[5:consumer_tag_end].decode("utf-8", "surrogateescape")
        delivery_tag, bits, exchange_size = _QBB.unpack_from(data, consumer_tag_end)
        exchange_end = consumer_tag_end + 10 + exchange_size
        exchange = data[consumer_tag_end + 10 : exchange_end].decode("utf-8", "surrogateescape")
        routing_key_size = data[exchange_end]
        routing_key_end = exchange_end + 1 + routing_key_size
        routing_key = data[exchange_end + 1 : routing_key_end].decode("utf-8", "surrogateescape")
        if len(data) != routing_key_end:
            raise DecodeError("wrong length of basic.deliver")
        return BasicDeliver(consumer_tag, delivery_tag, bits & 1 != 0, exchange, routing_key)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.deliver") from error


def decode_basic_get(data: bytes) -> BasicGet:
    try:
        queue_size = data[6]
        queue_end = 7 + queue_size
        queue = data[7:queue_end].decode("utf-8", "surrogateescape")
        bits = data[queue_end]
        if len(data) != queue_end + 1:
            raise DecodeError("wrong length of basic.get")
        return BasicGet(queue, bits & 1 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.get") from error


def decode_basic_get_ok(data: bytes) -> BasicGetOk:
    try:
        delivery_tag, bits, exchange_size = _QBB.unpack_from(data, 4)
        exchange_end = 14 + exchange_size
        exchange = data[14:exchange_end].decode("utf-8", "surrogateescape")
        routing_key_size = data[exchange_end]
        routing_key_end = exchange_end + 1 + routing_key_size
        routing_key = data[exchange_end + 1 : routing_key_end].decode("utf-8", "surrogateescape")
        (message_count,) = _I.unpack_from(data, routing_key_end)
        if len(data) != routing_key_end + 4:
            raise DecodeError("wrong length of basic.get-ok")
        return BasicGetOk(delivery_tag, bits & 1 != 0, exchange, routing_key, message_count)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.get-ok") from error


def decode_basic_get_empty(data: bytes) -> BasicGetEmpty:
    try:
        reserved_1_size = data[4]
        reserved_1_end = 5 + reserved_1_size
        if len(data) != reserved_1_end:
            raise DecodeError("wrong length of basic.get-empty")
        return BasicGetEmpty()
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.get-empty") from error


def decode_basic_ack(data: bytes) -> BasicAck:
    try:
        delivery_tag, bits = _QB.unpack_from(data, 4)
        if len(data) != 13:
            raise DecodeError("wrong length of basic.ack")
        return BasicAck(delivery_tag, bits & 1 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.ack") from error


def decode_basic_reject(data: bytes) -> BasicReject:
    try:
        delivery_tag, bits = _QB.unpack_from(data, 4)
        if len(data) != 13:
            raise DecodeError("wrong length of basic.reject")
        return BasicReject(delivery_tag, bits & 1 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.reject") from error


def decode_basic_recover_async(data: bytes) -> BasicRecoverAsync:
    try:
        bits = data[4]
        if len(data) != 5:
            raise DecodeError("wrong length of basic.recover-async")
        return BasicRecoverAsync(bits & 1 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.recover-async") from error


def decode_basic_recover(data: bytes) -> BasicRecover:
    try:
        bits = data[4]
        if len(data) != 5:
            raise DecodeError("wrong length of basic.recover")
        return BasicRecover(bits & 1 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.recover") from error


def decode_basic_recover_ok(data: bytes) -> BasicRecoverOk:
    if len(data) != 4:
        raise DecodeError("wrong length of basic.recover-ok")
    return BasicRecoverOk()


def decode_basic_nack(data: bytes) -> BasicNack:
    try:
        delivery_tag, bits = _QB.unpack_from(data, 4)
        if len(data) != 13:
            raise DecodeError("wrong length of basic.nack")
        return BasicNack(delivery_tag, bits & 1 != 0, bits & 2 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode basic.nack") from error


def decode_confirm_select(data: bytes) -> ConfirmSelect:
    try:
        bits = data[4]
        if len(data) != 5:
            raise DecodeError("wrong length of confirm.select")
        return ConfirmSelect(bits & 1 != 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("cannot decode confirm.select") from error


def decode_confirm_select_ok(data: bytes) -> ConfirmSelectOk:
    if len(data) != 4:
        raise DecodeError("wrong length of confirm.select-ok")
    return ConfirmSelectOk()


def decode_tx_select(data: bytes) -> TxSelect:
    if len(data) != 4:
        raise DecodeError("wrong length of tx.select")
    return TxSelect()


def decode_tx_select_ok(data: bytes) -> TxSelectOk:
    if len(data) != 4:
        raise DecodeError("wrong length of tx.select-ok")
    return TxSelectOk()


def decode_tx_commit(data: bytes) -> TxCommit:
    if len(data) != 4:
        raise DecodeError("wrong length of tx.commit")
    return TxCommit()


def decode_tx_commit_ok(data: bytes) -> TxCommitOk:
    if len(data) != 4:
        raise DecodeError("wrong length of tx.commit-ok")
    return TxCommitOk()


def decode_tx_rollback(data: bytes) -> TxRollback:
    if len(data) != 4:
        raise DecodeError("wrong length of tx.rollback")
    return TxRollback()


def decode_tx_rollback_ok(data: bytes) -> TxRollbackOk:
    if len(data) != 4:
        raise DecodeError("wrong length of tx.rollback-ok")
    return TxRollbackOk()


DECODERS: dict[int, Callable[[bytes], Method]] = {
    ConnectionStart.KEY: decode_connection_start,
    ConnectionStartOk.KEY: decode_connection_start_ok,
    ConnectionSecure.KEY: decode_connection_secure,
    ConnectionSecureOk.KEY: decode_connection_secure_ok,
    ConnectionTune.KEY: decode_connection_tune,
    ConnectionTuneOk.KEY: decode_connection_tune_ok,
    ConnectionOpen.KEY: decode_connection_open,
    ConnectionOpenOk.KEY: decode_connection_open_ok,
    ConnectionClose.KEY: decode_connection_close,
    ConnectionCloseOk.KEY: decode_connection_close_ok,
    ConnectionBlocked.KEY: decode_connection_blocked,
    ConnectionUnblocked.KEY: decode_connection_unblocked,
    ConnectionUpdateSecret.KEY: decode_connection_update_secret,
    ConnectionUpdateSecretOk.KEY: decode_connection_update_secret_ok,
    ChannelOpen.KEY: decode_channel_open,
    ChannelOpenOk.KEY: decode_channel_open_ok,
    ChannelFlow.KEY: decode_channel_flow,
    ChannelFlowOk.KEY: decode_channel_flow_ok,
    ChannelClose.KEY: decode_channel_close,
    ChannelCloseOk.KEY: decode_channel_close_ok,
    AccessRequest.KEY: decode_access_request,
    AccessRequestOk.KEY: decode_access_request_ok,
    ExchangeDeclare.KEY: decode_exchange_declare,
    ExchangeDeclareOk.KEY: decode_exchange_declare_ok,
    ExchangeDelete.KEY: decode_exchange_delete,
    ExchangeDeleteOk.KEY: decode_exchange_delete_ok,
    ExchangeBind.KEY: decode_exchange_bind,
    ExchangeBindOk.KEY: decode_exchange_bind_ok,
    ExchangeUnbind.KEY: decode_exchange_unbind,
    ExchangeUnbindOk.KEY: decode_exchange_unbind_ok,
    QueueDeclare.KEY: decode_queue_declare,
    QueueDeclareOk.KEY: decode_queue_declare_ok,
    QueueBind.KEY: decode_queue_bind,
    QueueBindOk.KEY: decode_queue_bind_ok,
    QueuePurge.KEY: decode_queue_purge,
    QueuePurgeOk.KEY: decode_queue_purge_ok,
    QueueDelete.KEY: decode_queue_delete,
    QueueDeleteOk.KEY: decode_queue_delete_ok,
    QueueUnbind.KEY: decode_queue_unbind,
    QueueUnbindOk.KEY: decode_queue_unbind_ok,
    BasicQos.KEY: decode_basic_qos,
    BasicQosOk.KEY: decode_basic_qos_ok,
    BasicConsume.KEY: decode_basic_consume,
    BasicConsumeOk.KEY: decode_basic_consume_ok,
    BasicCancel.KEY: decode_basic_cancel,
    BasicCancelOk.KEY: decode_basic_cancel_ok,
    BasicPublish.KEY: decode_basic_publish,
    BasicReturn.KEY: decode_basic_return,
    BasicDeliver.KEY: decode_basic_deliver,
    BasicGet.KEY: decode_basic_get,
    BasicGetOk.KEY: decode_basic_get_ok,
    BasicGetEmpty.KEY: decode_basic_get_empty,
    BasicAck.KEY: decode_basic_ack,
    BasicReject.KEY: decode_basic_reject,
    BasicRecoverAsync.KEY: decode_basic_recover_async,
    BasicRecover.KEY: decode_basic_recover,
    BasicRecoverOk.KEY: decode_basic_recover_ok,
    BasicNack.KEY: decode_basic_nack,
    ConfirmSelect.KEY: decode_confirm_select,
    ConfirmSelectOk.KEY: decode_confirm_select_ok,
    TxSelect.KEY: decode_tx_select,
    TxSelectOk.KEY: decode_tx_select_ok,
    TxCommit.KEY: decode_tx_commit,
    TxCommitOk.KEY: decode_tx_commit_ok,
    TxRollback.KEY: decode_tx_rollback,
    TxRollbackOk.KEY: decode_tx_rollback_ok,
}
"""Decoders by KEY; the payload begins with the four id bytes."""

METHOD_NAMES: dict[int, str] = {
    ConnectionStart.KEY: ConnectionStart.NAME,
    ConnectionStartOk.KEY: ConnectionStartOk.NAME,
    ConnectionSecure.KEY: ConnectionSecure.NAME,
    ConnectionSecureOk.KEY: ConnectionSecureOk.NAME,
    ConnectionTune.KEY: ConnectionTune.NAME,
    ConnectionTuneOk.KEY: ConnectionTuneOk.NAME,
    ConnectionOpen.KEY: ConnectionOpen.NAME,
    ConnectionOpenOk.KEY: ConnectionOpenOk.NAME,
    ConnectionClose.KEY: ConnectionClose.NAME,
    ConnectionCloseOk.KEY: ConnectionCloseOk.NAME,
    ConnectionBlocked.KEY: ConnectionBlocked.NAME,
    ConnectionUnblocked.KEY: ConnectionUnblocked.NAME,
    ConnectionUpdateSecret.KEY: ConnectionUpdateSecret.NAME,
    ConnectionUpdateSecretOk.KEY: ConnectionUpdateSecretOk.NAME,
    ChannelOpen.KEY: ChannelOpen.NAME,
    ChannelOpenOk.KEY: ChannelOpenOk.NAME,
    ChannelFlow.KEY: ChannelFlow.NAME,
    ChannelFlowOk.KEY: ChannelFlowOk.NAME,
    ChannelClose.KEY: ChannelClose.NAME,
    ChannelCloseOk.KEY: ChannelCloseOk.NAME,
    AccessRequest.KEY: AccessRequest.NAME,
    AccessRequestOk.KEY: AccessRequestOk.NAME,
    ExchangeDeclare.KEY: ExchangeDeclare.NAME,
    ExchangeDeclareOk.KEY: ExchangeDeclareOk.NAME,
    ExchangeDelete.KEY: ExchangeDelete.NAME,
    ExchangeDeleteOk.KEY: ExchangeDeleteOk.NAME,
    ExchangeBind.KEY: ExchangeBind.NAME,
    ExchangeBindOk.KEY: ExchangeBindOk.NAME,
    ExchangeUnbind.KEY: ExchangeUnbind.NAME,
    ExchangeUnbindOk.KEY: ExchangeUnbindOk.NAME,
    QueueDeclare.KEY: QueueDeclare.NAME,
    QueueDeclareOk.KEY: QueueDeclareOk.NAME,
    QueueBind.KEY: QueueBind.NAME,
    QueueBindOk.KEY: QueueBindOk.NAME,
    QueuePurge.KEY: QueuePurge.NAME,
    QueuePurgeOk.KEY: QueuePurgeOk.NAME,
    QueueDelete.KEY: QueueDelete.NAME,
    QueueDeleteOk.KEY: QueueDeleteOk.NAME,
    QueueUnbind.KEY: QueueUnbind.NAME,
    QueueUnbindOk.KEY: QueueUnbindOk.NAME,
    BasicQos.KEY: BasicQos.NAME,
    BasicQosOk.KEY: BasicQosOk.NAME,
    BasicConsume.KEY: BasicConsume.NAME,
    BasicConsumeOk.KEY: BasicConsumeOk.NAME,
    BasicCancel.KEY: BasicCancel.NAME,
    BasicCancelOk.KEY: BasicCancelOk.NAME,
    BasicPublish.KEY: BasicPublish.NAME,
    BasicReturn.KEY: BasicReturn.NAME,
    BasicDeliver.KEY: BasicDeliver.NAME,
    BasicGet.KEY: BasicGet.NAME,
    BasicGetOk.KEY: BasicGetOk.NAME,
    BasicGetEmpty.KEY: BasicGetEmpty.NAME,
    BasicAck.KEY: BasicAck.NAME,
    BasicReject.KEY: BasicReject.NAME,
    BasicRecoverAsync.KEY: BasicRecoverAsync.NAME,
    BasicRecover.KEY: BasicRecover.NAME,
    BasicRecoverOk.KEY: BasicRecoverOk.NAME,
    BasicNack.KEY: BasicNack.NAME,
    ConfirmSelect.KEY: ConfirmSelect.NAME,
    ConfirmSelectOk.KEY: ConfirmSelectOk.NAME,
    TxSelect.KEY: TxSelect.NAME,
    TxSelectOk.KEY: TxSelectOk.NAME,
    TxCommit.KEY: TxCommit.NAME,
    TxCommitOk.KEY: TxCommitOk.NAME,
    TxRollback.KEY: TxRollback.NAME,
    TxRollbackOk.KEY: TxRollbackOk.NAME,
}
"""Names of the specification by KEY."""

CLIENT_METHODS: frozenset[type[Method]] = frozenset(
    {
        ConnectionStartOk,
        ConnectionSecureOk,
        ConnectionTuneOk,
        ConnectionOpen,
        ConnectionClose,
        ConnectionCloseOk,
        ConnectionUpdateSecret,
        ChannelOpen,
        ChannelFlow,
        ChannelFlowOk,
        ChannelClose,
        ChannelCloseOk,
        AccessRequest,
        ExchangeDeclare,
        ExchangeDelete,
        ExchangeBind,
        ExchangeUnbind,
        QueueDeclare,
        QueueBind,
        QueuePurge,
        QueueDelete,
        QueueUnbind,
        BasicQos,
        BasicConsume,
        BasicCancel,
        BasicCancelOk,
        BasicPublish,
        BasicGet,
        BasicAck,
        BasicReject,
        BasicRecoverAsync,
        BasicRecover,
        BasicNack,
        ConfirmSelect,
        TxSelect,
        TxCommit,
        TxRollback,
    }
)
"""The methods that a client may send, which the specification has the server implement."""

HAS_CONTENT: frozenset[type[Method]] = frozenset({BasicPublish, BasicReturn, BasicDeliver, BasicGetOk})
"""Methods that are followed by a content header and body frames."""
