"""Application of policies to new entities, and to existing ones when a policy changes.

Publishing and delivering look up no policy: the arguments in force are computed when an entity's policies change, and
stored in place of the declared ones. With many entities one portion is done per turn, with others' turns in between;
each entity has either its old policies or all of its new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from broker.entities.arguments.policies import InForce, Policy, alternate, effective
from broker.entities.arguments.policy_keys import EXCHANGE
from broker.entities.arguments.policy_matching import Policies
from broker.entities.queues.events.queue_events import Arguments, told_arguments
from broker.entities.scheduling.background_work import MESSAGE_BYTES
from broker.entities.scheduling.future import Future
from broker.entities.vhosts import queue_expiry

if TYPE_CHECKING:
    from broker.entities.exchanges.exchange import Exchange
    from broker.entities.exchanges.routing import Routing
    from broker.entities.queues.queue import Queue
    from broker.entities.vhosts.bindings import Bindings
    from broker.entities.vhosts.vhost_context import VHostContext


_Changes = dict[tuple[bool, str], Policy | None]
"""Changed policies by (is an operator policy, name); None for a removed one."""


class PolicyApplication:
    """Applies the policies of one virtual host to its entities. `expire` deletes a queue unused for its `expires`."""

    def __init__(
        self,
        vhost: str,
        context: VHostContext,
        routing: Routing,
        bindings: Bindings,
        expire: Callable[[Queue], object],
    ) -> None:
        self._context = context
        self._routing = routing
        self._bindings = bindings
        self._expire = expire
        self.policies = Policies(vhost, context.personality.policy_rules)
        self._waiting: _Changes = {}
        """Policies that have changed since the present walk over the entities began."""
        self._walk: Future[None] = Future.resolved(None)
        self._next_walk: Future[None] | None = None

    def put(self, policy: Policy, *, operator: bool) -> Future[None]:
        """Set a policy, replacing the one of its name; settled once it is applied to all entities."""
        self.policies.kind(operator=operator).put(policy)
        return self._changed(policy.name, policy, operator=operator)

    def remove(self, name: str, *, operator: bool) -> Future[None]:
        """Remove a policy; settled once it is applied nowhere. No error if there is no such policy."""
        if self.policies.kind(operator=operator).remove(name) is None:
            return Future.resolved(None)
        return self._changed(name, None, operator=operator)

    def exchange_appears(self, exchange: Exchange) -> None:
        """Apply policies to an exchange that was declared or recovered."""
        _apply_to_exchange(exchange, self.policies.match(EXCHANGE, exchange.name))

    def queue_appears(self, queue: Queue) -> None:
        """Apply policies to a queue that was declared or recovered. `QueueLimits.resume` applies limits to messages."""
        _apply_to_queue(queue, self.policies.match(queue.type.name, queue.name))
        if queue.events is not None:
            queue.events.declared(
                queue.type.name,
                durable=queue.durable,
                priorities=queue.highest_priority,
                arguments=self._told(queue),
                policies=queue.policies,
            )
        self._start_expiry(queue)

    def _changed(self, name: str, policy: Policy | None, *, operator: bool) -> Future[None]:
        """Match the entities that a policy applied to, or applies to now. Changes during a walk are done in the
        next."""
        self._waiting[operator, name] = policy
        # One walk at a time, so that a hundred changed policies are two walks and not a hundred.
        if self._walk.done:
            return self._begin_walk()
        if self._next_walk is None:
            self._next_walk = self._walk.chain(lambda _: self._begin_walk())
        return self._next_walk

    def _begin_walk(self) -> Future[None]:
        changes, self._waiting, self._next_walk = self._waiting, {}, None
        self._walk = self._context.background_work.begin(self._match_all(changes))
        return self._walk

    def _match_all(self, changes: _Changes) -> Iterator[int | None]:
        """Match one entity per step. Deleted ones are skipped; new ones are matched when they appear."""
        exchanges, queues = self._routing.exchanges, self._routing.queues
        for exchange in list(exchanges.values()):
            concerned = exchanges.get(exchange.name) is exchange and self._concerns(changes, exchange, EXCHANGE)
            if concerned:
                self._match_exchange(exchange)
            yield None if concerned else MESSAGE_BYTES
        for queue in list(queues.values()):
            concerned = queues.get(queue.name) is queue and self._concerns(changes, queue, queue.type.name)
            if concerned:
                self._match_queue(queue)
            yield None if concerned else MESSAGE_BYTES

    def _concerns(self, changes: _Changes, entity: Queue | Exchange, kind: str) -> bool:
        """Return whether one of the changed policies was in force for an entity, or could be."""
        in_force = (entity.policies.policy, entity.policies.operator)
        for (operator, name), policy in changes.items():
            current = in_force[operator]
            if current is not None and current.name == name:
                return True
            if policy is not None and self.policies.kind(operator=operator).applies(policy, kind, entity.name):
                return True
        return False

    def _match_exchange(self, exchange: Exchange) -> None:
        before = exchange.alternate
        self.exchange_appears(exchange)
        if exchange.alternate != before:
            self._bindings.alternate_changed(exchange)

    def _match_queue(self, queue: Queue) -> None:
        """Apply changed policies to a queue. As in RabbitMQ, this restarts `expires`, and with overflow drop-head,
        before or after the change, drops the oldest messages beyond the limit."""
        in_force = self.policies.match(queue.type.name, queue.name)
        if in_force == queue.policies:
            return
        overflow = queue.arguments.overflow
        _apply_to_queue(queue, in_force)
        if queue.events is not None:
            queue.events.governed(self._told(queue), in_force)
        self._start_expiry(queue)
        if "drop-head" in (overflow, queue.arguments.overflow):
            queue.limits.drop_excess()
        queue.touch()

    def _told(self, queue: Queue) -> Arguments:
        return told_arguments(queue.type, queue.arguments, self._context.personality.delivery_limit)

    def _start_expiry(self, queue: Queue) -> None:
        queue_expiry.begin(queue, self._context.timers, self._context.now, self._expire)


def _apply_to_queue(queue: Queue, in_force: InForce) -> None:
    if in_force != queue.policies:
        queue.policies = in_force
        queue.arguments = effective(queue.spec.arguments, in_force)
        queue.limits.set(queue.arguments)


def _apply_to_exchange(exchange: Exchange, in_force: InForce) -> None:
    exchange.policies = in_force
    if exchange.name:  # the default exchange has policies, and RabbitMQ asks it for no alternate exchange
        exchange.alternate = alternate(exchange.arguments, in_force)
