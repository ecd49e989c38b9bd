"""HTTP over sockets: h11 knows the protocol, trio the waiting; here are the limits.

A connection is a task. It is busy while it answers a user with valid credentials; else it waits: for a request,
because an answer is held back, or until a client without credentials has taken one. Their number is limited: at the
limit some of the waiting connections are closed, and new ones are accepted as soon as there is room. Those without
credentials are closed first, from the addresses that have most of them, the oldest first. So a client that says
nothing, sends a byte at a time or reads nothing keeps no other out for long, and an answer that is being taken is
never cut off. Every other step has a time limit.

What a client has sent is never logged: h11's complaints quote it, and there may be a password in it.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from operator import attrgetter

import h11
import trio

from broker.config import Http
from broker.server.http.http_messages import Answer, Request, problem, read_target
from broker.server.http.segment_files import FileSlice
from broker.server.net.listeners import accept_forever
from broker.server.net.tls_context import Security
from broker.server.net.tls_transport import words
from broker.session.peer import Peer

log = logging.getLogger("leveret.http")

RECEIVE_BYTES = 8 * 1024
LINGER_SECONDS = 2.0
LINGER_BYTES = 1 << 20
"""How long, and for how much, a client is listened to that has been answered and is to go: if the socket were closed on
what it still sends, it might not get the answer."""
ROOM_PART = 0.75
"""To how many of the connections that there may be those are reduced that wait."""

INTERNAL = problem(500, "internal_error", "internal error, the broker's log has the details")
_REFUSALS = {
    400: problem(400, "bad_request", "the request is malformed"),
    408: problem(408, "request_timeout", "the request did not arrive in time"),
    413: problem(413, "content_too_large", "no request here has a body"),
    431: problem(431, "request_header_fields_too_large", "the request is too large"),
    501: problem(501, "not_implemented", "this is not understood"),
    505: problem(505, "http_version_not_supported", "HTTP version not supported"),
}

Application = Callable[[Request], Awaitable[Answer]]


class WebServer:
    """Connections by HTTP, and how many there may be."""

    def __init__(self, settings: Http, application: Application, nursery: trio.Nursery) -> None:
        self._settings = settings
        self._application = application
        self._nursery = nursery
        self.connections: dict[HttpConnection, None] = {}

    def listen(self, listener: socket.socket, security: Security | None) -> None:
        """Take clients in on a socket, until it is closed."""
        accept = partial(self._accept, security)
        self._nursery.start_soon(accept_forever, listener, accept, self._has_capacity)

    def _has_capacity(self) -> bool:
        most = self._settings.connections_max
        if len(self.connections) < most:
            return True
        waiting = _dispensable_first(each for each in self.connections if not each.busy)
        for each in waiting[: len(self.connections) - int(most * ROOM_PART)]:
            log.warning("closing HTTP connection %s: connection limit reached, and it is idle", each.peer)
            each.drop()
        return False

    def _accept(self, security: Security | None, sock: socket.socket, peer: Peer) -> None:
        stream: trio.abc.Stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        if security is not None:
            stream = trio.SSLStream(stream, security.context, server_side=True)
        connection = HttpConnection(stream, peer, self._settings, self._application)
        self.connections[connection] = None
        self._nursery.start_soon(self._serve, connection, security)

    async def _serve(self, connection: HttpConnection, security: Security | None) -> None:
        try:
            if security is not None:
                async with security.turns:  # one handshake step in each turn of the event loop
                    await trio.lowlevel.checkpoint()
            await connection.serve()
        except Exception:
            log.exception("error on HTTP connection %s", connection.peer)
        finally:
            del self.connections[connection]


class HttpConnection:
    """One client's connection, one request after the other.

    `admitted`: credentials came with its last request. `since`: when it last began to wait; without credentials, when
    it was accepted.
    """

    def __init__(self, stream: trio.abc.Stream, peer: Peer, settings: Http, application: Application) -> None:
        self.peer = peer
        self.busy = False
        self.admitted = False
        self.since = trio.current_time()
        self._stream = stream
        self._settings = settings
        self._application = application
        self._http = h11.Connection(h11.SERVER, settings.header_bytes_max)
        self._life = trio.CancelScope()
        self._fresh = True
        self._method = ""

    def drop(self) -> None:
        """Close the connection as it is."""
        self._life.cancel()

    async def serve(self) -> None:
        """Serve the client until either side has had enough."""
        try:
            with self._life:
                if await self._shake_hands():
                    while await self._serve_request():
                        if self.admitted:
                            self.since = trio.current_time()
                    await self._part()
        except trio.TooSlowError:
            log.warning("closing HTTP connection %s: the client reads its answer too slowly", self.peer)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            log.debug("HTTP connection %s: the client has gone", self.peer)
        finally:
            await trio.aclose_forcefully(self._stream)

    async def _shake_hands(self) -> bool:
        if not isinstance(self._stream, trio.SSLStream):
            return True
        with trio.move_on_after(self._settings.request_timeout_seconds):
            try:
                await self._stream.do_handshake()
            except trio.BrokenResourceError as error:
                reason = words(error.__cause__) if isinstance(error.__cause__, ssl.SSLError) else "the client has gone"
                log.warning("closing HTTP connection %s: TLS handshake failed: %s", self.peer, reason)
                return False
            return True
        log.warning("closing HTTP connection %s: no TLS handshake in time", self.peer)
        return False

    # Requests

    async def _serve_request(self) -> bool:
        """Answer the next request; False when there is to be no further one."""
        try:
            head = await self._next_request()
            if head is None:
                return False
            if {b"content-length", b"transfer-encoding"} <= {name for name, _ in head.headers}:
                return await self._refuse(400)  # a proxy may have seen another end of it (RFC 9112, 6.1)
            if type(self._http.next_event()) is not h11.EndOfMessage and self._method in ("GET", "HEAD"):
                return await self._refuse(413)
        except h11.RemoteProtocolError as error:
            return await self._refuse(error.error_status_hint)
        if not head.http_version.startswith(b"1."):
            return await self._refuse(505)
        try:
            path, parameters = read_target(head.target)
        except ValueError:
            return await self._refuse(400)
        await self._reply(await self._answered(Request(self._method, path, parameters, _by_name(head), self.peer)))
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def _next_request(self) -> h11.Request | None:
        """The head of the next request; None when there is none, or not in time."""
        self._method = ""
        idle = not self._fresh and not self._http.trailing_data[0]
        settings = self._settings
        with trio.move_on_after(settings.idle_timeout_seconds if idle else settings.request_timeout_seconds) as limit:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                data = await self._stream.receive_some(RECEIVE_BYTES)
                if idle:
                    idle = False
                    limit.deadline = trio.current_time() + settings.request_timeout_seconds
                if self._fresh and data.startswith(b"AMQP"):
                    log.warning("closing HTTP connection %s: an AMQP client on an HTTP port", self.peer)
                    return None
                self._fresh = False
                self._http.receive_data(bytes(data))
        if limit.cancelled_caught:
            if self._http.trailing_data[0]:
                await self._refuse(408)
            return None
        if not isinstance(event, h11.Request):
            return None
        self._method = event.method.decode("ascii")
        return event

    async def _answered(self, request: Request) -> Answer:
        self.busy = True
        try:
            return await self._application(request)
        except Exception:
            log.exception("error in an answer to %s", self.peer)
            return INTERNAL
        finally:
            self.busy = False

    async def _refuse(self, status: int) -> bool:
        """Answer what is no request. False: behind it no next request can be found."""
        log.warning("closing HTTP connection %s: %d %s", self.peer, status, _reason(status))
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await self._reply(_REFUSALS.get(status, _REFUSALS[400]))
        return False

    # Answers

    async def _reply(self, answer: Answer) -> None:
        try:
            await trio.sleep(answer.delay)
            self.busy = self.admitted = answer.admitted
            log.debug("HTTP %s for %s: %d, %d bytes", self._method, self.peer, answer.status, len(answer.body))
            await self._send(self._head(answer), b"" if self._method == "HEAD" else answer.body)
        finally:
            self.busy = False
            answer.close()

    def _head(self, answer: Answer) -> bytes:
        headers = [("Date", formatdate(usegmt=True)), ("Server", "Leveret"), *answer.headers]
        if answer.status != 304:
            headers.append(("Content-Length", str(len(answer.body))))
        if self._http.their_state is not h11.DONE:  # the rest of the request will not be read
            headers.append(("Connection", "close"))
        reason = HTTPStatus(answer.status).phrase.encode()
        return self._http.send(h11.Response(status_code=answer.status, headers=headers, reason=reason)) or b""

    async def _send(self, head: bytes, body: bytes | FileSlice) -> None:
        if isinstance(body, FileSlice):
            await self._send_all(head)
            while chunk := await body.read():
                for piece in self._http.send_with_data_passthrough(h11.Data(chunk)) or ():
                    await self._send_all(piece)
            self._http.send(h11.EndOfMessage())
        else:
            content = (self._http.send(h11.Data(body)) or b"") if body else b""
            self._http.send(h11.EndOfMessage())
            await self._send_all(head + content)

    async def _send_all(self, data: bytes) -> None:
        with trio.fail_after(self._settings.send_timeout_seconds):
            await self._stream.send_all(data)

    async def _part(self) -> None:
        """Say that nothing more comes, and listen to the rest."""
        with trio.move_on_after(LINGER_SECONDS):
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
            left = LINGER_BYTES
            while left > 0 and (data := await self._stream.receive_some(RECEIVE_BYTES)):
                left -= len(data)
            await self._stream.aclose()


def _dispensable_first(waiting: Iterable[HttpConnection]) -> list[HttpConnection]:
    """The order in which they are closed: first without credentials, of those first with many from one address."""
    seen: Counter[str] = Counter()
    rank: dict[HttpConnection, int] = {}
    for each in sorted(waiting, key=attrgetter("since"), reverse=True):
        seen[each.peer.host] += 1
        rank[each] = seen[each.peer.host]
    return sorted(rank, key=lambda each: (each.admitted, -rank[each], each.since))


def _by_name(head: h11.Request) -> dict[bytes, bytes]:
    """Headers by name; several of one name are one with commas between (RFC 9110, 5.3)."""
    found: dict[bytes, bytes] = {}
    for name, value in head.headers:
        found[name] = found[name] + b", " + value if name in found else value
    return found


def _reason(status: int) -> str:
    return {
        400: "a request that is none",
        408: "a request that does not come to its end",
        413: "a request with a body",
        431: "a request that is too large",
    }.get(status, "a request that is not understood")
