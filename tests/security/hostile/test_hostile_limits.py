"""The limit of each kind of attack: where it stops, and which clients are closed."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from broker.wire.constants import FRAME_BODY
from broker.wire.field_tables import Field
from broker.wire.frames import PROTOCOL_HEADER, frame, method_frame
from broker.wire.methods import BasicAck, ConfirmSelect, ConnectionClose, ConnectionStartOk, TxSelect, TxSelectOk
from harness.attacks.attack import Attack
from harness.attacks.benign_client import Good
from harness.attacks.costly_topologies import HeadersBindings
from harness.attacks.incomplete_contents import announcement
from harness.attacks.non_reading_clients import DirectRepliesUnread, NonReadingGetter, NonReadingRequester
from harness.attacks.raw_connection import RawConnection
from harness.attacks.resource_exhaustion import fresh
from harness.brokers.broker_process import BrokerProcess
from harness.clients.amqp_peer import Login, publish_frames
from harness.clients.shorthand import exchange_declare, queue_declare
from harness.clients.wire_client import Client
from harness.process_figures import cpu_seconds, own_memory
from harness.project import ROOT
from harness.waiting import eventually
from tests.planted.planted_catalogue import with_mistake

Started = Callable[..., BrokerProcess]
Ends = Callable[..., Any]

MIB = 1 << 20

pytestmark = pytest.mark.slow


def planted(name: str | None) -> dict[str, str] | None:
    return with_mistake(name) if name else None


# Messages that are not whole


def half_a_body(connection: RawConnection, size: int) -> None:
    """Announce a message and send at most `size` bytes of it, in frames of 100,000 bytes."""
    connection.tell(announcement(1))
    connection.tell(frame(FRAME_BODY, 1, bytes(100_000)) * (size // 100_000))


def sent_away(connection: RawConnection) -> bool:
    """The broker has said 506 to this connection, or closed it."""
    try:
        connection.await_methods(ConnectionClose, 1)
    except ConnectionError as error:
        return "RESOURCE_ERROR" in str(error) or "closed" in str(error) or "reset" in str(error)
    return False


def is_open(connection: RawConnection) -> bool:
    try:
        connection.hear()
    except ConnectionError:
        return False
    return True


@pytest.mark.parametrize("mistake", [None, "half bodies not counted"])
def test_who_sends_most_of_messages_that_are_not_whole_goes(limited: Started, ends: Ends, mistake: str | None) -> None:
    broker = limited(incomplete_bytes_max=4 * MIB, environment=planted(mistake))
    good, modest, greedy = (
        ends(Good(broker.address)),
        ends(RawConnection(broker.address)),
        ends(RawConnection(broker.address)),
    )
    half_a_body(modest, MIB)
    half_a_body(greedy, 5 * MIB)
    good.round_trip()
    if mistake:
        assert is_open(greedy)
        return
    assert sent_away(greedy)
    assert is_open(modest)
    half_a_body(other := ends(RawConnection(broker.address)), 2 * MIB)  # what the greedy one held is there again
    good.round_trip()
    assert is_open(other)


def test_an_open_transaction_counts_until_it_is_committed(limited: Started, ends: Ends) -> None:
    broker = limited(incomplete_bytes_max=4 * MIB)
    connection = ends(RawConnection(broker.address))
    fresh(connection, "transaction")
    connection.ask(TxSelectOk, TxSelect())
    connection.tell(publish_frames(bytes(100_000), key="transaction") * 60)
    assert sent_away(connection)


# Who does not read


def taken(broker: BrokerProcess, attack: Attack, bytes_max: int) -> int:
    """Return the bytes that the broker takes from an attacker who reads nothing; at most `bytes_max`."""
    attack.begin()
    connection = attack.connections[-1]
    connection.sock.setblocking(False)
    data, total, used = memoryview(getattr(attack, "data", b"")), 0, -1.0
    while total < bytes_max:
        if select.select((), (connection.sock,), (), LOOK_SECONDS)[1]:
            total += connection.sock.send(data[total % len(data) :])
        elif (now := cpu_seconds(broker.pid)) <= used + IDLE_CPU_SECONDS:
            break
        else:
            used = now
    return total


LOOK_SECONDS = 2.0
IDLE_CPU_SECONDS = 0.05
"""A broker that takes nothing between two looks, and has not worked for longer than this, will take nothing more."""


@pytest.mark.parametrize("mistake", [None, "unread output not bounded"])
def test_who_reads_no_answers_is_not_read(limited: Started, ends: Ends, mistake: str | None) -> None:
    broker = limited(output_bytes_max=MIB // 4, environment=planted(mistake))
    attack = ends(NonReadingRequester(broker.address))
    found = taken(broker, attack, 16 * MIB)
    attack.end()
    assert (found < 16 * MIB) is (mistake is None)
    ends(Good(broker.address)).round_trip()


def test_answers_to_gets_stop_within_what_was_received(limited: Started, ends: Ends) -> None:
    """Three thousand gets of a mebibyte come in one piece; the broker handles as many as there is room for."""
    broker = limited(output_bytes_max=MIB // 4)
    attack = ends(NonReadingGetter(broker.address, 0.01))
    assert taken(broker, attack, 8 * MIB) < 8 * MIB
    assert own_memory(broker.pid) < 200 * MIB
    attack.end()


def test_direct_replies_that_nobody_reads_are_dropped(limited: Started, ends: Ends) -> None:
    broker = limited(output_bytes_max=MIB // 4)
    attack = ends(DirectRepliesUnread(broker.address))
    assert taken(broker, attack, 300 * MIB) >= 300 * MIB  # who answers is held up by nobody
    assert own_memory(broker.pid) < 200 * MIB
    attack.end()


# Turns


@pytest.mark.parametrize("mistake", [None, "turns without end"])
def test_others_have_their_turn_between_what_costs_much(limited: Started, ends: Ends, mistake: str | None) -> None:
    """Hundreds of publishes, each held against thousands of bindings, have come in one piece."""
    broker = limited(environment=planted(mistake))
    good, attack = ends(Good(broker.address)), ends(HeadersBindings(broker.address, 0.5))
    attack.begin()
    publishes = 400
    attack.connection.tell(method_frame(1, ConfirmSelect(True)) + attack.data[: len(attack.data) // 100] * publishes)
    attack.connection.await_methods(BasicAck, 1)
    good.round_trip()
    assert (attack.connection.confirmed < publishes) is (mistake is None)
    attack.end()


# Handshakes


def test_the_oldest_handshake_goes_when_there_are_too_many(limited: Started, ends: Ends) -> None:
    """Also when refused logins are among them."""
    broker = limited(handshakes_max=5)
    good = ends(Good(broker.address))
    handshaking = [ends(RawConnection(broker.address, greet=False)) for _ in range(8)]
    for connection in handshaking:
        connection.sock.settimeout(30)
    for connection in handshaking[:3]:
        assert connection.sock.recv(1) == b""
    for connection in handshaking[3:]:
        connection.tell(PROTOCOL_HEADER)
        assert connection.sock.recv(1) == b"\x01"
    good.round_trip()
    guess = method_frame(0, Login(password="guess", capabilities={}).start_ok())
    for connection in [ends(RawConnection(broker.address, greet=False)) for _ in range(8)]:
        with suppress(ConnectionError):
            connection.tell(PROTOCOL_HEADER + guess)
    ends(Good(broker.address)).round_trip()


def test_nobody_sends_large_frames_before_logging_in(limited: Started, ends: Ends) -> None:
    broker = limited()
    connection = ends(RawConnection(broker.address, greet=False))
    properties = {"large": Field("S", bytes(20_000))}
    connection.tell(
        PROTOCOL_HEADER + method_frame(0, ConnectionStartOk(properties, "PLAIN", b"\0guest\0guest", "en_US"))
    )
    eventually(lambda: "frame_too_large" in broker.log(), "the broker to say why")
    ends(Good(broker.address)).round_trip()


# Descriptors


def test_clients_do_not_get_the_last_descriptors(limited: Started, ends: Ends) -> None:
    broker = limited(prefix=("sh", "-c", 'ulimit -n 160; exec "$@"', "sh"))
    good = ends(Good(broker.address))
    many = [ends(RawConnection(broker.address)) for _ in range(95)]
    many += [ends(RawConnection(broker.address, greet=False)) for _ in range(100)]
    eventually(lambda: "not accepting" in broker.log(), "the broker to have no more room")
    good.round_trip()
    command = [sys.executable, "-m", "broker", "status", "--data-dir", str(broker.data_dir)]
    status = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert status.returncode == 0, status.stderr
    for connection in many:
        connection.close()
    ends(Good(broker.address)).round_trip()
    good.round_trip()


# Entities


def test_queues_and_exchanges_have_an_end(limited: Started, ends: Ends) -> None:
    """The words are those of RabbitMQ's cluster_queue_limit (3.13) and cluster_exchange_limit (4.1)."""
    broker = limited(queues_max=2, exchanges_max=9)
    client = ends(Client.connect(broker.address))
    for name in ("a", "b", "a"):
        client.ask(queue_declare(name))
    assert client.refusal(queue_declare("c")) == (
        "channel 406 PRECONDITION_FAILED - cannot declare queue 'c': queue limit in cluster (2) is reached"
    )
    for name in ("x", "y", "x"):
        client.ask(exchange_declare(name))
    assert client.refusal(exchange_declare("z")) == (
        "channel 406 PRECONDITION_FAILED - cannot declare exchange 'z' in vhost '/': exchange limit of 9 is reached"
    )
