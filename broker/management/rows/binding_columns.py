"""What is shown of a binding, and how one of several between the same ends is named.

Its name is RabbitMQ's: the routing key, percent-encoded, and where there are arguments a hash of them as Erlang
terms, `properties_key`. Programs keep it, so it has to be the same one.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from functools import partial
from typing import NamedTuple
from urllib.parse import quote_plus, unquote_plus

from broker.admin.json_tables import plain
from broker.admin.kinds.topology_entries import destination_type
from broker.admin.short_steps import mapped
from broker.entities.arguments.erlang_terms import entries
from broker.entities.exchanges.erlang_hash import phash2
from broker.entities.exchanges.exchange import Binding
from broker.entities.vhosts.vhost import VHost
from broker.management.columns import Columns
from broker.wire.field_tables import decode_table, encode_table

NO_ARGUMENTS = encode_table({})
_WORD = 1 << 32


class BindingOf(NamedTuple):
    """A binding by the names of its ends; `arguments` are an encoded table. Its own order is that of lists."""

    vhost: str
    source: str
    destination: str
    destination_type: str
    routing_key: str
    arguments: bytes


def shown(vhost: str, binding: Binding) -> BindingOf:
    """A binding as it is listed."""
    kind = destination_type(binding)
    return BindingOf(vhost, binding.source.name, binding.destination.name, kind, binding.key, binding.arguments)


def implied(vhost: str, queue: str) -> BindingOf:
    """The one by which the default exchange leads to a queue."""
    return BindingOf(vhost, "", queue, "queue", queue, NO_ARGUMENTS)


async def all_bindings(vhost: VHost) -> list[BindingOf]:
    """Every binding of a virtual host, the implied ones among them."""
    found = await mapped(partial(implied, vhost.name), list(vhost.queues))
    for exchange in list(vhost.exchanges.values()):
        found += await mapped(partial(shown, vhost.name), list(exchange.bindings))
    return found


BINDING_COLUMNS = Columns[BindingOf](
    {
        "source": lambda binding: binding.source,
        "vhost": lambda binding: binding.vhost,
        "destination": lambda binding: binding.destination,
        "destination_type": lambda binding: binding.destination_type,
        "routing_key": lambda binding: binding.routing_key,
        "arguments": lambda binding: plain(decode_table(binding.arguments)[0]),
        "properties_key": lambda binding: properties_key(binding.routing_key, binding.arguments),
    }
)


def properties_key(routing_key: str, arguments: bytes) -> str:
    """What tells a binding from others between the same ends."""
    key = _quoted(routing_key).replace("~", "%7E")
    if arguments == NO_ARGUMENTS:
        return key or "~"
    return f"{key}~{_hashed(arguments)}"


def location(destination: str, properties: str) -> str:
    """Where a binding is, from the address that it was posted to."""
    return f"{_quoted(destination)}/{_quoted(properties)}"


def _quoted(text: str) -> str:
    """A text with everything encoded but letters, digits and `_.-~`; a blank becomes `+`."""
    return quote_plus(text, safe="", errors="surrogateescape")


def matches(binding: BindingOf, properties: str) -> bool:
    """The binding is the one that a properties key means, whatever is percent-encoded in it."""
    key, _, hashed = properties.partition("~")
    if unquote_plus(key, errors="surrogateescape") != binding.routing_key:
        return False
    return hashed == ("" if binding.arguments == NO_ARGUMENTS else _hashed(binding.arguments))


def _hashed(arguments: bytes) -> str:
    number = phash2(entries(decode_table(arguments)[0]), _WORD)
    return urlsafe_b64encode(number.to_bytes(4, "big")).rstrip(b"=").decode()
