"""Cases that live over the restarts of one broker side by side, each in a virtual host of its own.

A case is a generator: each `client = yield` is a boot of the broker, and gives it the connection for that boot. All
cases have done what they do in a boot when the broker is ended; their connections are open until then.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

from broker.wire.methods import QueueDeclareOk
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.policy_steps import Leveret
from harness.clients.queue_steps import deposit
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from storage.offline.verify_messages import verify

Boots = Generator[None, Client, None]
Case = Callable[[], Boots]


def live_through(cases: Iterable[Case], broker: BrokerProcess, *, killed: bool) -> dict[str, BaseException]:
    """Take all cases through as many boots as they ask for; what went wrong, by the name of the case.

    The broker is ended by SIGKILL or in order, the last time in order. Then its store must be sound.
    """
    living = {case.__name__: case() for case in cases}
    failures: dict[str, BaseException] = {}
    for boots in living.values():
        next(boots)
    broker.start()
    for name in living:
        Leveret(broker.data_dir, name).begin()
    while True:
        clients = {name: Client.connect(broker.address, vhost=name) for name in living}
        for name, boots in list(living.items()):
            try:
                boots.send(clients[name])
                continue
            except StopIteration:
                pass
            except (AssertionError, OSError, EOFError) as error:
                failures[name] = error
            del living[name]
        if not living:
            break
        end(broker, list(clients.values()), killed=killed)
        broker.start()
    end(broker, list(clients.values()), killed=False)
    expect_sound_store(broker)
    return failures


def end(broker: BrokerProcess, clients: Iterable[Client], *, killed: bool) -> None:
    """End the broker while its clients are connected; in order, they answer its connection.close."""
    if killed:
        broker.kill()
    else:
        broker.terminate()
        for client in clients:
            client.expect_gone()
        assert broker.wait() == 0, broker.log()
    for client in clients:
        client.close()


def expect_sound_store(broker: BrokerProcess) -> None:
    """Have a stopped broker's messages verified: checksums, counters against segments, orphans, references."""
    report = verify(broker.data_dir / "messages")
    assert (report.problems, report.set_aside) == ([], 0)


def declare(client: Client, queue: str, **arguments: Any) -> QueueDeclareOk:
    """Declare a durable queue; `max_length=3` is the argument x-max-length."""
    table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    answer: QueueDeclareOk = client.ask(queue_declare(queue, durable=True, arguments=table))
    return answer


def flush(client: Client) -> None:
    """Wait for a confirm of something later: what the connection did before is then on disk as well."""
    declare(client, "flushed")
    deposit(client, b"", key="flushed", properties=PERSISTENT)
