"""Live tracing: a consumer of the firehose, whose messages go to the client as lines of JSON.

If messages come faster than the client reads, some are dropped and counted: nothing waits for the client, and memory
stays bounded.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from broker.admin.json_tables import plain
from broker.admin.messages.message_in_json import payload_in_json
from broker.entities.vhosts.vhost import TRACE_EXCHANGE, VHost
from broker.management.api_call import ApiCall
from broker.management.responses import SECURITY, Problem, encoded
from broker.session.direct_session import DirectSession, Refused
from broker.wire import methods
from broker.wire.assembler import Command
from broker.wire.properties import decode_properties

RECORDS_MAX = 500
"""Records that may wait for the client; further ones are dropped."""
PAYLOAD_BYTES_MAX = 4096
"""Bytes of each payload that are shown."""
STEP_SECONDS = 0.2
"""Time for which records are collected before they are sent together."""
QUIET_SECONDS = 5.0
"""Interval of lines without records, so that proxies in between keep the connection."""
TRACE_SECONDS_MAX = 600.0
"""Longest trace. Then the client has to send a new request with valid credentials: a forgotten window stops tracing."""


class Records:
    """Records that are not sent yet, as lines of JSON. `dropped` counts the records that were left out."""

    def __init__(self) -> None:
        self.dropped = 0
        self._lines: deque[bytes] = deque()
        self._come = trio.Event()

    def add(self, command: Command) -> None:
        """Add a delivery of the firehose."""
        if len(self._lines) >= RECORDS_MAX:
            self.dropped += 1
            return
        self._lines.append(encoded(_record(command)))
        self._come.set()

    async def gather(self) -> None:
        """Wait for the first record, then for STEP_SECONDS; without a record return after QUIET_SECONDS."""
        with trio.move_on_after(QUIET_SECONDS):
            await self._come.wait()
            await trio.sleep(STEP_SECONDS)

    def take(self) -> bytes:
        """Take all lines, with the count of dropped records as the last one."""
        self._come = trio.Event()
        lines = [*self._lines, encoded({"dropped": self.dropped})]
        self._lines.clear()
        return b"\n".join(lines) + b"\n"


class TraceResponse(Response):
    """A response of lines of JSON, until the client disconnects or TRACE_SECONDS_MAX are over."""

    def __init__(self, vhost: VHost, records: Records, end: Callable[[], None]) -> None:
        super().__init__(None, 200, {**SECURITY, "cache-control": "no-store"}, "application/x-ndjson")
        self._vhost = vhost
        self._records = records
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [header for header in self.raw_headers if header[0] != b"content-length"]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send(
                {"type": "http.response.body", "more_body": True}
            )  # the server sends the head with the first part
            with trio.move_on_after(TRACE_SECONDS_MAX):
                while self._vhost.traced and await self._gathered(receive):
                    await send({"type": "http.response.body", "body": self._records.take(), "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._end()

    async def _gathered(self, receive: Receive) -> bool:
        """Wait for records. False if the client has disconnected meanwhile."""
        stays = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_end_with_client, receive, nursery.cancel_scope)
            await self._records.gather()
            stays = True
            nursery.cancel_scope.cancel()
        return stays


async def _end_with_client(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def listen(call: ApiCall, pattern: str) -> TraceResponse:
    """Start tracing the virtual host of the path. Raises Problem, or Refused without the permissions."""
    vhost, records, administration = call.vhost, Records(), call.api.administration
    session = DirectSession(call.api.registry, call.client.peer, call.account.name, vhost.name)
    session.on_delivery = records.add

    def end() -> None:
        session.close()
        call.api.trace_subscriptions.leave(vhost)
        administration.end_turn()

    call.api.trace_subscriptions.join(vhost)
    try:
        await _consume(call, session, pattern)
    except (Problem, Refused):
        end()
        raise
    return TraceResponse(vhost, records, end)


async def _consume(call: ApiCall, session: DirectSession, pattern: str) -> None:
    declared = await call.answered(session.ask(methods.QueueDeclare("", False, False, True, True, False, {})))
    assert isinstance(declared.method, methods.QueueDeclareOk), "the answer to a declaration"
    queue = declared.method.queue
    await call.answered(session.ask(methods.QueueBind(queue, TRACE_EXCHANGE, pattern, False, {})))
    await call.answered(session.ask(methods.BasicConsume(queue, "", False, True, True, False, {})))


def _record(command: Command) -> dict[str, Any]:
    traced = command.method
    assert isinstance(traced, methods.BasicDeliver), "a delivery"
    assert command.header_payload is not None, "a message has a header"
    headers = plain(decode_properties(command.header_payload).headers or {})
    kind, _, name = traced.routing_key.partition(".")
    return {
        "at": int(time.time() * 1000),
        "key": traced.routing_key,
        "kind": kind,
        "exchange": headers["exchange_name"],
        "queue": name if kind == "deliver" else "",
        "routing_keys": headers["routing_keys"],
        "routed_queues": headers.get("routed_queues", []),
        "redelivered": bool(headers.get("redelivered", 0)),
        "user": headers["user"],
        "connection": headers["connection"],
        "channel": headers["channel"],
        "properties": headers["properties"],
        "payload_bytes": len(command.body),
        **payload_in_json(command.body[:PAYLOAD_BYTES_MAX], as_base64=False),
    }
