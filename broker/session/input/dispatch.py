"""The table of all AMQP methods and the functions that handle them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.session.channel.channel import Channel
from broker.session.methods import (
    acknowledge,
    basic_methods,
    channel_methods,
    exchange_methods,
    publish,
    queue_methods,
    tx_methods,
)
from broker.wire import methods
from broker.wire.amqp_errors import ConnectionException
from broker.wire.assembler import Command
from broker.wire.constants import ReplyCode
from broker.wire.method import Method

if TYPE_CHECKING:
    from broker.session.connection import Connection

HANDLERS: dict[type[Method], Callable[[Channel, Any], None]] = {
    methods.ChannelOpen: channel_methods.open_again,
    methods.ChannelFlow: channel_methods.flow,
    methods.ChannelClose: channel_methods.close,
    methods.ChannelCloseOk: channel_methods.close_ok,
    methods.AccessRequest: channel_methods.access_request,
    methods.ExchangeDeclare: exchange_methods.declare,
    methods.ExchangeDelete: exchange_methods.delete,
    methods.ExchangeBind: exchange_methods.bind,
    methods.ExchangeUnbind: exchange_methods.unbind,
    methods.QueueDeclare: queue_methods.declare,
    methods.QueueBind: queue_methods.bind,
    methods.QueueUnbind: queue_methods.unbind,
    methods.QueuePurge: queue_methods.purge,
    methods.QueueDelete: queue_methods.delete,
    methods.BasicQos: basic_methods.qos,
    methods.BasicConsume: basic_methods.consume,
    methods.BasicCancel: basic_methods.cancel,
    methods.BasicGet: basic_methods.get,
    methods.BasicAck: acknowledge.ack,
    methods.BasicNack: acknowledge.nack,
    methods.BasicReject: acknowledge.reject,
    methods.BasicRecover: acknowledge.recover,
    methods.BasicRecoverAsync: acknowledge.recover_async,
    methods.TxSelect: tx_methods.select,
    methods.TxCommit: tx_methods.commit,
    methods.TxRollback: tx_methods.rollback,
    methods.ConfirmSelect: tx_methods.confirm_select,
}

OVERTAKES_PUBLISHES = frozenset({methods.BasicAck, methods.BasicNack, methods.BasicReject})
"""Methods that overtake publishes held by an alarm."""


def handle(channel: Channel, command: Command) -> None:
    """Handle a command, a method with its content if it has one, on an open channel."""
    if type(command.method) is methods.BasicPublish:
        assert command.header_payload is not None
        publish.publish(channel, command.arguments, command.header_payload, command.body)
        return
    handler = HANDLERS.get(type(command.method))
    if handler is None:  # sent by servers only, an answer to a method that we never send, or of the connection class
        raise ConnectionException(ReplyCode.COMMAND_INVALID, "unimplemented method")
    handler(channel, command.method)


def handle_unopened(connection: Connection, number: int, channel: Channel | None, method: Method | None) -> None:
    """Handle a frame for a channel that is not open: before channel.open, or between channel.close and its answer."""
    if channel is None:
        if isinstance(method, methods.ChannelOpen):
            channel_methods.open_first(connection, number)
        elif method is not None:
            raise ConnectionException(
                ReplyCode.CHANNEL_ERROR, "expected 'channel.open'", method.CLASS_ID, method.METHOD_ID
            )
        else:
            text = "expected method frame, got non method frame instead"
            raise ConnectionException(ReplyCode.UNEXPECTED_FRAME, text)
    elif isinstance(method, methods.ChannelCloseOk):
        channel_methods.close_ok(channel, method)
    elif isinstance(method, methods.ChannelClose):
        channel.send(methods.ChannelCloseOk())
