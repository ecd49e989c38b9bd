"""Messages and definitions that a broker owes after its end, by requests and answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from broker.wire import methods
from tests.durability.ledgers.conversation import Answer, Request, Said
from tests.durability.ledgers.definition_ledger import DefinitionLedger, Facts
from tests.durability.ledgers.ledger_verdicts import problems
from tests.durability.ledgers.message_ledger import MessageLedger

ASKED = {
    methods.ExchangeBind: methods.ExchangeBindOk,
    methods.ExchangeDeclare: methods.ExchangeDeclareOk,
    methods.ExchangeDelete: methods.ExchangeDeleteOk,
    methods.ExchangeUnbind: methods.ExchangeUnbindOk,
    methods.QueueBind: methods.QueueBindOk,
    methods.QueueDeclare: methods.QueueDeclareOk,
    methods.QueueDelete: methods.QueueDeleteOk,
    methods.QueuePurge: methods.QueuePurgeOk,
    methods.QueueUnbind: methods.QueueUnbindOk,
    methods.TxCommit: methods.TxCommitOk,
    methods.TxRollback: methods.TxRollbackOk,
    Request: Answer,
}
"""Requests and their answers: in the order of asking, on each connection."""

ANSWERS = frozenset(ASKED.values())


class Recovered(NamedTuple):
    """The contents of a broker after a start.

    The numbers of the messages in every queue, as a consumer would get them; those of the stream by their offsets; how
    often those of the quorum queue say that they were handed out; and the definitions.
    """

    held: dict[str, list[int]]
    log: dict[int, int]
    counts: dict[int, int]
    facts: Facts


class BrokerLedger:
    """Follows everything that is said; knows what must and what may be there."""

    def __init__(self) -> None:
        self.messages = MessageLedger()
        self.definitions = DefinitionLedger()
        self._asked: dict[int, deque[list[Callable[[], None]]]] = {}

    def follow(self, said: Said) -> None:
        """Take in what was said next."""
        asked = self._asked.setdefault(said.connection, deque())
        self.messages.follow(said.connection, said.what, said.message, by_client=said.by_client)
        if said.by_client and type(said.what) in ASKED:
            asked.append([self.messages.ask(said.connection, said.what), self.definitions.ask(said.what)])
        elif not said.by_client and type(said.what) in ANSWERS:
            if isinstance(said.what, Answer):
                assert said.what.ok, "the workload asks for nothing that is refused"
            for answered in asked.popleft():
                answered()

    def begin_life(self) -> None:
        """All clients connect again, to a broker that has started again or to the same one."""
        self._asked.clear()
        self.messages.begin_life()

    def problems(self, found: Recovered) -> list[str]:
        """Return problems of the contents found."""
        return [*self.definitions.problems(found.facts), *problems(self.messages, found.held, found.log, found.counts)]
