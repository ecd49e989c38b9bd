"""TLS beside plain sockets, and what many handshakes at once cost those who are already in.

The generator speaks no TLS. So it goes through a tunnel, threads of this process that carry bytes; both figures do.
"""

from __future__ import annotations

import select
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme

from bench.load import generator, loadgen
from bench.load.generator import Figures
from bench.load.measured_broker import Target, Wanted, median, own_broker, report
from broker.wire import methods
from harness.brokers.broker_process import BrokerProcess
from harness.clients.wire_client import Client
from harness.process_figures import allow_open_files

SECONDS = 4.0
STRANGERS = 1000
COPY_BYTES = 256 * 1024

Address = tuple[str, int]


def tls(wanted: Wanted) -> None:
    """Rates with a window of 1,000 through a tunnel, plain and sealed; round trips during a thousand handshakes."""
    allow_open_files()
    with _broker() as (broker, context):
        for label, address, security in (("plain", broker.address, None), ("TLS", broker.tls_address, context)):
            for size in (1024, 1 << 20):
                with _tunnel(address, security) as entrance:
                    report(f"{label}, {size} bytes", **_rate(Target(entrance, broker.pid), size, wanted))
        report("handshakes", **_handshakes(broker, context, wanted.sized(STRANGERS)))


@contextmanager
def _broker() -> Iterator[tuple[BrokerProcess, ssl.SSLContext]]:
    """A broker with an RSA key of 2,048 bits, which is the slowest that is usual, and what its clients need."""
    authority = trustme.CA(key_type=trustme.KeyType.RSA)
    made = authority.issue_cert("localhost", key_type=trustme.KeyType.RSA)
    with tempfile.TemporaryDirectory(prefix="leveret-bench-tls-") as name:
        certificate, key, config = (Path(name) / file for file in ("server.pem", "server.key", "leveret.toml"))
        made.cert_chain_pems[0].write_to_path(certificate)
        made.private_key_pem.write_to_path(key)
        key.chmod(0o600)
        config.write_text(f'[tls]\nlisten = ["127.0.0.1:0"]\ncertificate_file = "{certificate}"\nkey_file = "{key}"\n')
        context = ssl.create_default_context()
        authority.configure_trust(context)
        with own_broker(LEVERET_CONFIG=str(config)) as broker:
            yield broker, context


def _rate(target: Target, size: int, wanted: Wanted) -> Figures:
    client = generator.connect(target)
    generator.declare_fresh(client, "bench.tls")
    window = 1000 if size < COPY_BYTES else 8
    found = generator.run(
        target,
        label="tls",
        key="bench.tls",
        queue="bench.tls",
        size=size,
        window=window,
        seconds=wanted.seconds(SECONDS),
        warm=wanted.seconds(1.0),
    )
    generator.delete(client, "bench.tls")
    client.close()
    return found


# The tunnel


@contextmanager
def _tunnel(address: Address, security: ssl.SSLContext | None) -> Iterator[Address]:
    """A port that leads to `address`, through TLS where there is `security`."""
    with socket.create_server(("127.0.0.1", 0)) as entrance:
        threading.Thread(target=_let_in, args=(entrance, address, security), daemon=True).start()
        yield entrance.getsockname()[:2]
        entrance.shutdown(socket.SHUT_RDWR)


def _let_in(entrance: socket.socket, address: Address, security: ssl.SSLContext | None) -> None:
    while True:
        try:
            near, _ = entrance.accept()
        except OSError:
            return
        far = socket.create_connection(address)
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if security is not None:
            far = security.wrap_socket(far, server_hostname="localhost")
        outside, inside = _End(near), _End(far)
        for source, sink in ((outside, inside), (inside, outside)):
            threading.Thread(target=_carry, args=(source, sink), daemon=True).start()


class _End:
    """A socket that two threads use, one for each direction; TLS bears only one call at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.setblocking(False)
        self._lock = threading.Lock()

    def receive(self, buffer: memoryview) -> int:
        while True:
            with self._lock:
                try:
                    return self._sock.recv_into(buffer)
                except (BlockingIOError, ssl.SSLWantReadError):
                    pass
            select.select([self._sock], [], [])

    def send(self, data: memoryview) -> None:
        while data:
            with self._lock:
                try:
                    data = data[self._sock.send(data) :]
                    continue
                except (BlockingIOError, ssl.SSLWantWriteError):
                    pass
            select.select([], [self._sock], [])

    def end(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def _carry(source: _End, sink: _End) -> None:
    buffer = memoryview(bytearray(COPY_BYTES))
    try:
        while size := source.receive(buffer):
            sink.send(buffer[:size])
    except OSError:
        pass
    source.end()
    sink.end()


# Many handshakes


def _handshakes(broker: BrokerProcess, context: ssl.SSLContext, others: int) -> Figures:
    """Round trips of one client, alone and while `others` begin their handshakes all at once."""
    client = loadgen.connect(broker.address)
    alone = [_round_trip(client) for _ in range(500)]
    hello = _hello(context)
    clients = [socket.create_connection(broker.tls_address) for _ in range(others)]
    began = time.monotonic()
    greeting = threading.Thread(target=_greet, args=(clients, hello))
    greeting.start()
    meanwhile = []
    while greeting.is_alive():
        meanwhile.append(_round_trip(client))
    seconds = time.monotonic() - began
    for other in clients:
        other.close()
    client.close()
    return {
        "handshakes": others,
        "seconds": round(seconds, 2),
        "round_trip_ms_alone": {"p50": median(alone), "max": round(max(alone), 2)},
        "round_trip_ms_meanwhile": {"p50": median(meanwhile or [0.0]), "max": round(max(meanwhile, default=0.0), 2)},
    }


def _round_trip(client: Client) -> float:
    """Milliseconds that a question takes which needs no disk."""
    began = time.monotonic()
    client.ask(methods.BasicQos(0, 1, False))
    return (time.monotonic() - began) * 1000


def _hello(context: ssl.SSLContext) -> bytes:
    outgoing = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def _greet(clients: list[socket.socket], hello: bytes) -> None:
    """Say hello for everybody, then wait for all answers."""
    for other in clients:
        other.sendall(hello)
    for other in clients:
        other.recv(1 << 16)
