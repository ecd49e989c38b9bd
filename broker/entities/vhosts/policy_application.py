"""Policies taking effect: on entities as they appear, and at once on those that are there when a policy changes.

Nothing is asked of policies when messages come and go. What holds for a queue or an exchange is worked out when
its policies change, and put where the declaration's arguments were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.entities.arguments.policies import EXCHANGE, InForce, Policies, Policy, alternate, effective
from broker.entities.vhosts import queue_expiry

if TYPE_CHECKING:
    from broker.entities.exchanges.exchange import Exchange
    from broker.entities.exchanges.routing import Routing
    from broker.entities.queues.queue import Queue
    from broker.entities.vhosts.bindings import Bindings
    from broker.entities.vhosts.vhost_context import VHostContext


class PolicyApplication:
    """Applies the policies of one virtual host to its entities. `expire` ends a queue unused for its `expires`."""

    def __init__(
        self, context: VHostContext, routing: Routing, bindings: Bindings, expire: Callable[[Queue], object]
    ) -> None:
        self._context = context
        self._routing = routing
        self._bindings = bindings
        self._expire = expire
        self.policies = Policies()

    def put(self, policy: Policy, *, operator: bool) -> None:
        """Have a policy hold from now on, in the place of the one of its name."""
        known = self.policies.of(operator=operator)
        before, known[policy.name] = known.get(policy.name, policy), policy
        self._changed(before, policy)

    def remove(self, name: str, *, operator: bool) -> None:
        """Have a policy hold no longer; one that is not there is no error."""
        policy = self.policies.of(operator=operator).pop(name, None)
        if policy is not None:
            self._changed(policy)

    def exchange_appears(self, exchange: Exchange) -> None:
        """Apply policies to an exchange that was declared or recovered."""
        _apply_to_exchange(exchange, self.policies.match(EXCHANGE, exchange.name))

    def queue_appears(self, queue: Queue) -> None:
        """Apply policies to a queue that was declared or recovered. Its messages wait for `Limits.resume`."""
        _apply_to_queue(queue, self.policies.match(queue.type.name, queue.name))
        self._start_expiry(queue)

    def _changed(self, *versions: Policy) -> None:
        """Match again what a policy has applied to, and what it applies to now."""
        for exchange in list(self._routing.exchanges.values()):
            if any(policy.applies(EXCHANGE, exchange.name) for policy in versions):
                self._match_exchange(exchange)
        for queue in list(self._routing.queues.values()):
            if any(policy.applies(queue.type.name, queue.name) for policy in versions):
                self._match_queue(queue)

    def _match_exchange(self, exchange: Exchange) -> None:
        before = exchange.alternate
        self.exchange_appears(exchange)
        if exchange.alternate != before:
            self._bindings.alternate_changed(exchange)

    def _match_queue(self, queue: Queue) -> None:
        """As RabbitMQ does: the time of expiry begins anew, and oldest messages go if that was or is what becomes of
        too many."""
        in_force = self.policies.match(queue.type.name, queue.name)
        if in_force == queue.policies:
            return
        overflow = queue.arguments.overflow
        _apply_to_queue(queue, in_force)
        self._start_expiry(queue)
        if "drop-head" in (overflow, queue.arguments.overflow):
            queue.limits.make_room()
        queue.touch()

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
