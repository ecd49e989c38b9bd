"""Records the lives of a broker, whose crashes are then explored."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import WITHOUT_METRICS
from harness.clients.wire_client import Client
from tests.durability.crash.recording.recorder import Recording
from tests.durability.crash.recording.workload_definitions import Definer
from tests.durability.crash.recording.workload_offsets import Committer
from tests.durability.ledgers.topology import SMALL_WINDOWS
from tests.durability.ledgers.workload import Publisher, Transactor, Worker
from tests.planted.planted_catalogue import with_eager_work, with_marks, with_mistake

LIVES = (5, 4, 3)
"""Steps of each client in each life of the broker."""
PLACE, MARKS = "away", "marks"
"""The place that a broker is shipped to, and the file with its changes, in the recorded directory."""
SHIPPED = """\
[ship]
to = "{place}"
confirm = "{confirm}"
piece_seconds = {seconds}
base_seconds = 0.5
"""


def record_broker(
    home: Path,
    seed: int,
    lives: Sequence[int] = LIVES,
    *,
    planted: str = "",
    abrupt: bool = False,
    offsets: bool = True,
    confirm: str = "",
) -> Recording:
    """Run a broker with several clients at once; end it after `steps` of their steps, mostly with a kill.

    An `abrupt` kill waits only for the definitions, and finds the other clients in the middle of something. Each start
    compacts the message store, and then once a second its free pages are made holes. Lone changes of definitions are
    written by the event loop. Without `offsets` nobody commits any, and HTTP, which takes long to start, is off. With
    `confirm`, the setting of `[ship]`, it is shipped to a directory beside its own.
    """
    recording = Recording(home)
    recording.begin(seed, planted)
    environment = with_eager_work(recording.environment())
    if planted:
        environment = with_mistake(planted, environment)
    config = home / "config.toml"
    settings = f"{SMALL_WINDOWS}[disk]\ncheck_interval_seconds = 1.0\n"
    if confirm:
        place = recording.directory / PLACE
        place.mkdir()
        seconds = 0.001 if confirm == "local" else 0.05  # but as soon as a confirm waits
        settings += SHIPPED.format(place=place, confirm=confirm, seconds=seconds)
        environment = with_marks(recording.directory / MARKS, environment)
    config.write_text(settings)
    data = recording.directory / "data"
    process = BrokerProcess(data, "--config", str(config), environment=environment)
    choose = random.Random(seed)
    workers = _workers(data, choose)
    if offsets:
        process.http = ("--management-listen", "127.0.0.1:0", *WITHOUT_METRICS)
        workers.insert(0, Committer(process, random.Random(f"offsets {seed}")))
    for steps in lives:
        _live(process, workers, steps, killed=choose.random() < 0.75, abrupt=abrupt)
    return recording


def _workers(data: Path, choose: random.Random) -> list[Worker]:
    chances = [random.Random(choose.random()) for _ in range(4)]
    return [Publisher(0, chances[0]), Publisher(1, chances[1]), Transactor(2, chances[2]), Definer(data, chances[3])]


def _live(process: BrokerProcess, workers: Sequence[Worker], steps: int, *, killed: bool, abrupt: bool) -> None:
    """Have all clients make their steps at the same time, then end the broker. Raises what went wrong with a client."""
    process.start()
    clients: list[Client] = []
    try:
        clients += [Client.connect(process.address) for _ in workers]
        errors: list[BaseException] = []
        threads = [
            threading.Thread(target=_run, args=(worker, client, steps, errors.append))
            for worker, client in zip(workers, clients, strict=True)
        ]
        for thread in threads:
            thread.start()
        threads[-1].join()
        if killed and abrupt:
            process.kill()
        for thread in threads:
            thread.join()
        cut_off = [error for error in errors if killed and abrupt and isinstance(error, (EOFError, ConnectionError))]
        if len(cut_off) < len(errors):
            raise next(error for error in errors if error not in cut_off)
        if not killed:
            process.terminate()
            for client in clients:  # a stop waits for their answers
                client.expect_gone()
            process.wait()
    finally:
        process.kill()
        for client in clients:
            client.close()


def _run(worker: Worker, client: Client, steps: int, failed: Callable[[BaseException], None]) -> None:
    try:
        worker.connect(client)
        for _ in range(steps):
            worker.step()
    except BaseException as error:
        failed(error)
