"""Messages of large batches, which wait beside the planner until tasks fetch them.

Small ones travel inside the partitions, several times through the memory of Spark's driver. Of a large batch a
partition has only an address, a secret made for the query, and a number: its task fetches the messages over a
connection of its own, as often as it is repeated. They are dropped when the batch is committed.

The secret itself is never sent. A request and its answer each carry an HMAC by it, over a number that the task has
drawn: the planner answers its tasks alone, and a task unpickles nothing that the planner has not written for it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pickle
import secrets
import socket
import socketserver
import struct
import threading
from typing import NamedTuple

from leveret_spark.amqp.received_message import Message
from leveret_spark.option_errors import AmqpError

LARGE_BYTES = 64 << 20
"""Bytes of bodies from which on a batch is large."""
SECRET_BYTES = 32
WANTED = struct.Struct(">Q")
"""A number of messages that are wanted; the size of an answer."""
NONCE_BYTES = 32
MAC_BYTES = hashlib.sha256().digest_size
TIMEOUT_SECONDS = 60.0
ANYWHERE = "192.0.2.1"
"""An address of nobody's: the way there begins at the address under which others know this machine."""


class Ticket(NamedTuple):
    """Address and key with which a task fetches its messages."""

    address: tuple[str, int]
    secret: bytes
    number: int

    def messages(self) -> list[Message]:
        """Fetch the messages. Raises AmqpError when the planner cannot be reached, or does not have them any more."""
        where = f"messages of a large batch wait beside the planner at {self.address[0]}:{self.address[1]}"
        asked = secrets.token_bytes(NONCE_BYTES) + WANTED.pack(self.number)
        try:
            with socket.create_connection(self.address, TIMEOUT_SECONDS) as connection:
                connection.sendall(asked + _mac(self.secret, b"request", asked))
                with connection.makefile("rb") as file:
                    head, mac = file.read(WANTED.size), file.read(MAC_BYTES)
                    size = WANTED.unpack(head)[0] if len(head) == WANTED.size else -1
                    data = file.read(max(size, 0))
        except OSError as error:
            raise AmqpError(f"{where}: {error}") from None
        if len(data) != size:
            raise AmqpError(f"{where}: the planner has dropped them")
        if not hmac.compare_digest(mac, _mac(self.secret, b"answer", asked, data)):
            raise AmqpError(f"{where}: this is not the planner")
        found: list[Message] = pickle.loads(data)
        return found


class WaitingMessages:
    """Keeps messages of one query for its tasks, by the number in their tickets; listens from the first on."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._kept: dict[int, list[Message]] = {}
        self._next = 0  # not itertools.count: Spark pickles this, and Python 3.14 pickles no iterator of itertools
        self._server: socketserver.ThreadingTCPServer | None = None

    def keep(self, messages: list[Message]) -> Ticket:
        """Keep messages; returns the ticket for their task."""
        number = self._next
        self._next += 1
        self._kept[number] = messages
        server = self._listening()
        host, port = server.server_address[:2]
        return Ticket((str(host), int(port)), self._secret, number)

    def drop(self) -> None:
        """All of them are done with."""
        self._kept.clear()

    def close(self) -> None:
        """Drop all messages, and stop listening."""
        self.drop()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _listening(self) -> socketserver.ThreadingTCPServer:
        if self._server is None:
            self._server = server = _Server((_own_address(), 0), self._answer)  # type: ignore[arg-type]
            threading.Thread(target=server.serve_forever, name="waiting messages", daemon=True).start()
        return self._server

    def _answer(self, connection: socket.socket, *_: object) -> None:
        """Give messages to who has the secret."""
        connection.settimeout(TIMEOUT_SECONDS)
        with connection.makefile("rb") as file:
            asked, mac = file.read(NONCE_BYTES + WANTED.size), file.read(MAC_BYTES)
        if not hmac.compare_digest(mac, _mac(self._secret, b"request", asked)):
            return
        messages = self._kept.get(WANTED.unpack(asked[NONCE_BYTES:])[0])
        if messages is not None:
            data = pickle.dumps(messages)
            connection.sendall(WANTED.pack(len(data)) + _mac(self._secret, b"answer", asked, data))
            connection.sendall(data)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: the task says that its connection has ended."""


def _mac(secret: bytes, *said: bytes) -> bytes:
    """Authenticate what is said: first its purpose, so that a request cannot be sent back as an answer."""
    mac = hmac.new(secret, digestmod=hashlib.sha256)
    for each in said:
        mac.update(each)
    return mac.digest()


def _own_address() -> str:
    """The address of this machine for the nodes of a cluster: as Spark was told it, or of the way out."""
    if told := os.environ.get("SPARK_LOCAL_IP"):
        return told
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((ANYWHERE, 9))  # sends nothing
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
