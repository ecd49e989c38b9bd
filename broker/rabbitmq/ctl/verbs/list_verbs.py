"""Lists of what exists, with RabbitMQ's columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from broker.admin.commands.admin_command import ListCommand, VhostList
from broker.admin.commands.connection_admin import ListChannels, ListConnections
from broker.admin.commands.feature_flags import ListFeatureFlags
from broker.admin.commands.queue_admin import ListBindings, ListConsumers, ListExchanges, ListQueues
from broker.admin.commands.vhost_admin import ListVhosts
from broker.admin.protocol import AdministrationError
from broker.rabbitmq.ctl.dialect import Dialect
from broker.rabbitmq.ctl.outcomes import ListedRows, Misuse, Outcome
from broker.rabbitmq.ctl.verb_call import VerbAction, VerbCall


def names_in(text: str) -> list[str]:
    """The names in a text, with blanks between."""
    return text.split()


QUEUE_COLUMNS = names_in("""
    name durable auto_delete arguments policy pid owner_pid exclusive exclusive_consumer_pid exclusive_consumer_tag
    messages_ready messages_unacknowledged messages messages_ready_ram messages_unacknowledged_ram messages_ram
    messages_persistent message_bytes message_bytes_ready message_bytes_unacknowledged message_bytes_ram
    message_bytes_persistent head_message_timestamp disk_reads disk_writes consumers consumer_utilisation
    consumer_capacity memory slave_pids synchronised_slave_pids state type leader members online
""")
CONNECTION_COLUMNS = names_in("""
    pid name port host peer_port peer_host ssl ssl_protocol ssl_key_exchange ssl_cipher ssl_hash peer_cert_subject
    peer_cert_issuer peer_cert_validity state channels protocol auth_mechanism user vhost timeout frame_max
    channel_max client_properties recv_oct recv_cnt send_oct send_cnt send_pend connected_at
""")
CHANNEL_COLUMNS = names_in("""
    pid connection name number user vhost transactional confirm consumer_count messages_unacknowledged
    messages_uncommitted acks_uncommitted messages_unconfirmed prefetch_count global_prefetch_count
""")
CONSUMER_COLUMNS = names_in("""
    queue_name channel_pid consumer_tag ack_required prefetch_count active activity_status arguments
""")
BINDING_COLUMNS = names_in("source_name source_kind destination_name destination_kind routing_key arguments")
EXCHANGE_COLUMNS = names_in("name type durable auto_delete internal arguments policy")
VHOST_COLUMNS = names_in("name tracing description tags default_queue_type cluster_state")
FLAG_COLUMNS = names_in("name state stability desc provided_by doc_url")
UNRESPONSIVE_COLUMNS = names_in("arguments auto_delete durable name pid recoverable_slaves")
"""The columns that RabbitMQ has. One that our broker has not got is empty."""


class ListVerb(NamedTuple):
    """A kind of thing that is listed: our command, RabbitMQ's columns, and those shown by default.

    `named` says which column of ours one of RabbitMQ's is, where names differ; `changed` makes a value RabbitMQ's.
    `younger` are the columns of a dialect that 3.x has not got.
    """

    command: type[ListCommand]
    columns: Sequence[str]
    usual: Sequence[str]
    named: Mapping[str, str] = {}
    changed: Mapping[str, Callable[[Any], Any]] = {}
    younger: Callable[[Dialect], Sequence[str]] = lambda dialect: ()


def wanted_columns(call: VerbCall, usual: Sequence[str]) -> list[str]:
    """The columns that are asked for, perhaps with commas between; the usual ones where none is."""
    return [name for word in call.arguments for name in word.split(",") if name] or list(usual)


def check_columns(columns: Sequence[str]) -> Callable[[VerbCall], None]:
    """Return a check that raises Misuse for unknown columns."""

    def check(call: VerbCall) -> None:
        unknown = [name for name in wanted_columns(call, columns) if name not in columns]
        if unknown:
            raise Misuse(f"Info key(s) {','.join(unknown)} are not supported")

    return check


def _list(kind: ListVerb) -> Callable[[VerbCall], Outcome]:
    def run(call: VerbCall) -> Outcome:
        columns = wanted_columns(call, kind.usual)
        return ListedRows(columns, () if call.options.get("offline") else _rows(call, kind, columns))

    return run


def _rows(call: VerbCall, kind: ListVerb, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Each row when it has come. Of a virtual host that there is not, nothing exists."""
    ours = {name: kind.named.get(name, name) for name in columns}
    command = kind.command(columns=list(ours.values()), lenient=True, typed=True)
    if isinstance(command, VhostList):
        command.vhost = call.vhost
    found = call.connect().rows(command)
    try:
        for row in found:
            yield {name: _shown(kind, name, row[own]) for name, own in ours.items()}
    except AdministrationError as error:
        if error.kind != "not_found":
            raise


def _shown(kind: ListVerb, name: str, value: Any) -> Any:
    change = kind.changed.get(name)
    return value if change is None else change(value)


def _listing(kind: ListVerb) -> VerbAction:
    def check(call: VerbCall) -> None:
        check_columns([*kind.columns, *kind.younger(call.dialect)])(call)

    return VerbAction(_list(kind), check=check)


def lister(command: type[ListCommand], columns: Sequence[str]) -> Callable[[VerbCall], Outcome]:
    """Return a list with fixed columns."""
    return _list(ListVerb(command, columns, columns))


def _queues_banner(call: VerbCall) -> str:
    return f"Timeout: {call.timeout or 60.0} seconds ...\nListing queues for vhost {call.vhost} ..."


def _none(call: VerbCall) -> Outcome:
    call.connect()
    return ListedRows(wanted_columns(call, ["name"]), ())


_QUEUES = ListVerb(
    ListQueues,
    QUEUE_COLUMNS,
    ["name", "messages"],
    changed={"members": lambda nodes: nodes or "", "online": lambda nodes: nodes or ""},
)
_CONNECTIONS = ListVerb(
    ListConnections,
    CONNECTION_COLUMNS,
    ["user", "peer_host", "peer_port", "state"],
    changed={"protocol": lambda protocol: (0, 9, 1)},
)
_CHANNELS = ListVerb(
    ListChannels,
    CHANNEL_COLUMNS,
    ["pid", "user", "consumer_count", "messages_unacknowledged"],
    named={"connection": "connection_pid"},
)
_CONSUMERS = ListVerb(
    ListConsumers,
    CONSUMER_COLUMNS,
    [name for name in CONSUMER_COLUMNS if name != "activity_status"],
)
_VHOSTS = ListVerb(
    ListVhosts,
    VHOST_COLUMNS,
    ["name"],
    changed={"default_queue_type": lambda queue_type: queue_type or "undefined"},
    younger=lambda dialect: dialect.vhost_columns,
)
_FLAGS = ListVerb(ListFeatureFlags, FLAG_COLUMNS, ["name", "state"])

LINES = """
[Access Control]
list_vhosts cd 0-* [--no-table-headers] [<column> ...] [--timeout <timeout>]
  Lists virtual hosts
  Listing vhosts ...

[Monitoring, observability and health checks]
list_bindings cd 0-* [--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]
  Lists bindings
  Listing bindings for vhost {vhost}...
list_channels cd 0-* [--no-table-headers] [<column> ...]
  Lists channels
  Listing channels ...
list_connections cd 0-* [--no-table-headers] [<column> ...] [--timeout <timeout>]
  Lists connections
  Listing connections ...
list_consumers cd 0-* [--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]
  Lists consumers
  Listing consumers in vhost {vhost} ...
list_exchanges cd 0-* [--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]
  Lists exchanges
  Listing exchanges for vhost {vhost} ...
list_queues cd 0-* [--vhost <vhost>] [--online] [--offline] [--local] [--no-table-headers] [<column>, ...] [--timeout <timeout>]
  Lists queues
list_unresponsive_queues cd 0-* [--local] [--queue-timeout <milliseconds>] [<column> ...] [--no-table-headers] [--timeout <timeout>]
  Lists no queue: they all answer, or none
  Listing unresponsive queues for vhost {vhost} ...

[Feature flags]
list_feature_flags cd 0-* [<column> ...] [--timeout <timeout>]
  Lists feature flags
  Listing feature flags ...
"""

VERBS: dict[str, VerbAction] = {
    "list_queues": _listing(_QUEUES)._replace(banner=_queues_banner),
    "list_exchanges": _listing(ListVerb(ListExchanges, EXCHANGE_COLUMNS, ["name", "type"])),
    "list_bindings": _listing(ListVerb(ListBindings, BINDING_COLUMNS, BINDING_COLUMNS)),
    "list_consumers": _listing(_CONSUMERS),
    "list_connections": _listing(_CONNECTIONS),
    "list_channels": _listing(_CHANNELS),
    "list_vhosts": _listing(_VHOSTS),
    "list_feature_flags": _listing(_FLAGS),
    "list_unresponsive_queues": VerbAction(_none, check=check_columns(UNRESPONSIVE_COLUMNS)),
}
