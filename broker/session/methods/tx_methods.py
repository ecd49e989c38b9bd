"""The tx class, and confirm.select: a channel can be in one of the two modes.

As in RabbitMQ publishes and settlements take effect at the commit, errors are reported at once, and returns come with
the commit. A commit is written to disk whole, in one batch, and commit-ok waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.entities.node.broker import Broker
from broker.entities.scheduling.background_work import MESSAGE_BYTES, STEP_COPIES
from broker.entities.scheduling.future import Future
from broker.session.channel.channel import Channel
from broker.session.channel.requeueing import leave_queues
from broker.session.channel.transaction_contents import Settlement, Transaction
from broker.session.methods.publish import check_disk_space
from broker.wire import methods
from broker.wire.amqp_errors import ChannelException
from broker.wire.constants import ReplyCode

SETTLED_AT_ONCE = 128
"""Largest number of messages of a transaction settled in one step; fewer if they are dead-lettered to many queues."""


def select(channel: Channel, method: methods.TxSelect) -> None:
    """tx.select."""
    if channel.confirms is not None:
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
        channel.confirmed = True
    channel.send(methods.TxSelectOk())


def commit(channel: Channel, method: methods.TxCommit) -> None:
    """tx.commit. Raises ChannelException 406 if a queue refuses a message; the rest is committed, as in RabbitMQ.

    Raises ChannelException 311, and commits nothing, if there is not enough free disk space.
    """
    transaction = _transaction(channel)
    work = transaction.publishes, transaction.settlements, transaction.replies
    check_disk_space(channel, transaction.bytes, "transaction")
    channel.connection.count_incomplete(-transaction.bytes)
    transaction.clear()
    stored = _store(channel, transaction, *work) if any(work) else Future.resolved(None)

    def committed(_: None) -> None:
        if transaction.refused:
            raise ChannelException(ReplyCode.PRECONDITION_FAILED, "partial tx completion")
        if channel.recorder is not None:
            channel.recorder.committed()
        channel.send(methods.TxCommitOk())
        _deliver(work[2])

    channel.when(stored, committed)


def _store(
    channel: Channel,
    transaction: Transaction,
    publishes: list[Callable[[], int]],
    settlements: list[Settlement],
    replies: list[Callable[[], None]],
) -> Future[None]:
    """Carry out a transaction, some in each turn but all in one batch; the future is resolved when it is on disk.

    Direct replies are delivered, and leave the list, if a message has reached a queue: RabbitMQ's commit-ok waits for
    queues alone, and replies come behind what the channel does without waiting. Those that are left come after it.
    """
    broker = channel.connection.broker
    stored: Future[None] = Future()

    leaving = [settlement.entries for settlement in settlements]
    channel.settling += leaving

    def steps() -> Iterator[int]:
        routed = channel.counters.routed
        broker.batches.keep_open()  # no commit between two steps: the transaction is on disk whole or not at all
        try:
            for publish in publishes:
                yield MESSAGE_BYTES * publish()
            for settlement in settlements:
                yield from _settle(settlement, broker)
            if channel.counters.routed > routed:
                _deliver(replies)
            if channel.prefetch_all:
                channel.replenish(settled=True)
            transaction.on_disk(broker.batches).then(stored.copy)
        except Exception as error:  # `commit` waits for the future on the channel, which answers errors
            stored.fail(error)
        finally:
            for entries in leaving:
                channel.settling.remove(entries)
            leave_queues(channel)
            broker.batches.release_open()

    broker.background_work.begin(steps())
    return stored


def _deliver(replies: list[Callable[[], None]]) -> None:
    """Deliver direct replies, and forget them."""
    for deliver in replies:
        deliver()
    replies.clear()


def _settle(settlement: Settlement, broker: Broker) -> Iterator[int]:
    """Settle deliveries, twice as many in each step, beginning again with one if a step has made many dead letters."""
    messages = 1
    while settlement.entries:
        copies = broker.turn.dead_letter_copies
        with broker.batches.nothing_waits():
            settled = settlement.settle(messages)
        copies = broker.turn.dead_letter_copies - copies
        messages = 1 if copies > STEP_COPIES else min(2 * messages, SETTLED_AT_ONCE)
        yield MESSAGE_BYTES * max(settled, copies)


def rollback(channel: Channel, method: methods.TxRollback) -> None:
    """tx.rollback: publishes are dropped, settled deliveries are unacknowledged again."""
    transaction = _transaction(channel)
    channel.deliveries.put_back(transaction.settled.items())
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
