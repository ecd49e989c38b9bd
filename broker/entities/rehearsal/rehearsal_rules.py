"""The rules of the rehearsal: each is one difference of a later series of RabbitMQ that an application can meet.

Each was measured on 4.3.6. docs/rehearsal.md has a row for each, under its name.
"""

from __future__ import annotations

from typing import NamedTuple

REFUSED, CHANGED, DEPRECATED = "refused", "changed", "deprecated"
"""Levels: a method or definition fails; it works, with another effect; it works, and is to be removed."""
PAGE = "rehearsal.md"


class Rule(NamedTuple):
    """A difference. The text completes "queue 'orders': ..."; `since` is empty where the arguments decide it."""

    name: str
    since: str
    level: str
    text: str
    remedy: str

    @property
    def documentation(self) -> str:
        """The place in the documentation."""
        return f"{PAGE}#{self.name}"


TRANSIENT_QUEUE = Rule(
    "transient-queue",
    "4.3",
    REFUSED,
    "neither durable nor exclusive: the declaration is refused with 541, which closes the connection",
    "declare it exclusive, or durable (with x-expires if it is to go away); until then permit it in rabbitmq.conf: "
    "deprecated_features.permit.transient_nonexcl_queues = true",
)
MASTER_LOCATOR = Rule(
    "master-locator",
    "4.3",
    REFUSED,
    "the argument x-queue-master-locator is refused with 541, which closes the connection",
    "leave the argument out, or use x-queue-leader-locator",
)
QUEUE_ARGUMENT = Rule(
    "queue-argument", "", REFUSED, "the declaration is refused with 406", "correct the argument, or leave it out"
)
REDECLARATION = Rule(
    "redeclaration",
    "",
    REFUSED,
    "declared again with another value of an argument that is compared: refused with 406",
    "declare it everywhere with the same arguments",
)
CONSUMER_ARGUMENT = Rule(
    "consumer-argument", "", REFUSED, "basic.consume is refused with 406", "correct the argument, or leave it out"
)
TOPIC_WILDCARDS = Rule(
    "topic-wildcards",
    "4.3",
    REFUSED,
    "a topic binding key may have two words # at most: the binding is refused with 406",
    "write the key with fewer #, or bind with several keys",
)
POLICY = Rule(
    "policy",
    "",
    REFUSED,
    "the policy is refused, and so are definitions that have it",
    "take the key out of the policy",
)
FRAME_SIZE = Rule(
    "frame-size",
    "4.2",
    REFUSED,
    "the client asks for frames below 8192 bytes: its socket is closed without a reason",
    "set the client's frame_max to 8192 or more, or 131072, the default of RabbitMQ",
)
MESSAGE_SIZE = Rule(
    "message-size",
    "4.2",
    REFUSED,
    "a message is larger than 16 MiB, the default of max_message_size: refused with 406",
    "send a reference instead of the content, or set max_message_size in rabbitmq.conf",
)
PASSIVE_DECLARATION = Rule(
    "passive-declaration",
    "4.2",
    REFUSED,
    "declared passively by a user without any permission on the name: refused with 403",
    "give the user configure, write or read on the name",
)
GLOBAL_QOS = Rule(
    "global-qos",
    "4.3",
    CHANGED,
    "basic.qos with global limits no channel: each consumer that starts later has the limit by itself, and those that "
    "have started keep the one that they had",
    "set the limit without global, before basic.consume; to limit several consumers together, use one consumer",
)
GLOBAL_QOS_FLAG = Rule(
    "global-qos-flag",
    "4.3",
    DEPRECATED,
    "basic.qos has the flag global, which is ignored; with one consumer, started later, nothing else changes",
    "set the limit without global",
)
DELIVERY_LIMIT = Rule(
    "delivery-limit",
    "4.2",
    CHANGED,
    "a message that is returned more often than the delivery limit, 20 by default, is dropped or dead-lettered",
    "give the queue a dead letter exchange; another limit by x-delivery-limit or the policy delivery-limit (-1: none)",
)
ENDLESS_RETURNS = Rule(
    "endless-returns",
    "4.3",
    CHANGED,
    "would loop on 4.3: returned by basic.nack or basic.recover, which do not count for the delivery limit",
    "return it by basic.reject, which counts, or reject it without requeue to a dead letter exchange; "
    "x-delayed-retry-type slows the loop",
)
RETURN_ORDER = Rule(
    "return-order",
    "4.2",
    CHANGED,
    "a message that its consumer returns comes again before those that wait; before, it went to the end",
    "reject it without requeue to a queue for retries, or delay it by x-delayed-retry-type",
)
DELIVERY_COUNT = Rule(
    "delivery-count",
    "4.3",
    CHANGED,
    "the header x-delivery-count does not count returns by basic.nack and basic.recover; x-acquired-count does",
    "read x-acquired-count where it is there",
)
PRIORITY_ORDER = Rule(
    "priority-order",
    "4.2",
    CHANGED,
    "the queue delivers messages of higher priority first; before, in publish order",
    "publish without a priority where the order matters",
)
PUBLISHED_DEATHS = Rule(
    "published-deaths",
    "4.2",
    CHANGED,
    "x-death of a publisher is not counted on when the message dies again: its counts begin at 1",
    "count retries in a header of your own, or let the broker do them by dead letter exchanges alone",
)
CONSUMER_TIMEOUT = Rule(
    "consumer-timeout",
    "4.3",
    CHANGED,
    "a delivery was not acknowledged in time, which closed the channel: in 4.3 a consumer of a quorum queue is "
    "cancelled instead, and one of a classic queue or stream keeps the message",
    "handle basic.cancel from the broker; set x-consumer-timeout on quorum queues that need another time",
)
CONSUMER_TAKEOVER = Rule(
    "consumer-takeover",
    "4.2",
    CHANGED,
    "a consumer of higher priority takes over from the single active one",
    "give the consumers the same x-priority",
)
MANDATORY_REPLY = Rule(
    "mandatory-reply",
    "4.2",
    CHANGED,
    "a mandatory direct reply is not returned, whether the client that asked is there or has gone; before, it was",
    "publish replies without mandatory",
)
LIMIT_SHOWN = Rule(
    "limit-shown",
    "4.2",
    CHANGED,
    "the management API shows a delivery_limit, which the application asks for",
    "set x-delivery-limit or the policy delivery-limit to the value that the application expects, before the upgrade",
)
DEFAULT_LIMIT = Rule(
    "default-limit",
    "4.2",
    CHANGED,
    "quorum queues without a delivery limit get one: a message returned more often is dropped, or dead-lettered",
    "give them a dead letter exchange, or the limit that is meant, by x-delivery-limit or the policy delivery-limit",
)
POLICY_SCOPE = Rule(
    "policy-scope",
    "4.2",
    CHANGED,
    "another policy applies to queues: a policy with a key that a queue type does not support passes its queues over",
    "set apply-to to the queue type that is meant, one policy for each type",
)
CONF_KEY = Rule(
    "conf-key",
    "4.3",
    REFUSED,
    "the setting, or its value, is gone: a node with it does not start",
    "take the line out of rabbitmq.conf",
)
CONF_RENAMED = Rule(
    "conf-renamed", "4.3", DEPRECATED, "the setting has another name; the old one still works", "use the new name"
)
CONF_PERMIT = Rule(
    "conf-permit",
    "4.3",
    DEPRECATED,
    "the feature is gone and cannot be permitted; the line has no effect",
    "take the line out of rabbitmq.conf",
)
CONF_TIMEOUT = Rule(
    "conf-timeout",
    "4.3",
    CHANGED,
    "the timeout applies to quorum queues alone, whose consumers it cancels; classic queues and streams wait for ever",
    "set x-consumer-timeout or the policy consumer-timeout on quorum queues that need another time",
)
RULES = {
    rule.name: rule
    for rule in (
        *(TRANSIENT_QUEUE, MASTER_LOCATOR, QUEUE_ARGUMENT, REDECLARATION, CONSUMER_ARGUMENT, TOPIC_WILDCARDS, POLICY),
        *(FRAME_SIZE, MESSAGE_SIZE, PASSIVE_DECLARATION, GLOBAL_QOS, GLOBAL_QOS_FLAG, DELIVERY_LIMIT, ENDLESS_RETURNS),
        *(RETURN_ORDER, DELIVERY_COUNT, PRIORITY_ORDER, PUBLISHED_DEATHS, CONSUMER_TIMEOUT, CONSUMER_TAKEOVER),
        *(MANDATORY_REPLY, LIMIT_SHOWN, DEFAULT_LIMIT, POLICY_SCOPE, CONF_KEY, CONF_RENAMED, CONF_PERMIT, CONF_TIMEOUT),
    )
}
"""By name, in the order in which they are shown."""
