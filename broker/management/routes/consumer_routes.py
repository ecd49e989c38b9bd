"""Consumers: listed."""

from __future__ import annotations

from functools import partial
from itertools import chain

from starlette.responses import Response

from broker.admin.short_steps import mapped
from broker.entities.queues.consumer_prefetch import Consumer
from broker.entities.queues.queue import Queue
from broker.management.access import Tag
from broker.management.call import Call
from broker.management.list_query import list_answer
from broker.management.resources import Resource, resource
from broker.management.rows.consumer_columns import ConsumerOf, consumer_columns, consumer_order


async def list_consumers(call: Call) -> Response:
    """Consumers. Of a virtual host that the user may not see there are none, as in RabbitMQ."""
    query = call.list_query()
    consumers: list[ConsumerOf] = []
    for vhost in call.vhosts():
        if call.account.sees(vhost.name):
            of_queues = await mapped(_consumers, list(vhost.queues.values()))
            consumers += await mapped(partial(ConsumerOf, vhost.name), chain.from_iterable(of_queues))
    columns = consumer_columns(call.api.settings.node)
    return await list_answer(consumers, columns, query, lambda listed: listed.consumer.tag, consumer_order)


def _consumers(queue: Queue) -> list[Consumer]:
    return list(queue.consumers.members)


RESOURCES: list[Resource] = [
    resource("/api/consumers", GET=(Tag.ANY, list_consumers)),
    resource("/api/consumers/{vhost}", GET=(Tag.ANY, list_consumers)),
]
