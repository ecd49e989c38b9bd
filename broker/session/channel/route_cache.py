"""The route cache: the queues of publishes, by the bytes of their arguments.

A client publishes with the same arguments again and again. Their undecoded bytes are the key of a `CachedRoute`: the
parsed arguments, the exchange and, if the routing key alone decides, the queues.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from broker.wire.amqp_errors import ChannelException, ConnectionException
from broker.wire.constants import ReplyCode
from broker.wire.frames import cannot_decode
from broker.wire.methods import BasicPublish

if TYPE_CHECKING:
    from broker.entities.exchanges.exchange import Exchange
    from broker.entities.queues.queue import Queue
    from broker.entities.vhosts.vhost import VHost
    from broker.session.channel.permissions import Access

ROUTES_MIN: Final = 128
"""With fewer routes the cache is not searched for stale ones."""
ROUTES_MAX: Final = 16_384
ROUTES_BYTES_MAX: Final = 16 << 20
"""Limit for all connections of a user to a virtual host together; 10,000 keys of 16 bytes take 6 MiB."""
ROUTES_KEPT: Final = 1024
"""If a cache has more routes when a connection ends, all are dropped: which ones that connection used is unknown."""
ROUTE_BYTES: Final = 512
"""Memory of a route without its arguments."""

_BASIC_PUBLISH: Final = BasicPublish.KEY.to_bytes(4, "big")
_MANDATORY: Final = 1
_IMMEDIATE: Final = 2


class CachedRoute:
    """The parsed arguments of equal publishes, their exchange and their queues.

    `route` is exchange and routing key as bytes. `queues` is None if each message has to be routed by itself (then
    `routed` is set), or the queue looked up by name. Valid until the exchange's version or the cache epoch changes.
    """

    __slots__ = (
        "cache_epoch",
        "exchange",
        "key",
        "mandatory",
        "name",
        "queues",
        "route",
        "routed",
        "version",
    )

    def __init__(self, name: str, key: str, *, mandatory: bool, route: bytes) -> None:
        self.name = name
        self.key = key
        self.mandatory = mandatory
        self.route = route
        self.exchange: Exchange | None = None
        self.version = -1
        self.cache_epoch = -1
        self.routed = bool(name)
        self.queues: tuple[Queue, ...] | None = None

    @property
    def size(self) -> int:
        """Approximate memory: the arguments are there as the key, as bytes and as text."""
        return ROUTE_BYTES + 3 * len(self.route)

    def is_stale(self, cache_epoch: int) -> bool:
        """Return whether it has to be resolved again: exchange, queues or permissions may have changed."""
        return self.exchange is None or self.exchange.version != self.version or self.cache_epoch != cache_epoch


class RouteCache:
    """The routes of one user in one virtual host, shared by all connections of that user to it."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.connections = 0
        self.by_arguments: dict[bytes, CachedRoute] = {}
        """Cached routes by the undecoded arguments of basic.publish."""
        self._due = ROUTES_MIN
        """Number of routes at which stale ones are dropped."""
        self._bytes = 0
        self._writable: Exchange | None = None
        """The exchange resolved last: the user may publish to it until its version or the cache epoch changes."""
        self._version = self._cache_epoch = 0

    def parse(self, arguments: bytes) -> CachedRoute:
        """Parse new arguments into a route that is not resolved yet. Raises ConnectionException for invalid ones.

        Reads as `decode_basic_publish` does, but makes no method object: every publish may have a key of its own.
        """
        try:
            name_end = 3 + arguments[2]
            key_end = name_end + 1 + arguments[name_end]
            bits = arguments[key_end]
        except IndexError:
            raise cannot_decode(_BASIC_PUBLISH + arguments) from None
        if len(arguments) != key_end + 1:
            raise cannot_decode(_BASIC_PUBLISH + arguments)
        if bits & _IMMEDIATE:
            raise ConnectionException(ReplyCode.NOT_IMPLEMENTED, "immediate=true")
        name = arguments[3:name_end].decode("utf-8", "surrogateescape")
        key = arguments[name_end + 1 : key_end].decode("utf-8", "surrogateescape")
        route = CachedRoute(name, key, mandatory=bits & _MANDATORY != 0, route=arguments[2:key_end])
        self._remember(arguments, route)
        return route

    def resolve(self, route: CachedRoute, vhost: VHost) -> None:
        """Find exchange and queues of a route.

        Raises ChannelException 403 if the user may not publish to the exchange or with the key, 404 if there is no such
        exchange.
        """
        exchange = self._find(route.name, vhost)
        self.access.topic(exchange, "write", route.key)
        route.queues = _lasting_queues(route, exchange, vhost)
        route.routed = bool(route.name) or vhost.traced
        route.exchange, route.version, route.cache_epoch = exchange, self._version, self._cache_epoch

    def _find(self, name: str, vhost: VHost) -> Exchange:
        """Return the exchange. Raises ChannelException 403 if the user may not publish to it, 404 if there is none."""
        epoch, exchange = self.access.cache_epoch.number, self._writable
        if (
            exchange is not None
            and exchange.name == name
            and exchange.version == self._version
            and epoch == self._cache_epoch
        ):
            return exchange
        self.access.write_exchange(name)
        exchange = vhost.exchange(name)
        if exchange.internal:
            where = f"internal exchange '{name}' in vhost '{vhost.name}'"
            raise ChannelException(ReplyCode.ACCESS_REFUSED, f"cannot publish to {where}")
        self._writable, self._version, self._cache_epoch = exchange, exchange.version, epoch
        return exchange

    def check(self, vhost: VHost) -> None:
        """Raise AssertionError unless every route that is not stale has the queues that a fresh one would have."""
        assert len(self.by_arguments) <= max(self._due, ROUTES_MIN), "stale routes should have been dropped"
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

        A stale route may be the last reference to a deleted queue or exchange. So stale ones are dropped whenever the
        number of routes has doubled: deleted entities take no more memory than existing ones, at O(1) per publish.
        """
        if len(self.by_arguments) >= self._due or self._bytes >= ROUTES_BYTES_MAX:
            self._forget()
        self.by_arguments[arguments] = route
        self._bytes += route.size

    def connection_ended(self) -> None:
        """Drop all routes if they are many and a connection has ended; the other connections look theirs up again."""
        self.connections -= 1
        if len(self.by_arguments) > ROUTES_KEPT:
            self.by_arguments = {}
            self._due, self._bytes = ROUTES_MIN, 0

    def _forget(self) -> None:
        """Drop the stale routes, or the older half, stale or not, if the cache is at its limits."""
        routes = self.by_arguments
        if len(routes) >= ROUTES_MAX or self._bytes >= ROUTES_BYTES_MAX:
            for arguments in list(islice(routes, len(routes) // 2)):
                self._bytes -= routes.pop(arguments).size
            return
        now = self.access.cache_epoch.number
        for arguments in [arguments for arguments, route in routes.items() if route.is_stale(now)]:
            self._bytes -= routes.pop(arguments).size
        self._due = min(ROUTES_MAX, max(ROUTES_MIN, 2 * len(routes)))


def _lasting_queues(route: CachedRoute, exchange: Exchange, vhost: VHost) -> tuple[Queue, ...] | None:
    """Return the queues that every message with these arguments reaches; None if they are not the same each time.

    None for the default exchange, whose queues come and go by name, if headers or chance decide, and while the
    firehose is on.
    """
    return vhost.routing.lasting_queues(exchange, route.key) if route.name and not vhost.traced else None
