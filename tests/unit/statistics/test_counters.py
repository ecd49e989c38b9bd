"""Counts of traffic over sockets: of queues, exchanges, channels, virtual hosts and the broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.entities.exchanges.routing import hand_over
from broker.entities.statistics.totals import AMQP, ChurnValues, TrafficValues
from broker.wire.frames import method_frame
from broker.wire.methods import ChannelClose, ChannelOpen, ConnectionClose, QueueDelete
from harness.brokers.broker_core import SMALL, Core, Reader, message
from harness.brokers.broker_server import BrokerServer, ServerClient, eventually, serving
from harness.clients.amqp_peer import Login
from harness.clients.queue_steps import numbered
from harness.clients.session_client import SessionLayer
from harness.clients.shorthand import prefetch, queue_declare
from tests.unit.statistics.counted_traffic import SCRIPTS, TOPOLOGY, Answers, Counts, Script, Step, do


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[BrokerServer]:
    async with serving(tmp_path / "messages") as server:
        yield server


def counted(values: Any) -> Counts:
    """The counters that are not 0; when what is stored gets to the disk is not a matter of traffic alone."""
    return {name: count for name, count in values._asdict().items() if count and not name.startswith("disk_")}


async def play(client: ServerClient, *steps: Step) -> None:
    came, due = Answers(), 0
    for step in steps:
        due += step.answers
        await client.say(step.data)
        while came.count < due:
            came.add(await client.receive())


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
async def test_traffic_is_counted_as_rabbitmq_counts_it(server: BrokerServer, script: Script) -> None:
    """At once: when the client has its answer."""
    client = await server.connect()
    vhost, statistics = server.core.vhost, server.core.broker.statistics
    await play(client, *map(do, TOPOLOGY), *script.steps, do(prefetch(0)))
    assert counted(client.connection.channels[1].counters.values()) == script.channel
    queues = {name: counted(queue.counters.values()) for name, queue in vhost.queues.items()}
    assert {name: counts for name, counts in queues.items() if counts} == script.queues
    exchanges = [(each.name or "default", each.counters) for each in vhost.exchanges.values()]
    published = [[name, str(of.publish_in), str(of.publish_out)] for name, of in exchanges if of.publish_in]
    assert published == ([script.exchange[:3]] if script.exchange else [])
    assert counted(vhost.statistics.channels()) == counted(statistics.channels()) == script.channel
    statistics.check()
    await client.ask(ChannelClose(200, "", 0, 0))
    assert counted(vhost.statistics.channels()) == script.channel, "the sums outlast the channel"


async def test_what_comes_and_goes_is_counted(server: BrokerServer) -> None:
    client, statistics = await server.connect(), server.core.broker.statistics
    for declared in (
        queue_declare("q"),
        queue_declare("q"),
        queue_declare("q", passive=True),
        QueueDelete("q", False, False, False),
    ):
        await client.ask(declared)
    await client.ask(queue_declare("exclusive", exclusive=True))
    await client.ask(queue_declare("exclusive", durable=True))  # refused: the channel ends with it
    await client.ask(ChannelOpen(), channel=2)
    assert statistics.churn.values() == ChurnValues(1, 0, 2, 0, 4, 2, 1)
    await client.ask(ConnectionClose(200, "", 0, 0), channel=0)
    assert statistics.churn.values() == ChurnValues(1, 1, 2, 2, 4, 2, 2)
    stranger = server.client()
    await stranger.say(b"".join(Login(password="wrong").at_once()))
    await eventually(lambda: statistics.logins[AMQP].failed == 1, "the refusal")
    assert statistics.logins[AMQP].succeeded == 1


async def test_bytes_of_connections_are_counted_as_they_are_on_the_wire(server: BrokerServer) -> None:
    """A virtual host keeps its counts when the connection is gone, too."""
    client = await server.connect()
    before, question = client.connection.traffic.values(), method_frame(1, queue_declare("q"))
    await client.say(question)
    answer = method_frame(1, await client.receive())
    traffic = client.connection.traffic.values()
    assert traffic == TrafficValues(
        before.recv_oct + len(question), before.recv_cnt + 1, before.send_oct + len(answer), before.send_cnt + 1
    )
    client.socket.close()
    await eventually(lambda: not server.registry.connections, "the end")
    assert server.core.vhost.statistics.traffic() == server.core.broker.statistics.traffic() == traffic


DEATHS: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "dropped when it had its time": ({"message_ttl": 10}, ("disabled", "expired")),
    "dead letter when it had its time": (
        {"message_ttl": 10, "dead_letter_exchange": "amq.fanout"},
        ("at_most_once", "expired"),
    ),
    "dropped for another": ({"max_length": 0}, ("disabled", "maxlen")),
    "turned away": (
        {"max_length": 0, "overflow": "reject-publish-dlx", "dead_letter_exchange": ""},
        ("at_most_once", "maxlen"),
    ),
    "sent at least once": (
        {
            "queue_type": "quorum",
            "message_ttl": 10,
            "overflow": "reject-publish",
            "dead_letter_strategy": "at-least-once",
            "dead_letter_exchange": "",
            "dead_letter_routing_key": "dead",
        },
        ("at_least_once", "expired"),
    ),
}


@pytest.mark.parametrize("case", DEATHS)
def test_messages_that_die_are_counted_by_strategy_and_reason(core: Core, case: str) -> None:
    arguments, (strategy, reason) = DEATHS[case]
    core.queue("dead")
    queue = core.queue("dying", **arguments)
    hand_over(message(b"x", key="dying"), queue)
    core.advance(20)
    totals = queue.counters.of_type
    assert {died: count for died, count in totals.dead_lettered.items() if count} == {(strategy, reason): 1}
    assert getattr(queue.counters, reason) == 1
    assert totals.dead_letters_confirmed == (strategy == "at_least_once")


def test_what_is_written_and_read_back_is_counted(core: Core) -> None:
    """A message that is settled before its batch is cut is never written."""
    queue, reader = core.queue(), Reader()
    queue.publish(message(b"gone", key="q"))
    reader.drain(queue)
    core.deposit(queue, *numbered(2 * SMALL.messages))
    core.commit()
    assert queue.counters.disk_writes == 2 * SMALL.messages
    assert reader.drain(queue) == numbered(2 * SMALL.messages)
    assert queue.counters.disk_reads == SMALL.messages


def test_a_delayed_message_is_put_into_queues_when_its_time_has_come(core: Core) -> None:
    exchange, queue = core.exchange("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"}), core.queue()
    core.bind(exchange, queue)
    client = SessionLayer(core).connect()
    for headers in ({"x-delay": 1000}, {}):
        client.publish(b"x", exchange="later", headers=headers)
    of = exchange.counters
    assert (of.publish_in, of.publish_out, queue.counters.publish) == (2, 1, 1)
    core.advance(1000)
    assert (of.publish_in, of.publish_out, queue.counters.publish) == (2, 2, 2)
    assert counted(client.connection.channels[1].counters.values()) == {"publish": 2, "routed": 2}
