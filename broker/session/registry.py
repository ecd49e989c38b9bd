"""All connections of a broker, and the state that they share."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from broker.entities.node.broker import Broker
from broker.session.channel import channel
from broker.session.channel.channel import NewConfirms
from broker.session.channel.held_methods import HeldMethods
from broker.session.channel.permissions import Access, Trusted
from broker.session.channel.route_cache import RouteCache
from broker.session.consumer_timeout import Overdue
from broker.session.login.login_throttle import LoginThrottle
from broker.session.session_settings import SessionSettings
from broker.wire.amqp_errors import ConnectionException
from broker.wire.constants import ReplyCode

if TYPE_CHECKING:
    from broker.entities.vhosts.vhost import VHost
    from broker.session.channel.channel import Channel
    from broker.session.connection import Connection


class Registry:
    """The open connections, shared route caches, login throttle and limits; `new_confirms` makes confirm ledgers."""

    def __init__(
        self, broker: Broker, settings: SessionSettings, new_confirms: NewConfirms = channel.new_confirms
    ) -> None:
        self.new_confirms = new_confirms
        self.broker = broker
        self.settings = settings
        self.connections: dict[Connection, None] = {}
        self.connection_numbers = count(1)
        self.handshaking: dict[Connection, Callable[[], None]] = {}
        """Connections before connection.open-ok, oldest first, each with the function that closes its socket."""
        self.reply_channels: dict[str, Channel] = {}
        self.login_throttle = LoginThrottle(settings.throttle)
        self.incomplete_bytes = 0
        """Bytes of incomplete messages and open transactions, of all connections."""
        self.held_methods = HeldMethods(broker.background_work)
        self._routes: dict[tuple[str, str], RouteCache] = {}
        self._overdue = Overdue(self)

    def add(self, connection: Connection) -> None:
        """Add a connection."""
        self.connections[connection] = None
        self._overdue.watch()

    def routes(self, user: str, vhost: str, *, trusted: bool = False) -> RouteCache:
        """Return the permissions and cached routes of a user in a virtual host, shared by all its connections.

        `trusted` connections share another cache, under the empty name, which no user has.
        """
        routes = self._routes.get(("" if trusted else user, vhost))
        if routes is None:
            access = Trusted if trusted else Access
            routes = RouteCache(access(self.broker.users, user, vhost, self.settings.personality))
        return routes

    def share_routes(self, user: str, vhost: str, *, trusted: bool = False) -> RouteCache:
        """Return the same cache for a connection that uses it until `leave_routes`."""
        routes = self._routes["" if trusted else user, vhost] = self.routes(user, vhost, trusted=trusted)
        routes.connections += 1
        return routes

    def leave_routes(self, routes: RouteCache) -> None:
        """Drop a cache with the last of the connections that share it."""
        routes.connection_ended()
        if not routes.connections:
            trusted = isinstance(routes.access, Trusted)
            del self._routes["" if trusted else routes.access.user, routes.access.vhost]

    @property
    def cluster_name(self) -> str:
        """The cluster name that an operator has set, or else that of the settings."""
        return self.broker.parameters.cluster_name or self.settings.cluster_name

    @property
    def network_connections(self) -> list[Connection]:
        """The connections with a socket, from accept on."""
        return [connection for connection in self.connections if not connection.direct]

    @property
    def held_bytes(self) -> int:
        """Bytes of methods held on all connections: above all publishes that wait for the end of an alarm."""
        return sum(map(_held_bytes, self.connections))

    def count_connections(self, *, user: str | None = None, vhost: str | None = None) -> int:
        """Return the number of open connections of a user, or in a virtual host."""
        return sum(
            bool(connection.vhost_name) and user in (None, connection.user) and vhost in (None, connection.vhost_name)
            for connection in self.connections
        )

    def count_channels(self, user: str) -> int:
        """Return the number of open channels of a user, over all its connections."""
        channels = (connection.channels.values() for connection in self.connections if connection.user == user)
        return sum(not channel.closing for of_one in channels for channel in of_one)

    def check(self) -> None:
        """Raise AssertionError unless all open connections and their cached routes are sound, between two turns."""
        caches: dict[RouteCache, VHost] = {}
        for connection in self.connections:
            connection.check()
            if connection.vhost_name:
                caches[connection.routes] = connection.vhost
        for routes, vhost in caches.items():
            routes.check(vhost)
        incomplete = sum(connection.incomplete_bytes for connection in self.connections)
        assert incomplete <= self.incomplete_bytes, (
            f"{self.incomplete_bytes} bytes of incomplete messages are counted, connections have {incomplete}"
        )

    def shed_load(self) -> None:
        """Close the connection with the most bytes of incomplete messages, because all together exceed the limit."""
        largest = max(self.connections, key=attrgetter("incomplete_bytes"), default=None)
        if largest is not None:
            held, limit = self.incomplete_bytes, self.settings.incomplete_bytes_max
            text = f"incomplete messages hold {held} bytes; the limit is {limit} (limits.incomplete_bytes_max)"
            largest.fail(ConnectionException(ReplyCode.RESOURCE_ERROR, text))

    def close_connections(self, text: str, *, user: str | None = None, vhost: str | None = None) -> None:
        """Close connections with 320 CONNECTION_FORCED: all, or those of a user or in a virtual host."""
        for connection in list(self.connections):
            if user in (None, connection.user) and vhost in (None, connection.vhost_name):
                connection.force_close(text)


_held_bytes: Final = attrgetter("held_bytes")
