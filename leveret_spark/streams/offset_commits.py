"""Committed offsets of a query, stored at the broker under a group, so that its lag is seen there.

Spark's checkpoint alone says where a query goes on; what the broker has is for those who watch it. Leveret takes such
offsets by its management API. RabbitMQ stores them for clients of its stream protocol, and for no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from leveret_spark.amqp.broker_api import ManagementApi, management_of
from leveret_spark.option_errors import HttpError, OptionError
from leveret_spark.options import Broker, Given

GROUP_BYTES_MAX = 255
NOT_FOUND, NOT_ALLOWED = 404, 405


@dataclass
class OffsetCommits:
    """Stores the offsets of a group where they have changed."""

    api: ManagementApi
    group: str
    stored: Mapping[str, int]

    def store(self, offsets: Mapping[str, int]) -> None:
        """Store the offsets up to which all is committed, on the broker's disk when this returns.

        Raises OptionError at a broker that takes none, HttpError when it is away for too long, or refuses.
        """
        changed = {stream: offset for stream, offset in offsets.items() if self.stored.get(stream) != offset}
        if not changed:
            return
        vhost, group = quote(self.api.vhost, safe=""), quote(self.group, safe="")
        try:
            self.api.put(f"/api/leveret/stream-offsets/{vhost}/{group}", {"offsets": changed})
        except HttpError as error:
            if error.status in (NOT_FOUND, NOT_ALLOWED):
                raise OptionError(
                    f"option groupId: the broker at {self.api} stores no offsets of AMQP 0-9-1 clients, RabbitMQ"
                    " does so for its stream protocol alone; without groupId they are in Spark's checkpoint"
                ) from None
            raise
        self.stored = dict(offsets)


def commits_of(given: Given, broker: Broker) -> OffsetCommits | None:
    """Read the option groupId. Raises OptionError."""
    group = given.text("groupId")
    if group is None:
        return None
    if not 0 < len(group.encode(errors="surrogatepass")) <= GROUP_BYTES_MAX:
        raise OptionError(f"option groupId is a name of 1 to {GROUP_BYTES_MAX} bytes")
    return OffsetCommits(management_of(given, broker), group, {})
