"""What all connections of a broker share."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from broker.entities.node.broker import Broker
from broker.session.channel import channel
from broker.session.channel.channel import NewConfirms
from broker.session.channel.going_on import GoingOn
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
    """The connections that are open, and the answers that hold for all of them.

    `new_confirms` makes the ledgers of channels in confirm mode.
    """

    def __init__(
        self, broker: Broker, settings: SessionSettings, new_confirms: NewConfirms = channel.new_confirms
    ) -> None:
        self.new_confirms = new_confirms
        self.broker = broker
        self.settings = settings
        self.connections: dict[Connection, None] = {}
        self.connection_numbers = count(1)
        self.handshaking: dict[Connection, Callable[[], None]] = {}
        """Connections that are not through the handshake, oldest first, and what drops each."""
        self.reply_channels: dict[str, Channel] = {}
        self.login_throttle = LoginThrottle(settings.throttle)
        self.incomplete_bytes = 0
        """Bytes that all connections together have sent of messages that are not whole, or not committed."""
        self.going_on = GoingOn(broker.background_work)
        self._routes: dict[tuple[str, str], RouteCache] = {}
        self._overdue = Overdue(self)

    def add(self, connection: Connection) -> None:
        """There is one more connection."""
        self.connections[connection] = None
        self._overdue.watch()

    def routes(self, user: str, vhost: str, *, trusted: bool = False) -> RouteCache:
        """The permissions of a user in a virtual host, and where its publishes go: shared by all its connections.

        Those that are `trusted` have one of their own: no user has an empty name.
        """
        routes = self._routes.get(("" if trusted else user, vhost))
        if routes is None:
            access = Trusted if trusted else Access
            named = self.settings.personality.named_actions
            routes = RouteCache(access(self.broker.users, user, vhost, named_actions=named))
        return routes

    def share_routes(self, user: str, vhost: str, *, trusted: bool = False) -> RouteCache:
        """The same for one more connection, until it leaves them."""
        routes = self._routes["" if trusted else user, vhost] = self.routes(user, vhost, trusted=trusted)
        routes.connections += 1
        return routes

    def leave_routes(self, routes: RouteCache) -> None:
        """One of the connections that share them has ended."""
        routes.connection_ended()
        if not routes.connections:
            trusted = isinstance(routes.access, Trusted)
            del self._routes["" if trusted else routes.access.user, routes.access.vhost]

    @property
    def cluster_name(self) -> str:
        """What the broker is called: by its operator, or else by its settings."""
        return self.broker.parameters.cluster_name or self.settings.cluster_name

    @property
    def network_connections(self) -> list[Connection]:
        """The connections of clients, from the moment their sockets are accepted."""
        return [connection for connection in self.connections if not connection.direct]

    @property
    def held_bytes(self) -> int:
        """What all connections together have sent that waits: above all publishes, for the end of an alarm."""
        return sum(map(_held_bytes, self.connections))

    def count_connections(self, *, user: str | None = None, vhost: str | None = None) -> int:
        """How many connections of a user, or in a virtual host, are open."""
        return sum(
            bool(connection.vhost_name) and user in (None, connection.user) and vhost in (None, connection.vhost_name)
            for connection in self.connections
        )

    def count_channels(self, user: str) -> int:
        """How many channels a user has open, over all its connections."""
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
        """Close the connection with the most bytes of incomplete messages: together they exceed the limit."""
        largest = max(self.connections, key=attrgetter("incomplete_bytes"), default=None)
        if largest is not None:
            held, limit = self.incomplete_bytes, self.settings.incomplete_bytes_max
            text = f"incomplete messages hold {held} bytes; the limit is {limit} (limits.incomplete_bytes_max)"
            largest.fail(ConnectionException(ReplyCode.RESOURCE_ERROR, text))

    def close_connections(self, text: str, *, user: str | None = None, vhost: str | None = None) -> None:
        """Send connections away with 320 and a reason: all of them, or those of a user or a virtual host."""
        for connection in list(self.connections):
            if user in (None, connection.user) and vhost in (None, connection.vhost_name):
                connection.force_close(text)


_held_bytes: Final = attrgetter("held_bytes")
