"""Methods as a later series of RabbitMQ would treat them, for the rehearsal: each function is called after this one has
accepted the method, and only where there is a watch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.entities.arguments import consumer_arguments, queue_arguments
from broker.entities.arguments.personality import Personality
from broker.entities.arguments.queue_types import QUORUM
from broker.entities.arguments.quorum_priorities import QuorumPriorities
from broker.entities.exchanges.exchange import Binding
from broker.entities.exchanges.topic_trie import check_wildcards
from broker.entities.messages.message import Message
from broker.entities.queues.streams.stream_queue import Stream
from broker.entities.rehearsal import rehearsal_rules as rules
from broker.entities.rehearsal.rehearsal_watch import RehearsalWatch
from broker.entities.vhosts.equivalence import assert_queue_equivalent
from broker.session.channel.direct_reply import is_address
from broker.session.channel.permissions import Access
from broker.session.methods import deprecated_features
from broker.wire import methods
from broker.wire.amqp_errors import ChannelException
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import Table
from broker.wire.properties import PropertySummary, body_size

if TYPE_CHECKING:
    from broker.entities.queues.queue import Queue, QueueSpec
    from broker.session.channel.channel import Channel


# Declarations


def declares(watch: RehearsalWatch, channel: Channel, spec: QueueSpec, *, there: bool) -> None:
    """Note a declaration of a queue: of a new one, or of one that is `there`."""
    vhost = channel.vhost.name
    if there:
        found = channel.vhost.queues[spec.name]
        compared = watch.refused(lambda each: assert_queue_equivalent(found, vhost, spec, each.argument_rules))
        _note(watch, channel, rules.REDECLARATION, ("queue", spec.name), *compared)
    _declared_features(watch, channel, spec)
    refused = watch.refused(lambda each: queue_arguments.check(spec.name, vhost, spec.arguments, each.argument_rules))
    _note(watch, channel, rules.QUEUE_ARGUMENT, ("queue", spec.name), *refused)


def _declared_features(watch: RehearsalWatch, channel: Channel, spec: QueueSpec) -> None:
    """Note the deprecated features of a queue; the first one is refused."""
    subject = ("queue", spec.name)
    if not (spec.durable or spec.exclusive or watch.target.transient_queues) and watch.own.transient_queues:
        watch.note(rules.TRANSIENT_QUEUE, channel.vhost.name, subject, channel.client_name)
        return
    refused = watch.refused(lambda each: _check_features(each, spec))
    if refused[0]:
        watch.note(rules.MASTER_LOCATOR, channel.vhost.name, subject, channel.client_name)


def _check_features(personality: Personality, spec: QueueSpec) -> None:
    """Raise NotPermitted for the argument x-queue-master-locator."""
    deprecated_features.check_new_queue(personality, spec.arguments, durable=True, exclusive=spec.exclusive)


def binds(watch: RehearsalWatch, channel: Channel, binding: Binding) -> None:
    """Note a binding whose key a later series refuses."""
    source = binding.source
    if source.type != "topic":
        return

    def check(personality: Personality) -> None:
        if personality.topic_wildcards_max:
            check_wildcards(binding.key, personality.topic_wildcards_max)

    _note(watch, channel, rules.TOPIC_WILDCARDS, ("exchange", source.name), *watch.refused(check))


def declares_passively(watch: RehearsalWatch, channel: Channel, kind: str, name: str) -> None:
    """Note a passive declaration by a user who has no permission on the name."""
    access = channel.access

    def check(personality: Personality) -> None:
        other = Access(access.users, access.user, access.vhost, personality)
        (other.know_queue if kind == "queue" else other.know_exchange)(name)
        if personality.passive_access and not name:
            raise ChannelException(ReplyCode.ACCESS_REFUSED, "operation not permitted on the default exchange")

    _note(watch, channel, rules.PASSIVE_DECLARATION, (kind, name), *watch.refused(check))


def _note(
    watch: RehearsalWatch, channel: Channel, rule: rules.Rule, subject: tuple[str, str], since: str, detail: str
) -> None:
    if since:
        watch.note(rule, channel.vhost.name, subject, channel.client_name, detail, since=since)


# Consumers


def limits_channel(watch: RehearsalWatch, channel: Channel, prefetch: int) -> None:
    """Note a basic.qos with global, before it takes effect."""
    if watch.target.global_qos:
        return
    changed = bool(channel.consumers) and channel.prefetch_all != prefetch and watch.own.global_qos
    queue = next(iter(channel.consumers.values())).queue.name if changed else ""
    subject = ("queue", queue) if changed else ("channel", f"{channel.number}")
    rule = rules.GLOBAL_QOS if changed else rules.GLOBAL_QOS_FLAG
    detail = f"limit {prefetch}, {len(channel.consumers)} consumers have started before" if changed else ""
    watch.note(rule, channel.vhost.name, subject, channel.client_name, detail)


def consumes(
    watch: RehearsalWatch, channel: Channel, queue: Queue, method: methods.BasicConsume, priority: int
) -> None:
    """Note a consumer that is about to start."""
    subject, vhost = ("queue", queue.name), channel.vhost.name
    refused = watch.refused(lambda each: _check_consumer(each, vhost, queue, method.arguments))
    _note(watch, channel, rules.CONSUMER_ARGUMENT, subject, *refused)
    if channel.prefetch_all and channel.consumers and not watch.target.global_qos:
        detail = f"limit {channel.prefetch_all}, now {len(channel.consumers) + 1} consumers share it"
        watch.note(rules.GLOBAL_QOS, vhost, subject, channel.client_name, detail)
    single = queue.type is QUORUM and queue.arguments.single_active_consumer
    takes_over = single and watch.target.takeover and not watch.own.takeover
    if takes_over and any(other.priority < priority for other in queue.consumers.members):
        watch.note(rules.CONSUMER_TAKEOVER, vhost, subject, channel.client_name)


def _check_consumer(personality: Personality, vhost: str, queue: Queue, arguments: Table) -> None:
    """Raise ChannelException 406 for arguments that a series refuses."""
    where = f"queue '{queue.name}' in vhost '{vhost}'"
    consumer_arguments.check(queue.type, where, arguments, personality.consumer_rules)
    if personality.timeouts_cancel:
        queue_arguments.check_consumer_timeout(queue.type, queue.name, vhost, arguments, personality.argument_rules)
    if not isinstance(queue, Stream):
        consumer_arguments.check_values(where, arguments, personality.consumer_rules)


# Publishes


def is_looked_at(watch: RehearsalWatch, channel: Channel, header: bytes, summary: PropertySummary) -> bool:
    """Return whether publishes with a content header are to go the general way, where `publishes` sees them.

    Notes a message that is too large: a header has the size of the body.
    """
    if watch.message_bytes_max and body_size(header) > watch.message_bytes_max:
        detail = f"{body_size(header)} bytes"
        watch.note(
            rules.MESSAGE_SIZE, channel.vhost.name, ("channel", f"{channel.number}"), channel.client_name, detail
        )
    prioritized = watch.own.quorum_priorities is not watch.target.quorum_priorities
    return prioritized and summary.priority is not None


def publishes(watch: RehearsalWatch, channel: Channel, summary: PropertySummary, queues: tuple[Queue, ...]) -> None:
    """Note a publish that is not plain, before its message is put into queues."""
    vhost, client = channel.vhost.name, channel.client_name
    if watch.own.published_deaths and not watch.target.published_deaths and b"x-death" in (summary.headers or b""):
        for queue in queues:
            if queue.arguments.dead_letter_exchange is not None:
                watch.note(rules.PUBLISHED_DEATHS, vhost, ("queue", queue.name), client)
    if summary.priority is not None:
        for queue in queues:
            _note_priority(watch, channel, queue, summary.priority)


def _note_priority(watch: RehearsalWatch, channel: Channel, queue: Queue, priority: int) -> None:
    """Note a message that overtakes others, or that others will overtake: some of another level are ready."""
    own, then = watch.own.quorum_priorities, watch.target.quorum_priorities
    if queue.type is not QUORUM or own is then or own is not QuorumPriorities.NONE or not queue.ready:
        return
    head = queue.ready_messages.head
    given = None if head is None or head.message is None else head.message.given_priority
    if then.level(priority) > then.level(given):
        detail = f"priority {priority} behind {'none' if given is None else given}"
        watch.note(rules.PRIORITY_ORDER, channel.vhost.name, ("queue", queue.name), channel.client_name, detail)


def misses(watch: RehearsalWatch, channel: Channel, message: Message) -> None:
    """Note a mandatory direct reply that is about to be returned."""
    answer = not message.exchange and is_address(message.routing_key)
    if answer and watch.own.returned_replies and not watch.target.returned_replies:
        watch.note(rules.MANDATORY_REPLY, channel.vhost.name, ("exchange", ""), channel.client_name)
