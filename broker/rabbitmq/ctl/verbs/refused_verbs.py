"""Verbs that RabbitMQ has and a broker of one node without Erlang cannot have: why not, in one line."""

from __future__ import annotations

from broker.rabbitmq.ctl.verb_lines import SERIES

ERLANG = "there is no Erlang here"
ONE_NODE = "there is one node, and no cluster that it could join or leave"
NO_RESET = "for an empty broker, start it on another data directory"
LOG = "the log goes to standard error or to one file: follow it there"
NO_REPLICAS = "a queue is on one node, and has no members elsewhere"
NOT_BY_SOURCE = "attempts to log in are counted by protocol, and not by address"
BUILT_IN = "plugins are built in, and have no directories"
NO_MAINTENANCE = "there is no maintenance mode: 'rabbitmqctl stop' ends the broker in order"

_REASONS = {
    NO_RESET: "reset force_reset force_boot",
    ONE_NODE: """
        join_cluster forget_cluster_node change_cluster_node_type update_cluster_nodes rename_cluster_node
        discover_peers
    """,
    ERLANG: """
        eval_file exec force_gc erlang_version erlang_cookie_hash erlang_cookie_sources maybe_stuck observer
        remote_shell runtime_thread_stats command_line_arguments resolver_info schema_info list_ciphers list_hashes
        encode decode encrypt_conf_value decrypt_conf_value cipher_suites tls_versions os_env list_network_interfaces
        consistent_hash_exchange_ring_state
    """,
    LOG: "log_tail_stream consume_event_stream",
    NO_REPLICAS: """
        quorum_status reclaim_quorum_memory add_member delete_member grow shrink peek coordinator_status
    """,
    NO_MAINTENANCE: "suspend_listeners resume_listeners drain revive",
    NOT_BY_SOURCE: "enable_auth_attempt_source_tracking disable_auth_attempt_source_tracking",
    BUILT_IN: "directories",
}
REFUSED = {name: reason for reason, names in _REASONS.items() for name in names.split()}
_LAST = {"change_cluster_node_type": "4.2", "schema_info": "4.2"}
"""The last series of RabbitMQ that has a verb, where it is not the newest."""
_FIRST = {"encrypt_conf_value": "4.2", "decrypt_conf_value": "4.2"}
"""The first series, where it is not the oldest."""


def is_refused(name: str, series: str) -> bool:
    """Return True for a verb that a series of RabbitMQ has, and a broker here cannot have."""
    first, last = _FIRST.get(name, SERIES[0]), _LAST.get(name, SERIES[-1])
    return name in REFUSED and SERIES.index(first) <= SERIES.index(series) <= SERIES.index(last)
