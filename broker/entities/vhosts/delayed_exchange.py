"""Exchanges of type x-delayed-message: their delay queues, and the publish of messages that are due."""

from __future__ import annotations

from functools import partial

from broker.entities.arguments.queue_types import CLASSIC
from broker.entities.exchanges.exchange import Exchange
from broker.entities.exchanges.exchange_type_table import DELAYED_TYPE
from broker.entities.exchanges.routing import Routing, hand_over
from broker.entities.messages.delay_header import released
from broker.entities.messages.message import Message
from broker.entities.queues.delay_queue import DelayQueue
from broker.entities.queues.queue import Queue, QueueContext, QueueSpec
from broker.entities.queues.queue_family import delayed
from broker.entities.vhosts.vhost_context import VHostContext
from storage.batch import LaneState


class DelayedExchanges:
    """Gives the x-delayed-message exchanges of a virtual host their delay queues."""

    def __init__(self, context: VHostContext, queue_context: QueueContext, routing: Routing) -> None:
        self._context = context
        self._queue_context = queue_context
        self._routing = routing

    def attach(self, exchange: Exchange) -> Exchange:
        """Give a new exchange of that type an empty delay queue; return the exchange."""
        if exchange.type == DELAYED_TYPE:
            durable, context = exchange.durable, self._context
            queue_id = context.definitions.new_queue_id() if durable else next(context.transient_ids)
            exchange.delays = self._queue(exchange, queue_id, LaneState())
        return exchange

    def restore(self, exchange: Exchange, queue_id: int, state: LaneState) -> Exchange:
        """Give an exchange of that type its stored delay queue at a start; return the exchange."""
        if exchange.type == DELAYED_TYPE:
            exchange.delays = self._queue(exchange, queue_id, state)
            exchange.delays.restore()
        return exchange

    def _queue(self, exchange: Exchange, queue_id: int, state: LaneState) -> DelayQueue:
        context = self._context
        spec = QueueSpec(f"delayed by exchange {exchange.name}", exchange.durable, False, False, {})
        roles = delayed(context.store_place(CLASSIC, queue_id, {0: state}))
        release = partial(self._release, exchange)
        return DelayQueue(spec, roles, self._queue_context, context.batches, release)

    def _release(self, exchange: Exchange, kept: Message, reached: set[Queue]) -> None:
        """Publish a due message by the present bindings, to queues that it has not reached yet."""
        message, keys, headers = released(kept)
        queues = self._routing.route(exchange, keys, headers, message).queues
        if len(queues) > 1:
            self._routing.share_body(message, queues)
        for queue in queues:
            if queue not in reached:
                hand_over(message, queue)
                reached.add(queue)
                queue.counters.publish += 1
                exchange.counters.publish_out += 1
