"""Personalities: the differences between series of RabbitMQ that clients can see.

Measured on 3.10.8 and 4.3.6; 3.13 and 4.2 are from the sources (v3.13.7, v4.2.9). docs/protocol.md has the table.
Objects read the fields that they need when they are made.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.entities.arguments import consumer_arguments, policy_keys
from broker.entities.arguments.consumer_arguments import ConsumerRules
from broker.entities.arguments.policy_keys import PolicyRules
from broker.entities.arguments.queue_arguments import RULES_OF_3, RULES_OF_4_2, RULES_OF_4_3, ArgumentRules
from broker.entities.arguments.quorum_priorities import QuorumPriorities

Series = tuple[int, int]
"""A series of RabbitMQ, by the first two numbers of its versions; series compare by age."""


class Personality(NamedTuple):
    """A series of RabbitMQ. The default of each field is 3.13's."""

    version: str
    frame_min: int = 4096
    """The smallest frame-max that a client may ask for, in bytes."""
    global_qos: bool = True
    """`basic.qos` with `global` limits the channel; otherwise the flag is ignored."""
    transient_queues: bool = True
    """Queues may be neither durable nor exclusive."""
    master_locator: bool = True
    """Classic queues may have the argument x-queue-master-locator."""
    argument_rules: ArgumentRules = RULES_OF_3
    """The arguments of queue.declare."""
    consumer_rules: ConsumerRules = consumer_arguments.RULES_OF_3
    """The arguments of basic.consume."""
    policy_rules: PolicyRules = policy_keys.RULES_OF_3_13
    """The keys of policies."""
    delivery_limit: int | None = None
    """The default delivery limit of quorum queues; None for none."""
    timeouts_cancel: bool = False
    """A delivery timeout cancels the consumer, to the tenth of a second; otherwise it closes the channel."""
    log_exchange: bool = False
    """The virtual host `/` has the exchange amq.rabbitmq.log, to which nothing is published by default."""
    rechecks_consumers: bool = False
    """connection.update-secret cancels the consumers that may no longer read."""
    nacks_count: bool = True
    """Returns by basic.nack and basic.recover count for the delivery limit."""
    failures_apart: bool = False
    """Returns of a quorum queue by basic.nack and basic.recover are told from failures."""
    acquired_counts: bool = False
    """x-acquired-count of a quorum queue counts all returns, x-delivery-count failures only."""
    zero_counts: bool = True
    """basic.get of a quorum queue shows x-delivery-count 0."""
    carried_counts: bool = False
    """A dead letter takes its delivery count along: a quorum queue counts on."""
    classic_counts: bool = False
    """Classic queues count failures, too, which their dead letters take along."""
    quorum_priorities: QuorumPriorities = QuorumPriorities.NONE
    """The priorities of quorum queues."""
    takeover: bool = False
    """A consumer of higher priority takes over from the single active one of a quorum queue."""
    delayed_retries: bool = False
    """Quorum queues may delay returned messages."""
    purged_dead_letters: bool = False
    """queue.purge of a quorum queue drops the dead letters that no target has accepted yet."""
    last_deaths: bool = True
    """Dead letters have the headers x-last-death-*."""
    sorted_deaths: bool = True
    """The fields of x-death are sorted by name from the second death on; otherwise they begin with the expiration."""
    published_deaths: bool = True
    """An x-death header of a publisher counts on; otherwise the broker's replaces it."""
    returned_replies: bool = True
    """A mandatory direct reply that cannot be delivered is returned."""
    volatile_replies: bool = False
    """A direct reply uses up a delivery tag, and waits for the commit of its transaction."""
    classic_timeouts: bool = True
    """The consumer timeout applies to classic queues and streams."""
    named_actions: bool = False
    """Reply texts of refused permissions begin with configure, write or read."""
    speaks_1_0: bool = False
    """A header of another protocol is answered with that of AMQP 1.0 with SASL."""
    exchange_type_406: bool = False
    """An unknown exchange type closes the channel with 406, not the connection with 503."""
    fallback_type: bool = True
    """A queue that cannot be of its virtual host's default type gets x-queue-type classic."""
    vhost_types: bool = False
    """A virtual host always has a default queue type: the node's, where it was made without one."""
    imported_types: bool = True
    """Definitions change the default queue type of a virtual host that exists."""
    passive_access: bool = False
    """A passive declaration takes a permission on the name: any of configure, write and read."""
    exact_headers: bool = True
    """A headers exchange tells integers from floating-point numbers of the same value."""
    typed_hashes: bool = True
    """x-consistent-hash hashes a header with the name of its type."""
    modulus_by_name: bool = False
    """x-modulus-hash sorts destinations by name, not by binding key."""
    max_priority_min: int = 0
    """The smallest x-max-priority that has an effect; a smaller one counts as this."""
    topic_wildcards_max: int = 0
    """Most words `#` in the binding key of a topic exchange; 0: any number."""
    delivery_modes: bool = True
    """A delivery mode other than 1 and 2 is refused."""
    stream_texts: bool = True
    """Refused consumers of streams have 3.x's reply texts."""
    stream_returns: bool = True
    """basic.nack, basic.reject and basic.recover of a stream's delivery are refused; otherwise they acknowledge it."""
    quoted_types: bool = False
    """A refused basic.get of a queue with a single active consumer shows the type as Erlang does."""
    bare_limits: bool = False
    """The user's limit of channels stands in the reply text without brackets."""
    deprecation_states: bool = False
    """`/api/deprecated-features` says which are permitted."""
    protection: bool = False
    """Virtual hosts may be protected from deletion, and users from the HTTP API."""
    message_sizes: bool = False
    """The sizes of published messages are counted."""
    hidden_vhosts: bool = False
    """The HTTP API answers 404 to those who may not enter a virtual host, and lets an administrator into any."""
    login_refusal: str = "Login failed"
    """The reason that the HTTP API gives to a wrong password."""
    named_headers: bool = False
    """Each answer of the HTTP API has the headers Allow and Cache-Control; its policy for scripts is strict."""

    @property
    def series(self) -> Series:
        """The series, for the rows of tables that name the first or the last one that has them."""
        major, minor, _ = self.version.split(".")
        return int(major), int(minor)

    @property
    def series_name(self) -> str:
        """The version without its last number, by which a personality is chosen."""
        return self.version.rpartition(".")[0]


_OF_4_2 = Personality(
    "4.2.9",
    frame_min=8192,
    argument_rules=RULES_OF_4_2,
    policy_rules=policy_keys.RULES_OF_4_2,
    consumer_rules=consumer_arguments.RULES_OF_4,
    delivery_limit=20,
    sorted_deaths=False,
    failures_apart=True,
    zero_counts=False,
    carried_counts=True,
    quorum_priorities=QuorumPriorities.TWO,
    takeover=True,
    published_deaths=False,
    returned_replies=False,
    volatile_replies=True,
    typed_hashes=False,
    max_priority_min=1,
    named_actions=True,
    speaks_1_0=True,
    exchange_type_406=True,
    passive_access=True,
    delivery_modes=False,
    stream_returns=False,
    stream_texts=False,
    quoted_types=True,
    vhost_types=True,
    bare_limits=True,
    deprecation_states=True,
    protection=True,
    message_sizes=True,
    hidden_vhosts=True,
    login_refusal="Not_Authorized",
    named_headers=True,
)

PERSONALITIES = {
    "3.10": Personality(
        "3.10.8",
        policy_rules=policy_keys.RULES_OF_3_10,
        last_deaths=False,
        fallback_type=False,
        imported_types=False,
        exact_headers=False,
    ),
    "3.13": Personality("3.13.7"),
    "4.2": _OF_4_2,
    "4.3": _OF_4_2._replace(
        version="4.3.6",
        global_qos=False,
        transient_queues=False,
        master_locator=False,
        argument_rules=RULES_OF_4_3,
        policy_rules=policy_keys.RULES_OF_4_3,
        classic_timeouts=False,
        timeouts_cancel=True,
        log_exchange=True,
        rechecks_consumers=True,
        nacks_count=False,
        acquired_counts=True,
        classic_counts=True,
        quorum_priorities=QuorumPriorities.STRICT,
        delayed_retries=True,
        purged_dead_letters=True,
        topic_wildcards_max=2,
        modulus_by_name=True,
    ),
}
LATEST = {"4": "4.3"}
"""Series by their major number alone."""
DEFAULT = PERSONALITIES["3.13"]
