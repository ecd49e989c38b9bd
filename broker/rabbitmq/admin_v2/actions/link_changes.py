"""Shovels and federation upstreams declared; verification of certificates turned on and off in their URIs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from broker.rabbitmq.admin_v2.actions.bulk_outcome import BulkOutcome
from broker.rabbitmq.admin_v2.command_call import CommandCall
from broker.rabbitmq.admin_v2.run_settings import WRONG_LINE, Failure

SHOVEL, UPSTREAM = "shovel", "federation-upstream"
FILES = {
    "cacertfile": "node_local_ca_certificate_bundle_path",
    "certfile": "node_local_client_certificate_file_path",
    "keyfile": "node_local_client_private_key_file_path",
}
"""Parameters of a URI, and the arguments that name their files."""
UPSTREAM_KEYS = {
    "uri": "uri",
    "prefetch-count": "prefetch_count",
    "trust-user-id": "trust_user_id",
    "reconnect-delay": "reconnect_delay",
    "ack-mode": "ack_mode",
    "bind-nowait": "bind_using_nowait",
    "channel-use-mode": "channel_use_mode",
    "queue": "queue_name",
    "consumer-tag": "consumer_tag",
    "queue-type": "queue_type",
    "resource-cleanup-mode": "resource_cleanup_mode",
    "exchange": "exchange_name",
    "max-hops": "max_hops",
    "expires": "ttl",
    "message-ttl": "message_ttl",
}
"""Keys of an upstream, and the arguments that they are from."""


def _declare_shovel(call: CommandCall) -> None:
    values = call.values
    for side in ("source", "destination"):
        if values[f"{side}_queue"] is None and values[f"{side}_exchange"] is None:
            raise Failure(f"either --{side}-queue or --{side}-exchange must be provided", WRONG_LINE)
    value = {
        **_side(call, "source", "src"),
        **_side(call, "destination", "dest"),
        "ack-mode": values["ack_mode"],
        "reconnect-delay": values["reconnect_delay"],
    }
    properties = call.json("publish_properties")
    _put(call, SHOVEL, {**value, **({"dest-publish-properties": properties} if properties else {})})


def _side(call: CommandCall, side: str, prefix: str) -> dict[str, Any]:
    values = call.values
    found = {f"{prefix}-uri": values[f"{side}_uri"], f"{prefix}-protocol": "amqp091"}
    for key, name in (("queue", "queue"), ("exchange", "exchange"), ("exchange_routing_key", "exchange-key")):
        if values[f"{side}_{key}"] is not None:
            found[f"{prefix}-{name}"] = values[f"{side}_{key}"]
    return {**found, **({f"{prefix}-predeclared": True} if values[f"predeclared_{side}"] else {})}


def _declare_amqp10_shovel(call: CommandCall) -> None:
    values = call.values
    _put(
        call,
        SHOVEL,
        {
            "src-uri": values["source_uri"],
            "src-protocol": "amqp10",
            "src-address": values["source_address"],
            "dest-uri": values["destination_uri"],
            "dest-protocol": "amqp10",
            "dest-address": values["destination_address"],
            "ack-mode": values["ack_mode"],
            "reconnect-delay": values["reconnect_delay"],
        },
    )


def _declare_upstream(call: CommandCall) -> None:
    said = {key: call.values.get(name) for key, name in UPSTREAM_KEYS.items()}
    _put(call, UPSTREAM, {key: value for key, value in said.items() if value is not None})


def _put(call: CommandCall, component: str, value: dict[str, Any]) -> None:
    call.ask("PUT", call.path("parameters/{component}/{vhost}/{name}", component=component), {"value": value})


def _change_uris(component: str, key: str, *, verified: bool) -> Callable[[CommandCall], None]:
    def change(call: CommandCall) -> None:
        files = {name: call.values[argument] for name, argument in FILES.items()} if verified else {}
        wanted = {"verify": "verify_peer" if verified else "verify_none", **files}
        rows = call.list(f"parameters/{component}")
        outcome = BulkOutcome(call, len(rows))
        for row in rows:
            uris = row["value"].get(key)
            if not uris:
                continue
            changed = [_with(uri, wanted) for uri in uris] if isinstance(uris, list) else _with(uris, wanted)
            path = call.path("parameters/{component}/{vhost}/{name}", component=component, **_place(row))
            call.ask("PUT", path, {"value": {**row["value"], key: changed}})
        outcome.finish()

    return change


def _place(row: dict[str, Any]) -> dict[str, str]:
    return {"vhost": row["vhost"], "name": row["name"]}


def _with(uri: str, wanted: dict[str, str]) -> str:
    """A URI with these parameters. They are not quoted: RabbitMQ takes file names as they are."""
    parts = urlsplit(uri)
    pairs = (pair.partition("=") for pair in parts.query.split("&") if pair)
    query = {**{unquote(name): unquote(value) for name, _, value in pairs}, **wanted}
    changed = urlunsplit(parts._replace(query="&".join(f"{name}={value}" for name, value in query.items())))
    # The empty host of amqp:// is lost on the way.
    empty = f"{parts.scheme}://"
    return (
        changed.replace(f"{parts.scheme}:", empty, 1) if not parts.netloc and not changed.startswith(empty) else changed
    )


LINKS: dict[str, Callable[[CommandCall], None]] = {
    "shovels declare_amqp091": _declare_shovel,
    "shovels declare_amqp10": _declare_amqp10_shovel,
    "shovels disable_tls_peer_verification_for_all_source_uris": _change_uris(SHOVEL, "src-uri", verified=False),
    "shovels disable_tls_peer_verification_for_all_destination_uris": _change_uris(SHOVEL, "dest-uri", verified=False),
    "shovels enable_tls_peer_verification_for_all_source_uris": _change_uris(SHOVEL, "src-uri", verified=True),
    "shovels enable_tls_peer_verification_for_all_destination_uris": _change_uris(SHOVEL, "dest-uri", verified=True),
    "federation declare_upstream": _declare_upstream,
    "federation declare_upstream_for_queues": _declare_upstream,
    "federation declare_upstream_for_exchanges": _declare_upstream,
    "federation disable_tls_peer_verification_for_all_upstreams": _change_uris(UPSTREAM, "uri", verified=False),
    "federation enable_tls_peer_verification_for_all_upstreams": _change_uris(UPSTREAM, "uri", verified=True),
}
"""By the names of their commands."""
