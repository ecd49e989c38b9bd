"""Mistakes in what is done about a disk that fails or is full."""

from __future__ import annotations

from broker.entities.scheduling.alarms import Alarms
from broker.server.committer import Committer
from storage.batch import SealedBatch
from storage.commit_failures import FailureClassifier
from storage.messages import lmdb_environment
from storage.messages.message_store import MessageStore
from storage.messages.stream_index import Streams
from storage.storage_errors import StoreFailed
from tests.durability.planted.mistake import Mistake


def confirm_after_failed_commit() -> None:
    """Take a commit that has failed for one that has not."""
    commit = MessageStore.commit

    def commit_at_any_rate(store: MessageStore, batch: SealedBatch) -> None:
        try:
            commit(store, batch)
        except StoreFailed:
            store._remember(batch)

    MessageStore.commit = commit_at_any_rate  # type: ignore[method-assign]


def go_on_after_failed_sync() -> None:
    """After a failed sync open the store's file anew, which makes the kernel forget it, and commit again."""
    commit = MessageStore.commit

    def commit_with_another_file(store: MessageStore, batch: SealedBatch) -> None:
        try:
            commit(store, batch)
        except StoreFailed:
            store._classifier.close()
            store._environment.close()
            store._environment = lmdb_environment.open_environment(store.directory)
            store._classifier = FailureClassifier(store.directory)
            store.streams = Streams(store._environment)
            commit(store, batch)

    MessageStore.commit = commit_with_another_file  # type: ignore[method-assign]


def alarm_holds_nobody() -> None:
    """Raise the alarm in the log alone."""
    change = Alarms.set

    def change_nothing(alarms: Alarms, resource: str, *, short: bool) -> None:
        change(alarms, resource, short=short)
        alarms.raised = False

    Alarms.set = change_nothing  # type: ignore[method-assign]


def alarm_holds_commits() -> None:
    """Write nothing while an alarm lasts, acknowledgements neither."""
    start = Committer.start_commit

    def start_unless_short(committer: Committer, *, lazily: bool = False) -> None:
        if not committer._broker.alarms.raised:
            start(committer, lazily=lazily)

    Committer.start_commit = start_unless_short  # type: ignore[method-assign]


MISTAKES = {
    "confirm after failed commit": Mistake("I6", confirm_after_failed_commit),
    "going on after failed sync": Mistake("I6", go_on_after_failed_sync),
    "alarm holds nobody": Mistake("I7", alarm_holds_nobody),
    "alarm holds commits": Mistake("I7", alarm_holds_commits),
}
