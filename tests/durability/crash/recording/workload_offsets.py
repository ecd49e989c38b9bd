"""A client that commits offsets of groups in streams over HTTP, and deletes the streams and makes them again."""

from __future__ import annotations

import json
import random
from http.client import HTTPException

from broker.wire.method import Method
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import ask, web_address
from harness.clients.shorthand import queue_declare, queue_delete
from harness.clients.wire_client import Client

STREAMS, GROUPS = ("clicks", "views"), ("billing", "search")


class Committer:
    """Commits ever higher offsets by chance, and remembers what there is, so that nothing it asks for is refused."""

    def __init__(self, process: BrokerProcess, choose: random.Random) -> None:
        self._process = process
        self._choose = choose
        self._offset = 0
        self._committed: set[str] = set()

    def connect(self, client: Client) -> None:
        """Begin a life of the broker."""
        self._client = client
        self._address = web_address(self._process)
        for stream in STREAMS:
            client.ask(_declare(stream))

    def step(self) -> None:
        """Commit a few offsets, or have a stream or a group forgotten, and wait for the answers."""
        for _ in range(self._choose.choice((1, 2, 4))):
            self._commit()
        if self._choose.random() < 0.3:
            stream = self._choose.choice(STREAMS)
            self._client.ask(queue_delete(stream))
            self._client.ask(_declare(stream))
            self._committed.clear()
        if self._committed and self._choose.random() < 0.15:
            self._ask("DELETE", self._committed.pop(), b"")

    def _commit(self) -> None:
        group, streams = self._choose.choice(GROUPS), self._choose.choice((STREAMS, STREAMS[:1], STREAMS[1:]))
        self._offset += self._choose.randrange(1, 100)
        self._ask("PUT", group, json.dumps({"offsets": dict.fromkeys(streams, self._offset)}).encode())
        self._committed.add(group)

    def _ask(self, method: str, group: str, body: bytes) -> None:
        try:
            reply = ask(self._address, f"/api/leveret/stream-offsets/%2F/{group}", method=method, body=body)
        except HTTPException as error:
            raise ConnectionError(str(error)) from error
        assert reply.status == 204, reply


def _declare(stream: str) -> Method:
    return queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
