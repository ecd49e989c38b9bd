"""Where publishes go, remembered by their arguments.

A client publishes with the same arguments again and again. Their bytes, undecoded, are the key to a `CachedRoute`: the
parsed arguments, the exchange and - unless each message has a say - the queues. Of the properties only what the broker
must know is kept, for the list of them that came last; the rest stays bytes.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from broker.wire.amqp_errors import ChannelException, ConnectionException, DecodeError
from broker.wire.constants import ReplyCode
from broker.wire.frames import cannot_decode
from broker.wire.methods import BasicPublish, decode_basic_publish
from broker.wire.properties import PropertySummary, summarize

if TYPE_CHECKING:
    from broker.entities.exchanges.exchange import Exchange
    from broker.entities.queues.queue import Queue
    from broker.entities.vhosts.vhost import VHost
    from broker.session.channel.permissions import Access

ROUTES_MIN: Final = 128
"""With fewer routes those to deleted queues are not looked for."""
ROUTES_MAX: Final = 16_384
ROUTES_BYTES_MAX: Final = 16 << 20
"""For all connections of a user to a virtual host together: 10,000 keys with headers of 300 bytes take 9 MiB."""
ROUTES_KEPT: Final = 1024
"""When a connection ends that has shared more than these, all are dropped: which were its own is not recorded."""
ROUTE_BYTES: Final = 512
"""What a route takes beside what it holds of the publishes."""
HEADER_BYTES_MAX: Final = 1024
"""Longer content headers are not remembered with a route."""

_BASIC_PUBLISH: Final = BasicPublish.KEY.to_bytes(4, "big")


class HeldBytes:
    """How many bytes the routes of one cache hold, roughly."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class CachedRoute:
    """Where publishes with the same arguments go: the parsed arguments, and the queues while they last.

    `route` is exchange and routing key as the publisher wrote them. `summary` is what the last publish's `header` said,
    None when that was too long to be kept. `queues` is None when each message has to be routed by itself or, unless it
    is `routed`, looked up by name. The rest holds as long as neither the exchange's version nor the permissions' cache
    epoch has changed.
    """

    __slots__ = (
        "cache_epoch",
        "exchange",
        "header",
        "held",
        "key",
        "mandatory",
        "name",
        "queues",
        "route",
        "routed",
        "summary",
        "version",
    )

    def __init__(self, name: str, key: str, *, mandatory: bool, route: bytes, held: HeldBytes) -> None:
        self.held = held
        self.name = name
        self.key = key
        self.mandatory = mandatory
        self.route = route
        self.exchange: Exchange | None = None
        self.version = -1
        self.cache_epoch = -1
        self.routed = bool(name)
        self.queues: tuple[Queue, ...] | None = None
        self.header = b""
        self.summary: PropertySummary | None = None

    @property
    def size(self) -> int:
        """Bytes that it holds, roughly: arguments are there as the key, as bytes and as text."""
        return ROUTE_BYTES + 3 * len(self.route) + len(self.header)

    def is_stale(self, cache_epoch: int) -> bool:
        """It has to be resolved anew: what it names may be gone."""
        return self.exchange is None or self.exchange.version != self.version or self.cache_epoch != cache_epoch

    def summarize(self, header: bytes) -> PropertySummary:
        """What a content header says; remembered for the next publish unless the header is long.

        Raises ConnectionException when the header is broken.
        """
        try:
            summary = summarize(header)
        except DecodeError as error:
            raise ConnectionException(ReplyCode.INTERNAL_ERROR, "") from error
        short, before = len(header) <= HEADER_BYTES_MAX, len(self.header)
        self.header, self.summary = (header, summary) if short else (b"", None)
        self.held.bytes += len(self.header) - before
        return summary


class RouteCache:
    """The routes of one user in one virtual host, shared by all connections of that user to it."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.connections = 0
        self.by_arguments: dict[bytes, CachedRoute] = {}
        """Arguments of basic.publish, as they came, and what they lead to."""
        self._due = ROUTES_MIN
        self._held = HeldBytes()

    def parse(self, arguments: bytes) -> CachedRoute:
        """Take arguments that are new in, not resolved yet. Raises ConnectionException for what is refused of them."""
        try:
            method = decode_basic_publish(_BASIC_PUBLISH + arguments)
        except DecodeError:
            raise cannot_decode(_BASIC_PUBLISH + arguments) from None
        if method.immediate:
            raise ConnectionException(ReplyCode.NOT_IMPLEMENTED, "immediate=true")
        route = CachedRoute(
            method.exchange, method.routing_key, mandatory=method.mandatory, route=arguments[2:-1], held=self._held
        )
        self._remember(arguments, route)
        return route

    def resolve(self, route: CachedRoute, vhost: VHost) -> None:
        """Find out anew where a route leads.

        Raises ChannelException 403 where the user may not publish like this, 404 where there is no such exchange.
        """
        access = self.access
        access.write_exchange(route.name)
        exchange = vhost.exchange(route.name)
        if exchange.internal:
            where = f"internal exchange '{route.name}' in vhost '{vhost.name}'"
            raise ChannelException(ReplyCode.ACCESS_REFUSED, f"cannot publish to {where}")
        access.topic(exchange, "write", route.key)
        route.queues = _lasting_queues(route, exchange, vhost)
        route.routed = bool(route.name) or vhost.traced
        route.exchange, route.version, route.cache_epoch = exchange, exchange.version, access.cache_epoch.number

    def check(self, vhost: VHost) -> None:
        """Raise AssertionError unless every route that is not stale leads where a fresh one would."""
        assert len(self.by_arguments) <= max(self._due, ROUTES_MIN), "stale routes are overdue to be let go"
        now = self.access.cache_epoch.number
        for route in self.by_arguments.values():
            if route.exchange is None or route.is_stale(now):
                continue
            where = f"the route from exchange '{route.name}' with key '{route.key}'"
            assert vhost.exchanges.get(route.name) is route.exchange, f"{where} has an exchange that is gone"
            fresh = _lasting_queues(route, route.exchange, vhost)
            assert route.queues == fresh, f"{where} leads to {route.queues}, not to {fresh}"
            assert route.routed == (bool(route.name) or vhost.traced), f"{where}: traced or not?"

    def _remember(self, arguments: bytes, route: CachedRoute) -> None:
        """Keep a route for further publishes with these arguments.

        A stale one may be all that still holds a deleted queue or exchange. So whenever their number has doubled, the
        stale ones are let go: what is gone takes no more memory than what is there, and each publish pays a little.
        """
        if len(self.by_arguments) >= self._due or self._held.bytes >= ROUTES_BYTES_MAX:
            self._forget_stale()
        self.by_arguments[arguments] = route
        self._held.bytes += route.size

    def connection_ended(self) -> None:
        """Give back what the routes of a connection take that has ended. Others look theirs up again."""
        self.connections -= 1
        if len(self.by_arguments) > ROUTES_KEPT:
            self.by_arguments = {}
            self._due, self._held = ROUTES_MIN, HeldBytes()

    def _forget_stale(self) -> None:
        now = self.access.cache_epoch.number
        kept = {arguments: route for arguments, route in self.by_arguments.items() if not route.is_stale(now)}
        if len(kept) < len(self.by_arguments):
            self._held.bytes = sum(route.size for route in kept.values())
        if len(kept) >= ROUTES_MAX or self._held.bytes > 3 * ROUTES_BYTES_MAX // 4:
            for arguments in list(islice(kept, len(kept) // 2)):  # the older half
                self._held.bytes -= kept.pop(arguments).size
        self.by_arguments = kept
        self._due = min(ROUTES_MAX, max(ROUTES_MIN, 2 * len(kept)))


def _lasting_queues(route: CachedRoute, exchange: Exchange, vhost: VHost) -> tuple[Queue, ...] | None:
    """The queues that every message with these arguments reaches; None where that has to be asked each time.

    That is so with the default exchange, whose queues come and go by name, where headers or chance decide, and while
    the firehose is on.
    """
    if not route.name:
        return None
    routes = vhost.route(exchange, (route.key,), {})
    return routes.queues if routes.lasting and not vhost.traced else None
