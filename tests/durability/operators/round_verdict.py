"""The end of a round: with room on the disk a broker starts and everything promised is there, or it says why not.

If the start is refused, the line names a file and the harm; then the file is put back, and everything is there, or the
loss is accepted, and everything but the last batches is.
"""

from __future__ import annotations

import random
import shutil

from broker.cli.catalogue import TOP as VERBS
from tests.durability.crash.worker import Worker
from tests.durability.ledgers.recovering import recovered
from tests.durability.operators.accepted_loss import Loss
from tests.durability.operators.broker_lives import Live, live
from tests.durability.operators.operated_store import OperatedStore, Refusal, chance, copy_directory

USUAL = {"store": {"journal_bytes": 16 << 10}}
DAMAGED = ("journal is damaged at", "journal is cut short at")
"""Words of a refused start whose journal has whole records, before the damage or behind it."""
SHOWN = 4
"""Problems named by a failure."""


def judge(store: OperatedStore, dice: random.Random) -> bool:
    """True if the start was refused, and mended. Raises BrokenPromiseError."""
    store.empty()
    stops, accepts = chance(dice, 0.5), chance(dice, 0.5)
    store.tell(f"a start with room on the disk, then {'a stop' if stops else 'a kill'}")
    refused = False
    while (refusal := _start(store, stops)) is not None:
        if refused and not store.harms:
            raise store.broken(f"mended, and refused again: {refusal.line or refusal.output}")
        refused = True
        store.expect_reason(refusal)
        _mend(store, accepts, refusal)
    _expect_promised(store)
    return refused


def _start(store: OperatedStore, stops: bool) -> Refusal | None:
    return live(store, None, USUAL, Live(0, stops))


def _mend(store: OperatedStore, accepts: bool, refusal: Refusal) -> None:
    """Put back what was harmed, the last first; or give up what the journal had, where that is what is harmed.

    Copies that lie over a directory cannot be taken away again.
    """
    files = [harm for harm in store.harms if harm.undo is not None]
    can_accept = "recover" in VERBS and all(harm.of_journal for harm in files)
    if not files and not can_accept:
        raise store.broken("there is no way on")
    if can_accept and (accepts or not files):
        _accept_loss(store, refusal)
        return
    store.tell("what was harmed is put back")
    for harm in reversed(files):
        if harm.undo is not None:
            harm.undo()
    store.harms[:] = [harm for harm in store.harms if harm.undo is None]


def _accept_loss(store: OperatedStore, refusal: Refusal) -> None:
    store.tell("leveret recover --accept-loss")
    loss = Loss.DAMAGED if any(words in refusal.line for words in DAMAGED) else Loss.LAST
    for history in store.histories:
        history.loss = loss if any(harm.of_journal for harm in store.harms) else Loss.NONE
    refusal = store.command(("recover", "--accept-loss"))
    if refusal is not None:
        raise store.broken(f"the loss is not accepted: {refusal.line or refusal.output}")
    store.harms.clear()


def _expect_promised(store: OperatedStore) -> None:
    worker = Worker(recovered)
    left = store.home / "judged"
    copy_directory(store.root, left)  # as the broker left it: to look at it changes it
    try:
        outcome = worker.look_at(store.root)
    finally:
        worker.close()
    found = outcome.found
    problems = [[outcome.problem]] if found is None else [history.problems(found) for history in store.histories]
    if not any(not some for some in problems):
        raise store.broken("\n".join(problem for some in problems for problem in some[:SHOWN]))
    shutil.rmtree(left)
