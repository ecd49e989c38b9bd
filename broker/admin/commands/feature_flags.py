"""RabbitMQ's feature flags, of which all are enabled: what they switch is always on here; and deprecated features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from broker.admin.commands.admin_command import LongQuestion, Question, RowList, Text
from broker.admin.protocol import not_found

if TYPE_CHECKING:
    from broker.admin.administration import Administration
    from broker.entities.arguments.personality import Series

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


_OWN = {flag["name"]: flag["desc"] for flag in FLAGS}
_SOFT, _HARD, _NONE = "soft", "hard", "none"
_OF_4_3 = (
    ("classic_mirrored_queue_version", _HARD, (), "rabbit", ""),
    ("classic_queue_type_delivery_support", _HARD, (), "rabbit", ""),
    ("detailed_queues_endpoint", _SOFT, (), "rabbitmq_management", "GET /api/queues/detailed"),
    ("direct_exchange_routing_v2", _HARD, (), "rabbit", ""),
    ("drop_unroutable_metric", _HARD, (), "rabbitmq_management_agent", ""),
    ("empty_basic_get_metric", _HARD, (), "rabbitmq_management_agent", ""),
    ("feature_flags_v2", _HARD, (), "rabbit", ""),
    ("implicit_default_bindings", _HARD, (), "rabbit", ""),
    ("khepri_db", _SOFT, ("enable", "post_enable"), "rabbit", "Definitions are kept in a log; here in SQLite"),
    ("listener_records_in_ets", _HARD, (), "rabbit", "Listeners are kept in memory"),
    ("maintenance_mode_status", _HARD, (), "rabbit", ""),
    ("message_containers", _HARD, (), "rabbit", "Messages keep the form of their protocol"),
    ("message_containers_deaths_v2", _SOFT, (), "rabbit", "Circles of dead letters are found"),
    ("quorum_queue", _HARD, (), "rabbit", ""),
    ("quorum_queue_non_voters", _SOFT, (), "rabbit", "New members of quorum queues may not vote; there is one member"),
    ("rabbit_exchange_type_local_random", _SOFT, (), "rabbit", "Exchanges of type x-local-random"),
    ("rabbitmq_4.0.0", _SOFT, (), "rabbit", "Upgrades from 3.13 to 4.0"),
    ("rabbitmq_4.1.0", _SOFT, (), "rabbit", "Upgrades to 4.1"),
    ("rabbitmq_4.2.0", _SOFT, ("enable",), "rabbit", "Upgrades to 4.2"),
    ("rabbitmq_4.3.0", _NONE, (), "rabbit", "Upgrades to 4.3"),
    ("restart_streams", _HARD, (), "rabbit", "Streams may be restarted"),
    ("stream_filtering", _HARD, (), "rabbit", ""),
    ("stream_queue", _HARD, (), "rabbit", ""),
    ("stream_sac_coordinator_unblock_group", _HARD, (), "rabbit", "Groups of stream consumers are unblocked"),
    ("stream_single_active_consumer", _HARD, (), "rabbit", "Streams may have a single active consumer"),
    ("stream_update_config_command", _HARD, (), "rabbit", "Policies change streams that exist"),
    ("tie_binding_to_dest_with_keep_while_cond", _NONE, ("enable",), "rabbit", "Bindings end with their destination"),
    ("topic_binding_projection_v4", _NONE, ("enable", "post_enable"), "rabbit", "Topic bindings are indexed"),
    ("topic_binding_projection_v5", _NONE, ("enable", "post_enable"), "rabbit", "Topic bindings are indexed"),
    ("track_qq_members_uids", _NONE, (), "rabbit", "Members of quorum queues are known by identifiers; there is one"),
    ("tracking_records_in_ets", _HARD, (), "rabbit", "Connections and channels are counted in memory"),
    ("user_limits", _HARD, (), "rabbit", ""),
    ("virtual_host_metadata", _HARD, (), "rabbit", ""),
)
"""Name, level at which RabbitMQ 4.3 requires it, callbacks, origin, and what it means here, if 3.13 has it not."""
FLAGS_OF_4: list[Row] = [
    {
        "name": name,
        "desc": what or _OWN[name],
        "doc_url": "",
        "state": "enabled",
        "stability": "stable" if level == _NONE else "required",
        "require_level": level,
        "experiment_level": "supported",
        "callbacks": list(callbacks),
        "provided_by": origin,
    }
    for name, level, callbacks, origin, what in _OF_4_3
]


def flags(series: Series) -> list[Row]:
    """Return the feature flags of a series of RabbitMQ; 4.2's are 4.3's."""
    return FLAGS_OF_4 if series >= (4, 0) else FLAGS


class ListFeatureFlags(RowList):
    """List the feature flags."""

    row_columns: ClassVar[tuple[str, ...]] = tuple(FLAGS[0])

    def rows(self, administration: Administration) -> list[Row]:
        return flags(administration.broker.personality.series)


class EnableFeatureFlag(Question):
    """Do nothing: all flags are enabled. Raises AdministrationError `not_found` for an unknown one."""

    name: Text

    def answer(self, administration: Administration) -> None:
        known = {flag["name"] for flag in flags(administration.broker.personality.series)}
        if self.name != "all" and self.name not in known:
            raise not_found(f"there is no feature flag '{self.name}'")


class ListDeprecatedFeatures(LongQuestion):
    """List deprecated features; with `used`, those in use."""

    used: bool = False

    async def answer(self, administration: Administration) -> list[Row]:
        from broker.admin.node.deprecated_feature_list import deprecated_features, deprecated_features_in_use

        if self.used:
            return await deprecated_features_in_use(administration.broker, administration.registry)
        return deprecated_features(administration.broker.personality)
