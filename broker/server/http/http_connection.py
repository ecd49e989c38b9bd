"""One HTTP connection: h11 parses, trio waits, and this module limits the time of each step.

A request is never logged, nor h11's errors, which quote it: there may be a password in it.
"""

from __future__ import annotations

import logging
import math
import ssl

import h11
import msgspec
import trio

from broker.config import HttpSettings
from broker.management.request_client import RequestClient
from broker.management.work_slots import WorkSlots
from broker.server.http.asgi_exchange import Application, HttpExchange, stamp
from broker.server.net.tls_transport import words
from broker.session.peer import Peer

log = logging.getLogger("leveret.http")

HEAD_BYTES = 8 * 1024
BODY_BYTES = 64 * 1024
"""Bytes read at a time. 8 KiB of a head, with 2,000 headers, take h11 3.5 ms."""
SENT_AT_ONCE = 32 * 1024
STALLED_SECONDS = 2.0
"""A client that has not accepted SENT_AT_ONCE in this time does not read: its connection may be closed for another."""
LINGER_SECONDS = 2.0
LINGER_BYTES = 16 << 20
"""Limits of the input that is discarded after the last answer: closing a socket with unread input would reset it, and
the client could lose the answer."""

REFUSALS = {
    400: ("bad_request", "the request is malformed"),
    408: ("request_timeout", "the request did not arrive in time"),
    413: ("content_too_large", "the request is too large"),
    431: ("request_header_fields_too_large", "the request is too large"),
    500: ("internal_error", "internal error, the broker's log has the details"),
    501: ("not_implemented", "this is not understood"),
    505: ("http_version_not_supported", "HTTP version not supported"),
}


class HttpConnection:
    """One client's connection, one request after the other.

    `admitted`: its last request had valid credentials. `since`: time at which it last became idle; without
    credentials, at which it was accepted.
    """

    def __init__(
        self, stream: trio.abc.Stream, peer: Peer, settings: HttpSettings, application: Application, slots: WorkSlots
    ) -> None:
        self.peer = peer
        self.admitted = False
        self.since = trio.current_time()
        self._stream = stream
        self._settings = settings
        self._application = application
        self._slots = slots
        self._answering = False
        self._sending_since = math.inf
        self._http = h11.Connection(h11.SERVER, settings.header_bytes_max)
        self._life = trio.CancelScope()
        self._fresh = True
        self._method = ""

    @property
    def busy(self) -> bool:
        """True if it is answering a request with valid credentials, and the client reads the answer."""
        return self._answering and trio.current_time() - self._sending_since < STALLED_SECONDS

    def drop(self) -> None:
        """Close the connection at once."""
        self._life.cancel()

    async def serve(self) -> None:
        """Serve requests until the connection has ended."""
        try:
            with self._life:
                if await self._shake_hands():
                    while await self._serve_request():
                        if self.admitted:
                            self.since = trio.current_time()
                    await self._part()
        except trio.TooSlowError:
            self._warn("closing HTTP connection %s: the client reads its answer too slowly")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            log.debug("HTTP connection %s: the client has gone", self.peer)
        finally:
            await trio.aclose_forcefully(self._stream)

    def _warn(self, text: str, *reason: object) -> None:
        log.warning(text, self.peer, *reason, extra={"connection": str(self.peer)})

    async def _shake_hands(self) -> bool:
        if not isinstance(self._stream, trio.SSLStream):
            return True
        with trio.move_on_after(self._settings.request_timeout_seconds):
            try:
                await self._stream.do_handshake()
            except trio.BrokenResourceError as error:
                reason = words(error.__cause__) if isinstance(error.__cause__, ssl.SSLError) else "the client has gone"
                self._warn("closing HTTP connection %s: TLS handshake failed: %s", reason)
                return False
            return True
        self._warn("closing HTTP connection %s: no TLS handshake in time")
        return False

    # Requests

    async def _serve_request(self) -> bool:
        """Answer the next request. False if no further one can follow."""
        try:
            head = await self._next_request()
        except h11.RemoteProtocolError as error:
            return await self._refuse(error.error_status_hint)
        if head is None:
            return False
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in head.headers}:
            return await self._refuse(400)  # a proxy may have seen its end elsewhere: request smuggling (RFC 9112, 6.1)
        if not head.http_version.startswith(b"1."):
            return await self._refuse(505)
        self.admitted = False
        exchange = HttpExchange(
            self._http, head, self, RequestClient(self.peer, self._admit, self._slots), self._settings
        )
        try:
            scope = exchange.scope(secured=isinstance(self._stream, trio.SSLStream))
        except ValueError:
            return await self._refuse(400)
        try:
            await self._application(scope, exchange.receive, exchange.send)
        except (trio.TooSlowError, trio.BrokenResourceError, trio.ClosedResourceError):
            raise
        except Exception:
            log.exception("error in an answer to %s", self.peer)
        finally:
            self._answering = False
        log.debug("HTTP %s for %s: %d", self._method, self.peer, exchange.status)
        if not exchange.status:
            await self._answer_briefly(500)
        return exchange.ended and self._next_cycle()

    def _admit(self) -> None:
        self._answering = self.admitted = True

    def _next_cycle(self) -> bool:
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def _next_request(self) -> h11.Request | None:
        """Return the head of the next request; None if none comes in time, or the client has gone."""
        self._method = ""
        idle = not self._fresh and not self._http.trailing_data[0]
        settings = self._settings
        with trio.move_on_after(settings.idle_timeout_seconds if idle else settings.request_timeout_seconds) as limit:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                data = bytes(await self._stream.receive_some(HEAD_BYTES))
                if idle:
                    idle = False
                    limit.deadline = trio.current_time() + settings.request_timeout_seconds
                if self._fresh and data.startswith(b"AMQP"):
                    self._warn("closing HTTP connection %s: an AMQP client on an HTTP port")
                    return None
                self._fresh = False
                self._http.receive_data(data)
        if limit.cancelled_caught:
            if self._http.trailing_data[0]:
                await self._refuse(408)
            return None
        if not isinstance(event, h11.Request):
            return None
        self._method = event.method.decode("ascii")
        return event

    async def _refuse(self, status: int) -> bool:
        """Answer a malformed request. Return False: the start of a next one cannot be found."""
        self._warn("closing HTTP connection %s: %d %s", status, _reason(status))
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await self._answer_briefly(status if status in REFUSALS else 400)
        return False

    async def _answer_briefly(self, status: int) -> None:
        """Send an error in the form of RabbitMQ's management plugin."""
        error, reason = REFUSALS[status]
        body = msgspec.json.encode({"error": error, "reason": reason})
        length = str(len(body)).encode()
        described = [(b"content-type", b"application/json"), (b"content-length", length), (b"connection", b"close")]
        data = self._http.send(h11.Response(status_code=status, headers=[*stamp(), *described])) or b""
        if self._method != "HEAD":
            data += self._http.send(h11.Data(body)) or b""
        self._http.send(h11.EndOfMessage())
        await self.send_all(data)

    # Bytes

    async def receive(self) -> bytes:
        """Return the next bytes of a body; empty at the end of the stream."""
        return bytes(await self._stream.receive_some(BODY_BYTES))

    async def send_all(self, data: bytes) -> None:
        """Send a piece of an answer. Raises trio.TooSlowError if the client does not accept it in time."""
        with trio.fail_after(self._settings.send_timeout_seconds):
            for start in range(0, len(data), SENT_AT_ONCE):
                self._sending_since = trio.current_time()
                await self._stream.send_all(data[start : start + SENT_AT_ONCE])
            self._sending_since = math.inf

    async def _part(self) -> None:
        """Send the end of the stream, and discard input for a while, so that the client gets the last answer."""
        with trio.move_on_after(LINGER_SECONDS):
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
            left = LINGER_BYTES
            while left > 0 and (data := await self._stream.receive_some(BODY_BYTES)):
                left -= len(data)
            await self._stream.aclose()


def _reason(status: int) -> str:
    return {
        400: "malformed request",
        408: "incomplete request",
        431: "request too large",
    }.get(status, "unsupported request")
