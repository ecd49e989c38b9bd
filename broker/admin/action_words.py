"""What a command has done, in the words of its log line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from broker.entities.exchanges.event_exchange import CLI

SUBJECTS = ("vhost", "user", "name", "names", "exchange", "component", "directory", "level", "form", "limit", "reason")
"""The arguments that a log line may repeat; never others, a password may be among them."""

WORDS = {
    "add_user": "user '{name}' is added",
    "put_user": "user '{name}' is added or changed",
    "delete_users": "users {names} are deleted",
    "delete_user": "user '{name}' is deleted",
    "change_password": "user '{name}' has a new password",
    "clear_password": "user '{name}' has no password",
    "set_user_tags": "tags of user '{name}' are set",
    "set_user_limits": "limits of user '{name}' are set",
    "clear_user_limits": "limits of user '{name}' are cleared",
    "add_vhost": "virtual host '{name}' is added",
    "put_vhost": "virtual host '{name}' is added or changed",
    "update_vhost": "virtual host '{name}' is changed",
    "delete_vhost": "virtual host '{name}' is deleted",
    "set_vhost_limits": "limits of virtual host '{name}' are set",
    "set_vhost_limit": "a limit of virtual host '{name}' is set",
    "clear_vhost_limits": "limits of virtual host '{name}' are cleared",
    "set_permissions": "permissions of user '{user}' in virtual host '{vhost}' are set",
    "clear_permissions": "permissions of user '{user}' in virtual host '{vhost}' are cleared",
    "set_topic_permissions": "topic permissions of user '{user}' in virtual host '{vhost}' are set",
    "clear_topic_permissions": "topic permissions of user '{user}' in virtual host '{vhost}' are cleared",
    "set_policy": "policy '{name}' of virtual host '{vhost}' is set",
    "clear_policy": "policy '{name}' of virtual host '{vhost}' is cleared",
    "set_operator_policy": "operator policy '{name}' of virtual host '{vhost}' is set",
    "clear_operator_policy": "operator policy '{name}' of virtual host '{vhost}' is cleared",
    "set_parameter": "parameter '{name}' of '{component}' in virtual host '{vhost}' is set",
    "clear_parameter": "parameter '{name}' of '{component}' in virtual host '{vhost}' is cleared",
    "set_global_parameter": "global parameter '{name}' is set",
    "clear_global_parameter": "global parameter '{name}' is cleared",
    "restart_shovel": "shovel '{name}' of virtual host '{vhost}' begins anew",
    "delete_shovel": "shovel '{name}' of virtual host '{vhost}' is deleted",
    "set_cluster_name": "the broker is called '{name}'",
    "import_definitions": "definitions are imported",
    "delete_exchange": "exchange '{name}' of virtual host '{vhost}' is deleted",
    "delete_queue": "queue '{name}' of virtual host '{vhost}' is deleted",
    "purge_queue": "queue '{name}' of virtual host '{vhost}' is purged",
    "close_connection": "connection {name} is closed: {reason}",
    "close_connections": "connections are closed: {reason}",
    "set_vm_memory_high_watermark": "the limit of memory is set, until the next start",
    "set_disk_free_limit": "the limit of free disk is set, until the next start",
    "set_log_level": "the log begins at level {level}, until the next start",
    "set_log_form": "the log is written as {form}, until the next start",
    "stop": "the broker is to stop",
    "trace_on": "tracing of virtual host '{vhost}' is on",
    "trace_off": "tracing of virtual host '{vhost}' is off",
}
"""By the name of the command, as a format of SUBJECTS."""


def in_words(command: str, given: Mapping[str, object], by: str) -> str:
    """What was done, and which user had it done."""
    values = defaultdict(str, {name: given[name] for name in SUBJECTS if given.get(name)})
    return f"{WORDS[command].format_map(values)}, by {_actor(by)}"


def fields(command: str, given: Mapping[str, object], by: str) -> dict[str, Any]:
    """The same for programs: of whom, and of what."""
    queue = {"queue": given["name"]} if command in ("delete_queue", "purge_queue") else {}
    return {"user": None if by == CLI else by, "vhost": given.get("vhost"), **queue}


def _actor(by: str) -> str:
    return "the command line" if by == CLI else f"user '{by}'"
