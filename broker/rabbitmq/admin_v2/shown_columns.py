"""Rows of `rabbitmqadmin` version 2: their columns, where these come from in an answer, and how values are shown."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

PROTOCOLS = {"amqp091": "AMQP 0-9-1", "amqp10": "AMQP 1.0", "local": "Local"}


class Column(NamedTuple):
    """A column: heading, where its value is in an answer, and how it is shown."""

    heading: str
    key: str
    shown: Callable[[Any], str]

    def cell(self, row: Mapping[str, Any]) -> str:
        """The text of a row's cell."""
        value: Any = row
        for name in self.key.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return self.shown(value)


def value_text(value: Any) -> str:
    """A value as JSON, its names in order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def plain_text(value: Any) -> str:
    """A value in a cell of its own: texts without quotes, nothing for null."""
    if value is None:
        return ""
    if isinstance(value, float):
        return number_text(value)
    return value if isinstance(value, str) else value_text(value)


def number_text(value: float) -> str:
    """A number; one without a fraction has no point."""
    return str(int(value)) if value == int(value) else repr(float(value))


def _single(value: Any) -> str:
    """A number of single precision, with as few digits as tell it from others."""
    number = float(value or 0)
    single = struct.unpack("f", struct.pack("f", number))[0]
    texts = (f"{number:.{digits}g}" for digits in range(1, 10))
    return number_text(
        float(next((text for text in texts if struct.unpack("f", struct.pack("f", float(text)))[0] == single), number))
    )


def _pairs(value: Any) -> str:
    return "\n".join(f"{key}: {value_text(item)}" for key, item in sorted(value.items())) if value else ""


def _lines(value: Any) -> str:
    """A line for each pair, each ended."""
    text = _pairs(value)
    return f"{text}\n" if text else ""


def _ended(value: Any) -> str:
    return f"{plain_text(value)}\n"


def _json_line(value: Any) -> str:
    return f"{value_text(value)}\n"


def _tags(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else plain_text(value)


def _below(value: Any) -> str:
    return "\n".join(value) if isinstance(value, list) else plain_text(value)


def _bullets(value: Any) -> str:
    return "\n".join(f"* {item}" for item in sorted(set(value or [])))


def _zero(value: Any) -> str:
    return plain_text(value or 0)


def _truth(value: Any) -> str:
    return value_text(bool(value))


def _protocol(value: Any) -> str:
    return PROTOCOLS.get(value, plain_text(value))


def _undefined(value: Any) -> str:
    return "undefined" if value is None else plain_text(value)


SHOWN: dict[str, Callable[[Any], str]] = {
    "": plain_text,
    "pairs": _pairs,
    "lines": _lines,
    "ended": _ended,
    "json": _json_line,
    "tags": _tags,
    "below": _below,
    "bullets": _bullets,
    "zero": _zero,
    "single": _single,
    "truth": _truth,
    "protocol": _protocol,
    "undefined": _undefined,
}
KINDS_TEXT = """
auth_attempts: Protocol=protocol Number_of_attempts=auth_attempts Failed=auth_attempts_failed
  Successful=auth_attempts_succeeded
bindings: vhost source destination destination_type routing_key arguments:pairs properties_key
channels: id=number name vhost state consumer_count has_publisher_confirms_enabled=confirm prefetch_count
  messages_unacknowledged messages_unconfirmed
connections: name node state protocol username=user connected_at server_hostname=host server_port=port
  client_hostname=peer_host client_port=peer_port channel_max channel_count=channels
user_connections: name node username=user vhost
consumers: vhost=queue.vhost queue=queue.name consumer_tag manual_ack=ack_required prefetch_count active exclusive
  arguments:lines delivery_ack_timeout=consumer_timeout:zero
deprecated_features: name description=desc deprecation_phase:ended doc_url provided_by state
exchanges: name vhost exchange_type=type durable auto_delete arguments:pairs
feature_flags: name state:ended description=desc doc_url stability:ended provided_by
federation_links: node vhost id uri status type upstream consumer_tag
federation_upstreams: name vhost uri=value.uri ack_mode=value.ack-mode prefetch_count=value.prefetch-count
  trust_user_id=value.trust-user-id reconnect_delay=value.reconnect-delay queue=value.queue
  consumer_tag=value.consumer-tag exchange=value.exchange max_hops=value.max-hops queue_type=value.queue-type
  expires_(queue_TTL)=value.expires message_ttl=value.message-ttl resource_cleanup_mode=value.resource-cleanup-mode
  bind_using_nowait=value.bind-nowait:truth channel_use_mode=value.channel-use-mode
global_parameters: name value:json
messages: payload_bytes redelivered exchange routing_key message_count properties:lines payload payload_encoding
nodes: name uptime run_queue processors os_pid fd_total total_erlang_processes=proc_total
  memory_high_watermark=mem_limit has_memory_alarm_in_effect=mem_alarm:truth
  free_disk_space_low_watermark=disk_free_limit has_free_disk_space_alarm_in_effect=disk_free_alarm:truth rates_mode
  enabled_plugins:bullets being_drained:truth rabbitmq_version erlang_version erlang_full_version crypto_lib_version
parameters: name vhost component value:lines
permissions: user vhost configure read write
plugins: node name state
policies: name vhost pattern apply_to=apply-to priority definition:lines
queues: name vhost queue_type=type durable auto_delete exclusive arguments:pairs node:undefined state leader
  members:below online:below memory:zero consumer_count=consumers:zero consumer_utilisation:single
  policy operator_policy message_bytes:zero message_count=messages:zero
  unacknowledged_message_count=messages_unacknowledged:zero
shovels: node name vhost type state source_uri=src_uri destination_uri=dest_uri source=src_queue destination=dest_queue
  source_address=src_address destination_address=dest_address source_protocol=src_protocol:protocol
  destination_protocol=dest_protocol:protocol
user_limits: username=user limits=value:lines
users: name tags:tags password_hash
vhost_limits: vhost limits=value:lines
vhosts: name tags:tags description default_queue_type
"""
"""Columns of each kind of row: heading, `=` the place in the answer where it differs, `:` how it is shown."""


def _column(word: str) -> Column:
    place, _, shown = word.partition(":")
    heading, _, key = place.partition("=")
    spaced = heading.replace("_", " ") if heading[0].isupper() or "(" in heading else heading
    return Column(spaced, key or heading, SHOWN[shown])


def _kinds(text: str) -> dict[str, list[Column]]:
    lines = text.replace("\n  ", " ").strip().splitlines()
    named = (line.partition(": ") for line in lines)
    return {name: [_column(word) for word in words.split()] for name, _, words in named}


KINDS = _kinds(KINDS_TEXT)
"""Columns by kind of row."""


def cells_of(kind: str, rows: Sequence[Mapping[str, Any]], wanted: Sequence[str] | None = None) -> list[list[str]]:
    """The heading and the rows of a table; `wanted` names its columns. Raises KeyError for one that is not there."""
    columns = KINDS[kind]
    if wanted is not None:
        by_heading = {column.heading: column for column in columns}
        columns = [by_heading[name] for name in wanted]
    return [[column.heading for column in columns], *([column.cell(row) for column in columns] for row in rows)]
