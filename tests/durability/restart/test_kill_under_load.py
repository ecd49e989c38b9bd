"""Killed again and again in the middle of everything: what the ledgers of its clients say must hold each time.

Twenty times under the scripted client, with three queues; then under real clients, with everything that a message can
go through, in all phases of the broker's life: tests/durability/kills, of which `make crash-kill` does hundreds.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.clients.wire_client import Client
from tests.durability.kills.cycle import running
from tests.durability.restart.conftest import expect_sound_store
from tests.durability.restart.scripted_load import ScriptedLoad

Dial = Callable[[], Client]

CYCLES = 20
CYCLES_OF_REAL_CLIENTS = 8
QUEUES = ("a", "b", "c")


class Worker(threading.Thread):
    """Works a queue until the broker dies under it."""

    def __init__(self, client: Client, load: ScriptedLoad, confirms: int) -> None:
        super().__init__()
        self.client = client
        self.load = load
        self.confirms = confirms
        self.far_enough = threading.Event()
        self.failure: BaseException | None = None
        load.begin(client)

    def run(self) -> None:
        try:
            while True:
                if self.load.step(self.client) >= self.confirms:
                    self.far_enough.set()
        except (ConnectionError, EOFError):
            pass
        except BaseException as error:
            self.failure = error
        finally:
            self.far_enough.set()


@pytest.mark.slow
def test_twenty_kills(fresh_broker: BrokerProcess, dial: Dial) -> None:
    """Confirmed and not acknowledged: there, once, in order. Synced acks: gone. Marks as far as provable."""
    dice = random.Random(20)
    loads = [ScriptedLoad(queue) for queue in QUEUES]
    setup = dial()
    for load in loads:
        load.set_up(setup)
    for _ in range(CYCLES):
        workers = [Worker(dial(), load, dice.randint(20, 400)) for load in loads]
        for worker in workers:
            worker.start()
        workers[dice.randrange(len(workers))].far_enough.wait()
        fresh_broker.kill_and_restart()
        for worker in workers:
            worker.join()
            assert worker.failure is None, worker.failure
            client = dial()
            worker.load.inspect(client)
            client.close()
    assert fresh_broker.stop() == 0, fresh_broker.log()
    expect_sound_store(fresh_broker)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_kills_under_real_clients(tmp_path: Path) -> None:
    """pika, kombu and aio-pika, which leave lost sockets to the garbage collector: hence the filters."""
    with running(tmp_path, 20) as campaign:
        campaign.cycles(CYCLES_OF_REAL_CLIENTS)
        campaign.end()
    assert campaign.tally.confirmed
    assert campaign.tally.checked
