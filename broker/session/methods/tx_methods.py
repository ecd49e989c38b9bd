"""The tx class, and confirm.select: a channel can be in one of the two modes.

RabbitMQ's transactions are batches: publishes and settlements take effect at the commit, errors are reported
at once, returns come with the commit. All of a commit is in one write to disk, and commit-ok waits for it.
"""

from __future__ import annotations

from broker.entities.queues.batch_queue import OnDisk
from broker.entities.scheduling.future import Future
from broker.session.channel.channel import Channel
from broker.session.channel.transaction import Transaction
from broker.wire import methods
from broker.wire.amqp_errors import ChannelException
from broker.wire.constants import ReplyCode


def select(channel: Channel, method: methods.TxSelect) -> None:
    """tx.select."""
    if channel.confirms is not None:
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
        channel.confirmed = True
    channel.send(methods.TxSelectOk())


def commit(channel: Channel, method: methods.TxCommit) -> None:
    """tx.commit. Raises ChannelException 406 when a queue refuses a message; all else is committed, as in RabbitMQ."""
    transaction = _transaction(channel)
    publishes, settlements = transaction.publishes, transaction.settlements
    channel.connection.count_incomplete(-transaction.bytes)
    transaction.clear()
    for action in (*publishes, *settlements):
        action()
    if channel.prefetch_all:
        channel.replenish()
    stored = OnDisk(channel.connection.broker.batches) if publishes or settlements else Future.resolved(None)
    refused = transaction.refused

    def committed(_: None) -> None:
        if refused:
            raise ChannelException(ReplyCode.PRECONDITION_FAILED, "partial tx completion")
        if channel.recorder is not None:
            channel.recorder.committed()
        channel.send(methods.TxCommitOk())

    channel.when(stored, committed)


def rollback(channel: Channel, method: methods.TxRollback) -> None:
    """tx.rollback: publishes are forgotten, settled deliveries are outstanding again."""
    transaction = _transaction(channel)
    channel.deliveries.put_back(transaction.settled)
    channel.connection.count_incomplete(-transaction.bytes)
    transaction.clear()
    channel.send(methods.TxRollbackOk())


def confirm_select(channel: Channel, method: methods.ConfirmSelect) -> None:
    """confirm.select, RabbitMQ's publisher confirms."""
    if channel.transaction is not None:
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    channel.confirm_publishes()
    if not method.no_wait:
        channel.send(methods.ConfirmSelectOk())


def _transaction(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, "channel is not transactional")
    return channel.transaction
