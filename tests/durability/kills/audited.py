"""A campaign whose broker records events, and whose clients keep logs."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from harness.brokers.admin_requests import ask
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.recording_broker import events_in
from harness.clients.wire_client import Client
from harness.waiting import eventually
from leveret_spark.events.event_columns import Event
from tests.durability.kills import phases
from tests.durability.kills.adapters.client_adapter import ClientAdapter
from tests.durability.kills.adapters.client_log import STAMP, ConnectionLog, LoggingAdapter
from tests.durability.kills.cycle import JOIN_SECONDS, SETTINGS, Campaign
from tests.durability.kills.lost_batches import Place, lose_last_batches
from tests.durability.kills.queue_contents import look
from tests.durability.kills.scenario import Traffic
from tests.durability.ledgers.client_ledger import ClientLedger
from tests.durability.ledgers.oracle import Found

EVENTS = """[events]
enabled = true
stamp_message_ids = true
kept_bytes = 0
"""


class Sight(NamedTuple):
    """The contents of the queues, and the ledgers' judgement."""

    held: dict[str, list[Found]]
    places: dict[str, dict[int, int]]
    """For each queue the messages' numbers, by position."""
    lost: list[tuple[str, int]]
    """ClientLedger and number of what must be somewhere, and is nowhere."""
    returned: list[Place]
    """Messages in places that they had left for good."""


class AuditedCampaign(Campaign):
    """Its cycles are those of any campaign; besides, everybody may come to rest before an orderly stop."""

    settings = EVENTS + SETTINGS

    def __init__(self, directory: Path, seed: int, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, seed, environment)
        self.connections: list[ConnectionLog] = []

    @property
    def ledgers(self) -> list[ClientLedger]:
        """The ledgers of all scenarios."""
        return [scenario.ledger for scenario in self.scenarios]

    def _new_adapter(self, scenario: Traffic) -> ClientAdapter:
        adapter = super()._new_adapter(scenario)
        return LoggingAdapter(adapter, scenario.name, self.connections, transactional=scenario.transactional)

    def restart(self) -> None:
        """An orderly stop and a start, while nobody is connected."""
        self._forget_adapters()
        self.broker.restart()
        for scenario in self.scenarios:
            scenario.crashed()

    def work_and_stop(self) -> None:
        """Load; then all clients have proven what they did and say nothing more, and an orderly stop."""
        self._set_to_work()
        self._await_connected()
        self._kill(self._at_rest)

    def work_and_lose(self) -> set[Place]:
        """Load, a kill, and what the last batches have put is lost with them: its places."""
        self._set_to_work()
        self._await_connected()
        self._kill(phases.under_load)
        return lose_last_batches(self.broker.data_dir)

    def _at_rest(self, broker: BrokerProcess, dice: random.Random, pause: phases.Pause, dying: threading.Event) -> str:
        pause(dice.uniform(0, phases.UNDER_LOAD_SECONDS_MAX))
        self.resting.set()
        for worker in self._workers:
            worker.join(JOIN_SECONDS)
        eventually(self._nothing_is_delayed, "delays to be over", seconds=JOIN_SECONDS)
        dying.set()
        broker.stop()
        self.resting.clear()
        return "stopped at rest"

    def _nothing_is_delayed(self) -> bool:
        rows = ask(self.broker.data_dir, "list_exchanges", {"vhost": "/"}, JOIN_SECONDS)
        return not any(row["messages_delayed"] for row in rows)

    def look(self) -> Sight:
        """Look at the contents of every queue of the ledgers."""
        sight = Sight({}, {}, [], [])
        for ledger in self.ledgers:
            held: dict[str, list[Found]] = {}
            client = Client.connect(self.broker.address)
            for queue in ledger.queues:
                messages = look(client, queue)
                numbers = [ledger.number_of(one.body) for one in messages]
                stamps = [(one.properties.headers or {})[STAMP].value for one in messages]
                held[queue] = [Found(n, one.method.redelivered) for n, one in zip(numbers, messages, strict=True)]
                sight.places[queue] = dict(zip(stamps, numbers, strict=True))
            client.close()
            sight.held.update(held)
            sight.lost.extend((ledger.name, number) for number in ledger.lost(held))
            returned = set(ledger.returned(held))
            for queue in held:
                left = _left(sight.places[queue])
                sight.returned.extend(
                    (queue, position)
                    for position, number in sight.places[queue].items()
                    if (queue, number) in returned or position in left
                )
        return sight

    def kill_for_good(self) -> None:
        """Events of this boot stay unsealed, and are no part of the log."""
        self._forget_adapters()
        self.broker.kill()

    @property
    def segments(self) -> Path:
        """The log's directory."""
        return self.broker.data_dir / "events"

    def events(self) -> list[Event]:
        """Everything that is sealed of the log."""
        return events_in(self.segments)


def _left(places: dict[int, int]) -> set[int]:
    """The places of messages that are further behind too: they were given back, and went to the end."""
    last = {number: position for position, number in sorted(places.items())}
    return {position for position, number in places.items() if position < last[number]}
