"""Tests of this folder that fail on RabbitMQ 4.3, and on Leveret with that personality: a table with the reason of each.

The tests state what RabbitMQ 3.10 does. LEVERET_REFERENCE_SERIES=4.3 says that the reference is a 4.3: CHANGED must
fail then, and may do so on a RabbitMQ as on a Leveret, DIFFERENT on one of the two. What 4.3 does instead is asserted
in `connection/test_personalities.py` and the files named `..._of_4_3`; docs/protocol.md has a row for each reason.
"""

from __future__ import annotations

from collections.abc import Mapping

GLOBAL_QOS = "basic.qos with global is one without"
REPLIES = "a direct reply is a delivery, and counts as routed"
RETURNS = "which returns count, the headers of the counts, the default limit, the place of what is returned"
DEATHS = "an x-death of a publisher is delivered and then replaced; the order of its fields"
PROTOCOLS = "other protocols are answered with AMQP 1.0's header"
POLICY_KEYS = "the keys of policies are others"
STREAM_RETURNS = "basic.nack and basic.reject of a stream's delivery acknowledge it"
STREAM_TEXTS = "reply texts of streams"
FAILOVER = "x-cancel-on-ha-failover is no argument any more"

AS_PUBLISHED = "RabbitMQ sorts headers, and writes some properties anew; Leveret passes them byte for byte"
CRASHES = "RabbitMQ crashes (541); Leveret refuses"
TEXTS = "RabbitMQ shows names that are not ASCII with /utf8"
ON_PURPOSE = "differs from 3.10 on purpose, too"

CHANGED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "basic/test_consume.py::test_both_limits_at_once": (GLOBAL_QOS, ()),
    "basic/test_consume.py::test_prefetch_of_a_channel_holds_for_all_its_consumers": (GLOBAL_QOS, ()),
    "basic/test_consume.py::test_who_does_not_acknowledge_waits_for_the_limit_of_the_channel": (GLOBAL_QOS, ()),
    "basic/test_direct_reply.py::test_an_address_ends_with_its_consumer": (REPLIES, ()),
    "basic/test_direct_reply.py::test_an_answer_has_its_content_and_no_tag_of_its_own": (REPLIES, ()),
    "basic/test_direct_reply.py::test_an_answer_is_confirmed_and_if_mandatory_returned_too": (REPLIES, ()),
    "basic/test_direct_reply.py::test_how_an_answer_gets_there": (REPLIES, ()),
    "basic/test_publish.py::test_properties_that_are_refused": ("any delivery mode is accepted", ("delivery_mode",)),
    "connection/test_handshake.py::test_any_other_version_is_told_the_right_one": (
        PROTOCOLS,
        ("AMQP\\x00\\x01\\x00\\x00", "AMQP\\x03\\x01\\x00\\x00", "GET / HTTP", "\\x16\\x03"),
    ),
    "connection/test_handshake.py::test_content_is_split_at_the_negotiated_frame_size": ("frames of 8,192 or more", ()),
    "exchanges/test_exchange.py::test_what_is_refused": (
        "an unknown exchange type is 406",
        ("a plug-in's type", "nobody's type", "type first", "unknown type"),
    ),
    "exchanges/test_hash_exchanges.py::test_all_routing_keys_are_hashed": ("x-modulus-hash sorts by name", ()),
    "exchanges/test_hash_exchanges.py::test_the_remainder_chooses_the_binding": ("x-modulus-hash sorts by name", ()),
    "exchanges/test_recent_history.py::test_a_stream_gets_nothing_of_the_past": ("a stream is a queue as others", ()),
    "queues/test_arguments.py::test_a_second_declaration_is_compared": (
        "every queue has x-queue-type; x-max-age in milliseconds",
        (
            "x-queue-type-received none",
            "x-queue-type-received the",
            "-{'x-queue-type': 'stream', 'x-max-age': '60m'}",
            "x-max-age-received the value",
        ),
    ),
    "queues/test_arguments.py::test_arguments_of_consumers": (FAILOVER, ("x-cancel-on-ha-failover",)),
    "queues/test_arguments.py::test_arguments_that_are_accepted": ("x-queue-version 1 is refused", ("[classic]",)),
    "queues/test_arguments.py::test_values_that_are_refused": ("any x-queue-mode will do", ("classic-x-queue-mode",)),
    "queues/test_dead_letters.py::test_a_publisher_s_entries_of_one_queue_and_reason_are_one": (DEATHS, ()),
    "queues/test_dead_letters.py::test_a_rejected_message_in_full": (DEATHS, ()),
    "queues/test_dead_letters.py::test_dying_again_of_the_same_counts_on": (DEATHS, ()),
    "queues/test_dead_letters.py::test_what_a_publisher_wrote_into_x_death": (
        DEATHS,
        ("[array of an empty table]", "[empty]", "[table]", "[text]"),
    ),
    "queues/test_policies.py::test_a_delivery_limit_counts_for_messages_that_are_there": (RETURNS, ()),
    "queues/test_policies.py::test_a_key_of_other_types_of_queue_keeps_a_policy_away": (POLICY_KEYS, ()),
    "queues/test_policies.py::test_quorum_queues_and_streams_have_keys_of_their_own": (POLICY_KEYS, ()),
    "queues/test_policies.py::test_what_cannot_be_read_is_refused": (POLICY_KEYS, ()),
    "queues/test_policies.py::test_what_makes_no_sense_is_refused": (
        POLICY_KEYS,
        ("delivery limit", "queue-master-locator", "[definition26", "ha-"),
    ),
    "queues/test_quorum.py::test_a_cancelled_consumer_keeps_what_it_has": (RETURNS, ()),
    "queues/test_quorum.py::test_a_consumer_is_told_how_often_a_message_went_out_before": (RETURNS, ()),
    "queues/test_quorum.py::test_a_consumer_with_credit_gets_others_before_what_it_gave_back": (RETURNS, ()),
    "queues/test_quorum.py::test_a_limit_of_nothing_means_one_delivery": (RETURNS, ("[False]",)),
    "queues/test_quorum.py::test_a_limit_that_is_no_integer": (RETURNS, ("[1.5-2]",)),
    "queues/test_quorum.py::test_a_message_that_came_back_too_often_is_a_dead_letter": (RETURNS, ()),
    "queues/test_quorum.py::test_a_message_that_is_got_tells_its_count_from_the_first_time": (RETURNS, ()),
    "queues/test_quorum.py::test_a_negative_limit_buries_at_once": (RETURNS, ()),
    "queues/test_quorum.py::test_a_single_active_consumer_is_followed_by_the_next": (RETURNS, ()),
    "queues/test_quorum.py::test_dead_letters_that_nobody_takes_wait_and_count_as_messages_of_the_queue": (RETURNS, ()),
    "queues/test_quorum.py::test_every_way_back_counts": (RETURNS, ()),
    "queues/test_quorum.py::test_prefetch_of_the_whole_channel_is_not_implemented": (GLOBAL_QOS, ()),
    "queues/test_quorum.py::test_what_comes_back_may_be_too_much": (RETURNS, ("[None-b'2'-[b'3', b'1']]",)),
    "queues/test_quorum.py::test_where_what_is_given_back_goes": (RETURNS, ()),
    "queues/test_streams.py::test_a_consumer_needs_a_prefetch": (STREAM_TEXTS, ()),
    "queues/test_streams.py::test_classic_deliveries_come_back_when_a_stream_refuses": (STREAM_RETURNS, ()),
    "queues/test_streams.py::test_nothing_is_given_back": (STREAM_RETURNS, ()),
    "queues/test_streams.py::test_offsets_that_rabbitmq_crashes_over": (STREAM_TEXTS, ("[-1]", "[]", "[foo]")),
    "queues/test_streams.py::test_recovering_a_stream": (STREAM_RETURNS, ()),
    "queues/test_streams.py::test_what_streams_do_not_do": (STREAM_TEXTS, ()),
}
"""By test: the reason, and parts of the ids of the parameters that it holds for; none for all."""

DIFFERENT: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "basic/test_direct_reply.py::test_what_it_is_no_queue_for": (CRASHES, ("ask for nobody",)),
    "basic/test_publish.py::test_properties_that_are_accepted": (AS_PUBLISHED, ("expiration='+60000'",)),
    "connection/test_channel.py::test_methods_that_end_the_connection": (CRASHES, ("basic.cancel-ok",)),
    "connection/test_fidelity.py::test_every_field_type_of_the_dialect": (AS_PUBLISHED, ("[b'L",)),
    "connection/test_fidelity.py::test_header_order_and_duplicates_stay": (AS_PUBLISHED, ()),
    "connection/test_large_tables.py::test_a_message_keeps_its_headers": (AS_PUBLISHED, ("equal-names",)),
    "connection/test_large_tables.py::test_headers_may_be_nested_at_will": (ON_PURPOSE, ("[65]", "[10000]")),
    "exchanges/test_hash_exchanges.py::test_binding_keys_are_weights": (TEXTS, ("\\xe9", "\\u20ac")),
    "exchanges/test_recent_history.py::test_a_bound_exchange_must_have_a_queue_for_each_message": (ON_PURPOSE, ()),
    "exchanges/test_recent_history.py::test_impossible_lengths": (TEXTS, ("\\xe9",)),
    "queues/test_dead_letters.py::test_which_keys_count": (
        "RabbitMQ keeps CC beside a routing key of the queue's own",
        ("one of the queue",),
    ),
    "queues/test_quorum.py::test_too_many_messages_lose_the_oldest": (
        "RabbitMQ counts properties for x-max-length-bytes",
        ("max_length_bytes",),
    ),
    "queues/test_streams.py::test_conditions_of_deleting": (ON_PURPOSE, ()),
    "queues/test_streams.py::test_counts_of_a_declaration": (ON_PURPOSE, ()),
    "queues/test_streams.py::test_offsets_that_rabbitmq_crashes_over": (
        CRASHES,
        ("[1.5]", "[None]", "[True]", "[[1]]"),
    ),
    "queues/test_streams.py::test_the_offset_is_a_header": (AS_PUBLISHED, ()),
}
"""Tests that a RabbitMQ 4.3 or a Leveret fails, and not both."""


def reason(table: Mapping[str, tuple[str, tuple[str, ...]]], node: str) -> str:
    """Return why a table has a test; empty if it has not."""
    test, bracket, parameters = node.partition("[")
    why, parts = table.get(test.partition("tests/conformance/")[2], ("", ()))
    return why if not parts or any(part in bracket + parameters for part in parts) else ""
