"""Columns of bindings in the HTTP API, and the name of one of several between the same ends.

The name is RabbitMQ's `properties_key`: the routing key, percent-encoded, and with arguments a hash of them as Erlang
terms. Programs keep it, so it has to be the same one.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from functools import partial
from urllib.parse import quote_plus, unquote_plus

from broker.admin.short_steps import mapped
from broker.admin.views.columns import Columns
from broker.admin.views.topology_view import BINDING_COLUMNS, NO_ARGUMENTS, BindingOf, implied, named
from broker.entities.arguments.erlang_terms import entries
from broker.entities.exchanges.erlang_hash import phash2
from broker.entities.vhosts.vhost import VHost
from broker.wire.field_tables import decode_table

_WORD = 1 << 32


async def all_bindings(vhost: VHost) -> list[BindingOf]:
    """Every binding of a virtual host, the implied ones among them."""
    found = await mapped(partial(implied, vhost.name), list(vhost.queues))
    for exchange in list(vhost.exchanges.values()):
        found += await mapped(partial(named, vhost.name), list(exchange.bindings))
    return found


def properties_key(routing_key: str, arguments: bytes) -> str:
    """The text that tells a binding from others between the same ends."""
    key = _quoted(routing_key).replace("~", "%7E")
    if arguments == NO_ARGUMENTS:
        return key or "~"
    return f"{key}~{_hashed(arguments)}"


def location(path: str, names: Sequence[str], properties: str) -> str:
    """Return the address of a binding, relative to the path that it was posted to, percent-encoded as it came.

    `names` are those in the path. A blank, which is `+` in the address, is mostly `%20` in the path: from there on
    the address is written again.
    """
    *asked, _ = path.rsplit("/", len(names))[1:]
    wanted = [*map(_quoted, names), _quoted(properties)]
    same = next((place for place, part in enumerate(asked) if part != wanted[place]), len(asked))
    return "../" * (len(asked) - same) + "/".join(wanted[same:])


BINDING_ROWS = Columns[BindingOf](
    {
        **BINDING_COLUMNS,
        "properties_key": lambda binding: properties_key(binding.routing_key, binding.arguments),
    }
)


def _quoted(text: str) -> str:
    """Percent-encode everything but `A-Z a-z 0-9 _.-~`; a blank becomes `+`."""
    return quote_plus(text, safe="", errors="surrogateescape")


def matches(binding: BindingOf, properties: str) -> bool:
    """Return True if a properties key means this binding, whatever is percent-encoded in it."""
    key, _, hashed = properties.partition("~")
    if unquote_plus(key, errors="surrogateescape") != binding.routing_key:
        return False
    return hashed == ("" if binding.arguments == NO_ARGUMENTS else _hashed(binding.arguments))


def _hashed(arguments: bytes) -> str:
    number = phash2(entries(decode_table(arguments)[0]), _WORD)
    return urlsafe_b64encode(number.to_bytes(4, "big")).rstrip(b"=").decode()
