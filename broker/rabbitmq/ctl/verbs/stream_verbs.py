"""Streams, of one node and of AMQP clients: what the stream protocol alone has is an empty list."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broker.admin.commands.admin_command import VhostList
from broker.admin.commands.definitions_admin import ImportDefinitions
from broker.admin.commands.queue_admin import (
    DeleteExchange,
    DeleteQueue,
    ListBindings,
    ListExchanges,
    ListQueues,
    StreamStatus,
)
from broker.admin.protocol import AdministrationError
from broker.rabbitmq.conf.conf_values import Unfit, size
from broker.rabbitmq.ctl.line_options import Option
from broker.rabbitmq.ctl.outcomes import SOFTWARE, UNAVAILABLE, ListedRows, Misuse, Outcome, ShownText, VerbRefusal
from broker.rabbitmq.ctl.verb_call import VerbAction, VerbCall, generally_refused
from broker.rabbitmq.ctl.verbs.list_verbs import check_columns, names_in, wanted_columns

STATUS_COLUMNS = names_in("""
    role node epoch offset committed_offset committed_chunk_id first_offset readers segments
""")
TRACKING_COLUMNS = ("type", "reference", "value")
CONNECTION_COLUMNS = names_in("""
    conn_name pid node port peer_port host peer_cert_issuer peer_cert_subject peer_cert_validity peer_host user vhost
    subscriptions ssl ssl_cipher ssl_hash ssl_key_exchange ssl_protocol connection_state auth_mechanism heartbeat
    frame_max client_properties connected_at
""")
CONSUMER_COLUMNS = names_in("""
    connection_pid node subscription_id stream messages_consumed offset offset_lag credits active activity_status
    properties
""")
PUBLISHER_COLUMNS = names_in("""
    connection_pid node publisher_id stream reference messages_published messages_confirmed messages_errored
""")
GROUP_COLUMNS = ("stream", "reference", "partition_index", "consumers")
GROUP_CONSUMER_COLUMNS = ("subscription_id", "connection_name", "state")
PARTITIONS = 3
MAX_AGE = re.compile(r"[1-9]\d*[YMDhms]")
DURATION = re.compile(r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
SECONDS = (365 * 86400, 30 * 86400, 86400, 3600, 60, 1)
"""Units of a duration: years, months, days, hours, minutes, seconds."""
LOCATORS = ("client-local", "balanced", "random", "least-leaders")


def _not_found(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    return call.dialect.absent.refusal() if error.kind == "not_found" else generally_refused(call, error)


def _type_of(call: VerbCall) -> str:
    """The type of the queue that is named first. Raises AdministrationError `not_found`, VerbRefusal."""
    rows = call.ask(ListQueues(vhost=call.vhost, columns=["name", "type"]))
    for row in rows:
        if row["name"] == call.arguments[0]:
            return str(row["type"])
    raise call.dialect.absent.refusal()


def _assert_stream(call: VerbCall, refusal: str) -> None:
    """Raise VerbRefusal for a queue of another type, which is filled into what is said of it."""
    type_ = _type_of(call)
    if type_ != "stream":
        raise VerbRefusal(UNAVAILABLE, refusal.format(type_))


# One stream


def _status(call: VerbCall) -> Outcome:
    _assert_stream(call, "Cannot get stream status of a {} queue")
    if call.options.get("tracking"):
        return ListedRows(TRACKING_COLUMNS, (), streamed=False)
    status = call.ask(StreamStatus(vhost=call.vhost, name=call.arguments[0]))
    row = {"role": "writer", "node": call.place.node, "epoch": 1, **status}
    row["committed_chunk_id"] = row["committed_offset"]  # a chunk here is one message
    younger = {"epoch", "committed_chunk_id"}.difference(call.dialect.stream_columns)
    return ListedRows([name for name in STATUS_COLUMNS if name not in younger], [row])


def _tracking(call: VerbCall) -> Outcome:
    if sum(bool(call.options.get(name)) for name in ("all", "offset", "writer")) > 1:
        raise Misuse("Specify only one of --all, --offset, --writer.", characters=True)
    try:
        _assert_stream(call, "The stream does not exist.")
    except (AdministrationError, VerbRefusal):
        raise VerbRefusal(UNAVAILABLE, "The stream does not exist.") from None
    return call.done()


def _restart(call: VerbCall) -> Outcome:
    _assert_stream(call, "{{:not_supported_for_type, :rabbit_{}_queue}}")
    return call.said(call.place.node)


def _add_replica(call: VerbCall) -> Outcome:
    _assert_stream(call, call.dialect.no_replicas)
    _assert_here(call)
    return call.done()


def _delete_replica(call: VerbCall) -> Outcome:
    _assert_stream(call, "Cannot delete replicas from a {} queue")
    _assert_here(call)
    raise VerbRefusal(UNAVAILABLE, "Cannot delete the last member of a stream")


def _assert_here(call: VerbCall) -> None:
    if call.arguments[1] != call.place.node:
        raise VerbRefusal(UNAVAILABLE, "node_not_running")


def _set_retention(call: VerbCall) -> Outcome:
    """RabbitMQ notes the age where nothing reads it, and has had no such verb since 4.1."""
    if not MAX_AGE.fullmatch(call.arguments[1]):
        raise VerbRefusal(UNAVAILABLE, "invalid_max_age")
    _type_of(call)
    why = "Nothing has changed, as in RabbitMQ: retention is set by x-max-age, or by max-age in a policy"
    return ShownText([] if call.quiet else [why], {"node": call.node, "result": "ok"})


# What speaks the stream protocol


def _none(columns: Sequence[str]) -> VerbAction:
    def run(call: VerbCall) -> Outcome:
        call.connect()
        return ListedRows(wanted_columns(call, columns), ())

    return VerbAction(run, options=(Option("verbose", bool),), check=check_columns(columns), form="pretty_table")


def _check_group(call: VerbCall) -> None:
    if not (call.options.get("stream") and call.options.get("reference")):
        raise Misuse("not enough arguments.")
    check_columns(GROUP_CONSUMER_COLUMNS)(call)


def _no_group(call: VerbCall) -> Outcome:
    call.connect()
    raise VerbRefusal(UNAVAILABLE, "The group does not exist")


def _check_reference(call: VerbCall) -> None:
    if not (call.options.get("stream") and call.options.get("reference")):
        raise Misuse("not enough arguments.")


def _no_offset(call: VerbCall) -> Outcome:
    rows = call.ask(ListQueues(vhost=call.vhost, columns=["name", "type"]))
    if (call.options["stream"], "stream") not in {(row["name"], row["type"]) for row in rows}:
        raise VerbRefusal(UNAVAILABLE, "The stream does not exist")
    raise VerbRefusal(UNAVAILABLE, "There is no stored offset for this reference, no need to reset")


# Super streams: an exchange, and a stream for each key


def _keys(call: VerbCall) -> list[str]:
    named = call.options.get("binding-keys", call.options.get("routing-keys"))
    if named is not None:
        return [key.strip() for key in str(named).split(",") if key.strip()]
    return [str(number) for number in range(call.options.get("partitions", PARTITIONS))]


def _bytes(option: str) -> Callable[[str], int]:
    def read(value: str) -> int:
        try:
            return size(value)
        except Unfit:
            raise _invalid(option, "valid example values: 100gb, 50mb") from None

    return read


def _age(value: str) -> str:
    found = DURATION.fullmatch(value)
    if found is None or not any(found.groups()):
        examples = "e.g. e.g. PT10M30S for 10 minutes 30 seconds, P5DT8H for 5 days 8 hours."
        raise _invalid("max-age", f"the value must a ISO 8601 duration, {examples}")
    seconds = sum(int(part or 0) * unit for part, unit in zip(found.groups(), SECONDS, strict=True))
    return f"{seconds}s"


def _locator(value: str) -> str:
    if value not in LOCATORS:
        raise _invalid("leader-locator", "valid values are client-local, balanced.")
    return value


def _cluster_size(value: int) -> int:
    if value < 1:
        raise _invalid("initial-cluster-size", "the value must be positive.")
    return value


def _invalid(option: str, why: str) -> Misuse:
    return Misuse(f"Invalid value for --{option}, {why}", characters=True)


ARGUMENTS: Mapping[str, tuple[str, Callable[[Any], object]]] = {
    "leader-locator": ("x-queue-leader-locator", _locator),
    "initial-cluster-size": ("x-initial-cluster-size", _cluster_size),
    "stream-max-segment-size-bytes": (
        "x-stream-max-segment-size-bytes",
        _bytes("stream-max-segment-size-bytes"),
    ),
    "max-age": ("x-max-age", _age),
    "max-length-bytes": ("x-max-length-bytes", _bytes("max-length-bytes")),
}
"""Options, and the arguments of the streams that they become."""


def _check_super_stream(call: VerbCall) -> None:
    keys = [name for name in ("routing-keys", "binding-keys") if name in call.options]
    if keys and "partitions" in call.options:
        raise Misuse(f"Specify --partitions or {call.dialect.keys_option}, not both.", characters=True)
    if call.options.get("partitions", PARTITIONS) < 1:
        raise Misuse("The partition number must be greater than 0", characters=True)
    _arguments(call)


def _arguments(call: VerbCall) -> dict[str, object]:
    given = {name: read(call.options[option]) for option, (name, read) in ARGUMENTS.items() if option in call.options}
    return {**given, "x-queue-type": "stream"}


def _add_super_stream(call: VerbCall) -> Outcome:
    """Exchange, streams and bindings come as one import: all of them, or none."""
    name, keys, arguments = call.arguments[0], _keys(call), _arguments(call)
    streams = [f"{name}-{key}" for key in keys]
    _assert_free(call, name, streams)
    exchange = {"name": name, "type": "direct", "durable": True, "auto_delete": False, "internal": False}
    made = {"durable": True, "auto_delete": False, "arguments": arguments}
    definitions = {
        "exchanges": [{**exchange, "arguments": {"x-super-stream": True}}],
        "queues": [{"name": stream, **made} for stream in streams],
        "bindings": [
            {
                "source": name,
                "destination": stream,
                "destination_type": "queue",
                "routing_key": key,
                "arguments": {"x-stream-partition-order": order},
            }
            for order, (stream, key) in enumerate(zip(streams, keys, strict=True))
        ],
    }
    call.ask(ImportDefinitions(vhost=call.vhost, definitions=definitions))
    return call.said(f"Super stream {name} has been created")


def _assert_free(call: VerbCall, name: str, streams: Sequence[str]) -> None:
    unfit, repeated = not name.strip() or name.startswith("amq."), len(set(streams)) < len(streams)
    wrong = call.dialect.wrong_partitions(name, streams, unfit=unfit, repeated=repeated)
    if wrong is not None:
        raise VerbRefusal(SOFTWARE, wrong)
    queues = _names(call, ListQueues)
    taken = [f"an exchange named {name}"] if name in _names(call, ListExchanges) else []
    taken += [f"a queue named {stream}" for stream in streams if stream in queues]
    if taken:
        shown = call.dialect.quoted.format(f"there is already {taken[0]}")
        raise VerbRefusal(SOFTWARE, f"{{:reference_already_exists, {shown}}}")


def _names(call: VerbCall, kind: type[VhostList]) -> set[str]:
    return {row["name"] for row in call.ask(kind(vhost=call.vhost, columns=["name"]))}


def _delete_super_stream(call: VerbCall) -> Outcome:
    name = call.arguments[0]
    if name not in _names(call, ListExchanges):
        raise VerbRefusal(SOFTWARE, "stream_not_found")
    rows = call.ask(ListQueues(vhost=call.vhost, columns=["name", "type"]))
    streams = {row["name"] for row in rows if row["type"] == "stream"}
    bindings = call.ask(ListBindings(vhost=call.vhost, columns=["source_name", "destination_name"]))
    for stream in sorted({row["destination_name"] for row in bindings if row["source_name"] == name} & streams):
        call.ask(DeleteQueue(vhost=call.vhost, name=stream))
    call.ask(DeleteExchange(vhost=call.vhost, name=name))
    return call.said(f"Super stream {name} has been deleted")


def _no_super_stream(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    return VerbRefusal(SOFTWARE, "stream_not_found" if error.kind == "not_found" else str(error))


def _not_added(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    return VerbRefusal(SOFTWARE, str(error))


_PARTITIONS = (
    Option("partitions", int),
    Option("routing-keys", str),
    Option("binding-keys", str),
    Option("max-length-bytes", str),
    Option("max-age", str),
    Option("stream-max-segment-size-bytes", str),
    Option("leader-locator", str),
    Option("initial-cluster-size", int),
)
_TRACKED = (Option("all", bool), Option("offset", bool), Option("writer", bool))
_GROUP = (Option("verbose", bool), Option("stream", str), Option("reference", str))
LINES = """
[Replication]
add_replica s 2-2 until=3.13 [--vhost <vhost>] <queue> <node>
  Does nothing: a stream is on its node already
  Adding a replica for queue {0} on node {1}...
add_replica s 2-2 since=4.2 [--vhost <vhost>] <stream> <node> [--timeout <timeout>]
  Does nothing: a stream is on its node already
  Adding a replica for stream {0} on node {1}...
delete_replica s 2-2 [--vhost <vhost>] <queue> <node>
  Fails: a stream is on one node
  Removing a replica of queue {0} on node {1}...
restart_stream s 1-1 [--vhost <vhost>] <stream> [--preferred-leader-node <node>]
  Does nothing: a stream runs as long as the broker does
  Restarting stream {0}...

[Monitoring, observability and health checks]
stream_status dqs 1-1 [--vhost <vhost>] [--tracking] <stream>
  Shows how far a stream has come
  Status of stream {0} on node {node} ...

[Policies]
set_stream_retention_policy s 2-2 until=3.13 [--vhost <vhost>] <name> <policy>
  Does nothing, as in RabbitMQ: a policy with max-age does it
  Setting retention policy of stream queue {0} to {1} ...

[Stream plugin]
activate_stream_consumer cs 0-0 since=4.2 --stream <stream> --reference <reference> [--vhost <vhost>]
  Fails: there are no groups
  Activating a consumer in the group ...
add_super_stream s 1-1 until=3.13 <name> [--vhost <vhost>] [--partitions <partitions>] [--routing-keys <routing-keys>]
  Makes an exchange with a stream for each key, or with a number of streams
  Adding a super stream (experimental feature)...
add_super_stream s 1-1 since=4.2 <name> [--vhost <vhost>] [--partitions <partitions>] [--binding-keys <binding-keys>]
  Makes an exchange with a stream for each key, or with a number of streams
  Adding a super stream...
delete_super_stream s 1-1 until=3.13 <name> [--vhost <vhost>]
  Deletes an exchange, and the streams that are bound to it
  Deleting a super stream (experimental feature)...
delete_super_stream s 1-1 since=4.2 <name> [--vhost <vhost>]
  Deletes an exchange, and the streams that are bound to it
  Deleting a super stream...
list_stream_connections cds 0-* [<column> ...]
  Lists nothing: clients speak AMQP
  Listing stream connections ...
list_stream_consumer_groups cds 0-* [--vhost <vhost>] [<column> ...]
  Lists nothing: clients speak AMQP
  Listing stream consumer groups ...
list_stream_consumers cds 0-* [--vhost <vhost>] [<column> ...]
  Lists nothing: clients speak AMQP, and their consumers are in list_consumers
  Listing stream consumers ...
list_stream_group_consumers cds 0-* --stream <stream> --reference <reference> [--vhost <vhost>] [<column> ...]
  Fails: there are no groups
  Listing group consumers ...
list_stream_publishers cds 0-* [--vhost <vhost>] [<column> ...]
  Lists nothing: clients speak AMQP
  Listing stream publishers ...
list_stream_tracking s 1-1 <stream> [--all | --offset | --writer] [--vhost <vhost>]
  Lists nothing: clients keep their offsets
  Listing tracking information for stream {0} ...
reset_offset s 0-0 since=4.2 --stream <stream> --reference <reference> [--vhost <vhost>]
  Fails: clients keep their offsets
  Resetting stored offset ...
"""

VERBS: dict[str, VerbAction] = {
    "stream_status": VerbAction(_status, _not_found, (Option("tracking", bool),), form="pretty_table"),
    "restart_stream": VerbAction(_restart, _not_found, (Option("preferred-leader-node", str),)),
    "add_replica": VerbAction(_add_replica, _not_found),
    "delete_replica": VerbAction(_delete_replica, _not_found),
    "set_stream_retention_policy": VerbAction(_set_retention, _not_found),
    "add_super_stream": VerbAction(_add_super_stream, _not_added, _PARTITIONS, _check_super_stream),
    "delete_super_stream": VerbAction(_delete_super_stream, _no_super_stream),
    "list_stream_connections": _none(CONNECTION_COLUMNS),
    "list_stream_consumers": _none(CONSUMER_COLUMNS),
    "list_stream_publishers": _none(PUBLISHER_COLUMNS),
    "list_stream_consumer_groups": _none(GROUP_COLUMNS),
    "list_stream_group_consumers": VerbAction(_no_group, _not_found, _GROUP, _check_group),
    "activate_stream_consumer": VerbAction(_no_group, options=_GROUP, check=_check_reference),
    "reset_offset": VerbAction(_no_offset, options=_GROUP, check=_check_reference),
    "list_stream_tracking": VerbAction(_tracking, options=_TRACKED),
}
