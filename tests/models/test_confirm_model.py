"""The ledger of confirms against a publisher that believes every word of it.

The publisher keeps the numbers it has no answer for. `multiple` strikes out all of those up to a tag, as clients do; so
an answer that says too much confirms something that is not on disk, and is found.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.session.channel.confirms import Answer, ConfirmLedger

WAIT, SETTLE, REFUSE, SEAL, STORE, ANSWER = range(6)


class Publisher:
    """Publishes, and holds the answers against what may be answered."""

    def __init__(self) -> None:
        self.called = 0
        self.ledger = ConfirmLedger(1, self._ready)
        self.batch = 1
        self.on_disk = 0
        self.published = 0
        self.waiting: dict[int, int] = {}  # number -> batch
        self.due: dict[int, bool] = {}  # number -> refused
        self.unanswered: set[int] = set()

    def _ready(self, ledger: ConfirmLedger) -> None:
        self.called += 1

    def publish(self, action: int) -> None:
        self.published += 1
        self.unanswered.add(self.published)
        if action == WAIT:
            first = self.batch not in self.waiting.values()
            assert self.ledger.wait_for(self.batch) or not first, "nobody would tell the ledger of this batch"
            self.waiting[self.published] = self.batch
        else:
            self.ledger.settle(refused=action == REFUSE)
            self._may_answer(self.published, refused=action == REFUSE)
        assert self.ledger.last == self.published

    def store(self) -> None:
        """The next batch reaches the disk."""
        if self.on_disk < self.batch - 1:
            self.on_disk += 1
            self.ledger.stored(self.on_disk)
            for number in [number for number, batch in self.waiting.items() if batch <= self.on_disk]:
                del self.waiting[number]
                self._may_answer(number, refused=False)

    def _may_answer(self, number: int, *, refused: bool) -> None:
        self.due[number] = refused
        assert self.called, "there is something to answer and nobody was called"

    def read(self) -> list[Answer]:
        """Take the answers at their word."""
        self.called = 0
        answers = self.ledger.answers()
        for answer in answers:
            covered = {n for n in self.unanswered if n <= answer.tag} if answer.multiple else {answer.tag}
            assert covered <= self.unanswered, "answered twice"
            assert answer.tag in covered, "a multiple answer names a number that waits for it"
            assert covered <= self.due.keys(), "confirmed before it may be"
            assert all(self.due.pop(number) == answer.refused for number in covered)
            self.unanswered -= covered
        assert not self.due, "what could be answered was kept back"
        return answers

    def run(self, actions: list[int]) -> None:
        for action in actions:
            if action in (WAIT, SETTLE, REFUSE):
                self.publish(action)
            elif action == SEAL:
                self.batch += 1
            elif action == STORE:
                self.store()
            else:
                self.read()
            self.ledger.check()
        self.batch += 1
        while self.waiting:
            self.store()
        self.read()
        self.ledger.check()
        assert not self.unanswered


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from([WAIT, WAIT, SETTLE, REFUSE, SEAL, STORE, ANSWER]), max_size=60))
def test_every_publish_is_answered_once_and_never_too_soon(actions: list[int]) -> None:
    Publisher().run(actions)


def test_a_batch_of_confirms_is_one_answer() -> None:
    publisher = Publisher()
    for _ in range(1000):
        publisher.publish(WAIT)
    publisher.batch += 1
    publisher.store()
    assert publisher.read() == [Answer(1000, True, False)]


def test_what_overtakes_is_answered_one_by_one() -> None:
    """A transient message after a persistent one: a multiple answer would cover the persistent one too."""
    publisher = Publisher()
    for action in (WAIT, SETTLE, SETTLE, WAIT):
        publisher.publish(action)
    assert publisher.read() == [Answer(2, False, False), Answer(3, False, False)]
    publisher.batch += 1
    publisher.store()
    assert publisher.read() == [Answer(4, True, False)]


@pytest.mark.parametrize(
    ("actions", "answers"),
    [
        ([SETTLE], [Answer(1, False, False)]),
        ([REFUSE, REFUSE], [Answer(2, True, True)]),
        ([SETTLE, SETTLE, REFUSE, SETTLE], [Answer(2, True, False), Answer(3, False, True), Answer(4, False, False)]),
        ([WAIT, REFUSE], [Answer(2, False, True)]),
        ([SETTLE, WAIT], [Answer(1, False, False)]),
        ([WAIT], []),
    ],
)
def test_in_as_few_words_as_the_rules_allow(actions: list[int], answers: list[Answer]) -> None:
    publisher = Publisher()
    for action in actions:
        publisher.publish(action)
    assert publisher.read() == answers
