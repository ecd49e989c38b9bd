"""The list of consumers."""

from __future__ import annotations

from starlette.responses import Response

from broker.admin.short_steps import AT_ONCE, in_steps
from broker.entities.queues.consumer_prefetch import Consumer
from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.list_query import list_response
from broker.management.resources import Resource, resource
from broker.management.rows.consumer_rows import consumer_order, consumer_rows


async def list_consumers(call: ApiCall) -> Response:
    """List consumers; empty for a virtual host that the user may not see, as in RabbitMQ 3."""
    query = call.list_query()
    consumers: list[Consumer] = []
    for vhost in call.vhosts():
        if call.account.sees(vhost.name):
            async for queue in in_steps(list(vhost.queues.values()), at_once=AT_ONCE):
                consumers += queue.consumers.members
    columns = consumer_rows(call.api.settings.node)
    return await list_response(consumers, columns, query, lambda consumer: consumer.tag, consumer_order)


RESOURCES: list[Resource] = [
    resource("/api/consumers", GET=(Tag.ANY, list_consumers)),
    resource("/api/consumers/{vhost}", GET=(Tag.ANY, list_consumers), until=(4, 0)),
    resource("/api/consumers/{vhost}", in_vhost=True, monitored=True, GET=(Tag.ANY, list_consumers), since=(4, 0)),
]
