"""Mistakes in what is said before it is on disk: confirms, offsets of streams, the answers to transactions."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import Any

from broker.entities.messages.message import Message
from broker.entities.queues.streams.stream_queue import Stream
from broker.entities.scheduling.pending_batches import PendingBatches
from broker.session.channel.channel import Channel
from broker.session.channel.confirms import ConfirmLedger
from broker.session.input import dispatch
from broker.wire.methods import TxCommit
from storage.batch import SealedBatch, WriteBatch
from storage.commit_failures import FailureClassifier
from storage.messages import lmdb_environment
from storage.messages.message_store import MessageStore
from storage.messages.stream_index import Streams
from storage.storage_errors import StoreFailed
from tests.planted.mistake import BrokerCrashes, Kills, Patch, Process, Simulation, mistake

FAULTS = Process("tests/durability/faults/test_promises.py")
AUDIT = Process("tests/pipeline/event_log/test_kill_audit.py")

EVERY = 10


@mistake("I1", BrokerCrashes("has lost"), Kills("has lost|was gone|should not be there|after its acknowledgement"))
def confirm_before_commit(patch: Patch) -> None:
    """Return from each commit with the batch still in hand, and write it with the next one."""
    commit, commit_to_journal = MessageStore.commit, MessageStore.commit_to_journal
    in_hand = list[tuple[MessageStore, SealedBatch]]()

    def commit_later(store: MessageStore, batch: SealedBatch, *, to_journal: bool = True) -> bool:
        journaled = False
        for earlier in [earlier for owner, earlier in in_hand if owner is store]:
            journaled = to_journal and commit_to_journal(store, earlier)
            if not journaled:
                commit(store, earlier, to_journal=False)
        in_hand[:] = [(store, batch)]
        return journaled

    def commit_to_journal_later(store: MessageStore, batch: SealedBatch) -> bool:
        """As the event loop does: without waiting for LMDB."""
        if not all(commit_to_journal(store, earlier) for owner, earlier in in_hand if owner is store):
            return False
        in_hand[:] = [(store, batch)]
        return True

    patch(MessageStore, "commit", commit_later)
    patch(MessageStore, "commit_to_journal", commit_to_journal_later)


@mistake("I1", Simulation(3))
def confirm_before_sync(patch: Patch) -> None:
    """Tell publishers when a batch is closed, not when it is on disk."""
    seal = PendingBatches.seal

    def seal_and_confirm(batches: PendingBatches) -> None:
        waiters, number = list(batches.current.waiters), batches.current.number
        seal(batches)
        for waiter in waiters:
            if isinstance(waiter, ConfirmLedger):
                waiter.stored(number)

    patch(PendingBatches, "seal", seal_and_confirm)


@mistake("I1", AUDIT)
def message_forgotten(patch: Patch) -> None:
    """Write nothing of every tenth message, and confirm it. Nobody notices before the next start."""
    seal, messages = WriteBatch.seal, count(1)

    def seal_forgetting(batch: WriteBatch, last_event: int = 0) -> SealedBatch:
        sealed = seal(batch, last_event)
        kept = [lane._replace(puts=tuple(put for put in lane.puts if next(messages) % EVERY)) for lane in sealed.lanes]
        return sealed._replace(lanes=tuple(kept))

    patch(WriteBatch, "seal", seal_forgetting)


@mistake("I1", Simulation(23))
def transaction_in_two_commits(patch: Patch) -> None:
    """Write a transaction's publishes with one batch, and its settlements with the next."""
    commit = dispatch.HANDLERS[TxCommit]

    def commit_in_two(channel: Channel, method: Any) -> None:
        def seal() -> int:
            channel.connection.broker.batches.seal()
            return 0

        if channel.transaction is not None and channel.transaction.publishes:
            channel.transaction.publishes.append(seal)
        commit(channel, method)

    patch(dispatch, "HANDLERS", {**dispatch.HANDLERS, TxCommit: commit_in_two})


@mistake("I6", FAULTS)
def confirm_after_failed_commit(patch: Patch) -> None:
    """Take a commit to LMDB that has failed for one that has not: of a batch, or of what the journal has."""
    catch_up = MessageStore.catch_up

    def catch_up_at_any_rate(store: MessageStore, batch: SealedBatch | None = None) -> None:
        with suppress(StoreFailed):
            catch_up(store, batch)

    patch(MessageStore, "catch_up", catch_up_at_any_rate)


@mistake("I6", FAULTS)
def going_on_after_failed_sync(patch: Patch) -> None:
    """After a failed sync open the store's file again, which makes the kernel forget it, and commit again."""
    catch_up = MessageStore.catch_up

    def catch_up_with_another_file(store: MessageStore, batch: SealedBatch | None = None) -> None:
        try:
            catch_up(store, batch)
        except StoreFailed:
            store._classifier.close()
            store._environment.close()
            store._environment = lmdb_environment.open_environment(store.directory)
            store._classifier = FailureClassifier(store.directory)
            store.streams = Streams(store._environment, store.journal)
            store.space._environment = store._lmdb._environment = store._environment
            store._lmdb._classifier, store._lmdb.failed = store._classifier, False
            catch_up(store, batch)

    patch(MessageStore, "catch_up", catch_up_with_another_file)


@mistake("I11", Simulation(7))
def read_before_sync(patch: Patch) -> None:
    """Give readers of a stream what is not on disk yet."""
    publish = Stream.publish

    def publish_visibly(stream: Stream, message: Message) -> bool:
        waits = publish(stream, message)
        stream.stored(0, stream.log.next - 1)
        return waits

    patch(Stream, "publish", publish_visibly)
