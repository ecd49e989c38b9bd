"""The declaration of exchange amq.rabbitmq.event at the start of a broker that publishes events."""

from __future__ import annotations

from broker.admin.administration import Administration
from broker.entities.exchanges.event_exchange import NAME, EventExchange
from storage.definitions.definition_rows import Put, VhostRow


async def declare(administration: Administration, events: EventExchange) -> None:
    """Declare the exchange if it is missing: durable, topic, internal, as the plugin makes it; and its virtual host."""
    if events.vhost not in administration.broker.vhosts:
        await administration.change(Put(VhostRow(events.vhost)))
    vhost = administration.broker.vhosts[events.vhost]
    if NAME not in vhost.exchanges:
        declared = vhost.declare_exchange(NAME, "topic", durable=True, auto_delete=False, internal=True, arguments={})
        await administration.settled(declared)
