"""RabbitMQ's feature flags, of which all are enabled: what they switch is always on here; and deprecated features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from broker.admin.commands.admin_command import LongQuestion, Question, RowList, Text
from broker.admin.protocol import not_found

if TYPE_CHECKING:
    from broker.admin.administration import Administration

Row = dict[str, Any]

_DOCUMENTATION = "https://www.rabbitmq.com/docs/"


def _flag(name: str, description: str, provided_by: str = "rabbit", page: str = "") -> Row:
    """A row as RabbitMQ lists it."""
    return {
        "name": name,
        "state": "enabled",
        "stability": "required",
        "provided_by": provided_by,
        "desc": description,
        "doc_url": _DOCUMENTATION + page if page else "",
    }


FLAGS: list[Row] = [
    _flag("classic_mirrored_queue_version", "Mirrored queues have versions; there are no mirrored queues here"),
    _flag("classic_queue_type_delivery_support", "Classic queues deliver as queues of the other types do"),
    _flag("direct_exchange_routing_v2", "Direct exchanges find queues by routing key at once"),
    _flag("drop_unroutable_metric", "Unroutable messages that are dropped are counted", "rabbitmq_management_agent"),
    _flag("empty_basic_get_metric", "Every basic.get of an empty queue is counted", "rabbitmq_management_agent"),
    _flag("feature_flags_v2", "Feature flags are all enabled"),
    _flag("implicit_default_bindings", "Bindings to the default exchange are not stored"),
    _flag("maintenance_mode_status", "Nodes have a maintenance status"),
    _flag("quorum_queue", "Queues of type quorum", page="quorum-queues"),
    _flag("stream_filtering", "Filters of streams", page="streams#filtering"),
    _flag("stream_queue", "Queues of type stream", page="streams"),
    _flag("user_limits", "Users have limits of connections and channels"),
    _flag("virtual_host_metadata", "Virtual hosts have a description and tags"),
]
"""Those of RabbitMQ 3.10, and those up to 3.13 whose meaning holds here; 3.13 has made most of them `required`."""


class ListFeatureFlags(RowList):
    """List the feature flags."""

    row_columns: ClassVar[tuple[str, ...]] = tuple(FLAGS[0])

    def rows(self, administration: Administration) -> list[Row]:
        return FLAGS


class EnableFeatureFlag(Question):
    """Do nothing: all flags are enabled. Raises AdministrationError `not_found` for an unknown one."""

    name: Text

    def answer(self, administration: Administration) -> None:
        if self.name != "all" and self.name not in {flag["name"] for flag in FLAGS}:
            raise not_found(f"there is no feature flag '{self.name}'")


class ListDeprecatedFeatures(LongQuestion):
    """List deprecated features; with `used`, those in use."""

    used: bool = False

    async def answer(self, administration: Administration) -> list[Row]:
        from broker.admin.node.deprecated_feature_list import deprecated_features, deprecated_features_in_use

        if self.used:
            return await deprecated_features_in_use(administration.broker, administration.registry)
        return deprecated_features(administration.broker.personality)
