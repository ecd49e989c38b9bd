"""RabbitMQ's feature flags: what is named there is always on here, so all of them are enabled."""

from __future__ import annotations

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.protocol import not_found
from broker.admin.views.listing import Row, View, cells

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


def enable_feature_flag(administration: Administration, arguments: Arguments) -> None:
    """Nothing is to be done. Raises AdministrationError `not_found` for a flag that there is not."""
    name = arguments.text("name")
    if name != "all" and name not in {flag["name"] for flag in FLAGS}:
        raise not_found(f"there is no feature flag '{name}'")


FEATURE_FLAGS = View(lambda administration, arguments: iter(FLAGS), cells(*FLAGS[0]))
