"""Every command by its name, and how one is carried out."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping

from broker.admin import maintenance, permission_admin, tracing_admin, user_admin, vhost_admin
from broker.admin.action_words import fields, in_words
from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.definitions import definitions_export, definitions_import
from broker.admin.node import connection_admin, feature_flags, node_admin, testing_orders
from broker.admin.protocol import AdministrationError, invalid
from broker.admin.settings import limit_admin, parameter_admin, policy_admin, shovel_admin
from broker.admin.views import access_view, connection_view, queue_view, topology_view
from broker.admin.views.listing import Row, View, rows
from broker.wire.amqp_errors import AmqpError
from storage.storage_errors import StoreError

log = logging.getLogger("leveret.administration")

QUESTIONS: dict[str, Callable[[Administration, Arguments], object]] = {
    "ping": maintenance.ping,
    "status": maintenance.status,
    "stream_status": maintenance.stream_status,
    "authenticate_user": user_admin.authenticate_user,
    "environment": node_admin.environment,
    "reset_auth_attempts": node_admin.reset_auth_attempts,
    "enable_feature_flag": feature_flags.enable_feature_flag,
}
"""Answered from memory, at once."""

LISTINGS: dict[str, View] = {
    "list_users": access_view.USERS,
    "list_vhosts": access_view.VHOSTS,
    "list_permissions": access_view.PERMISSIONS,
    "list_user_permissions": access_view.USER_PERMISSIONS,
    "list_topic_permissions": access_view.TOPIC_PERMISSIONS,
    "list_user_topic_permissions": access_view.USER_TOPIC_PERMISSIONS,
    "list_queues": queue_view.QUEUES,
    "list_exchanges": topology_view.EXCHANGES,
    "list_bindings": topology_view.BINDINGS,
    "list_consumers": topology_view.CONSUMERS,
    "list_connections": connection_view.CONNECTIONS,
    "list_channels": connection_view.CHANNELS,
    "list_listeners": node_admin.LISTENERS,
    "list_certificates": node_admin.CERTIFICATES,
    "list_alarms": node_admin.ALARMS,
    "list_auth_attempts": node_admin.AUTH_ATTEMPTS,
    "list_feature_flags": feature_flags.FEATURE_FLAGS,
    "list_policies": policy_admin.POLICIES,
    "list_operator_policies": policy_admin.OPERATOR_POLICIES,
    "list_parameters": parameter_admin.PARAMETERS,
    "list_global_parameters": parameter_admin.GLOBAL_PARAMETERS,
    "list_shovels": shovel_admin.SHOVELS,
}
"""Answered row by row, from memory."""

COPIES: dict[str, Callable[[Administration, Arguments], Awaitable[object]]] = {
    "export_definitions": definitions_export.export_definitions,
    "backup": maintenance.backup,
    "memory": node_admin.memory,
    "testing": testing_orders.testing,
    "seal_events": node_admin.seal_events,
}
"""These read from disk, ask the system or wait, and may take long: changes go on meanwhile."""

CHANGES: dict[str, Callable[[Administration, Arguments], Awaitable[object]]] = {
    "add_user": user_admin.add_user,
    "put_user": user_admin.put_user,
    "delete_users": user_admin.delete_users,
    "delete_user": user_admin.delete_user,
    "change_password": user_admin.change_password,
    "clear_password": user_admin.clear_password,
    "set_user_tags": user_admin.set_user_tags,
    "set_user_limits": limit_admin.set_user_limits,
    "clear_user_limits": limit_admin.clear_user_limits,
    "add_vhost": vhost_admin.add_vhost,
    "put_vhost": vhost_admin.put_vhost,
    "update_vhost": vhost_admin.update_vhost,
    "delete_vhost": vhost_admin.delete_vhost,
    "set_vhost_limits": limit_admin.set_vhost_limits,
    "set_vhost_limit": limit_admin.set_vhost_limit,
    "clear_vhost_limits": limit_admin.clear_vhost_limits,
    "set_permissions": permission_admin.set_permissions,
    "clear_permissions": permission_admin.clear_permissions,
    "set_topic_permissions": permission_admin.set_topic_permissions,
    "clear_topic_permissions": permission_admin.clear_topic_permissions,
    "set_policy": policy_admin.set_policy,
    "clear_policy": policy_admin.clear_policy,
    "set_operator_policy": policy_admin.set_operator_policy,
    "clear_operator_policy": policy_admin.clear_operator_policy,
    "set_parameter": parameter_admin.set_parameter,
    "clear_parameter": parameter_admin.clear_parameter,
    "set_global_parameter": parameter_admin.set_global_parameter,
    "clear_global_parameter": parameter_admin.clear_global_parameter,
    "restart_shovel": shovel_admin.restart_shovel,
    "delete_shovel": shovel_admin.delete_shovel,
    "set_cluster_name": parameter_admin.set_cluster_name,
    "import_definitions": definitions_import.import_definitions,
    "delete_exchange": maintenance.delete_exchange,
    "delete_queue": maintenance.delete_queue,
    "purge_queue": maintenance.purge_queue,
    "close_connection": connection_admin.close_connection,
    "close_connections": connection_admin.close_connections,
    "set_vm_memory_high_watermark": node_admin.set_vm_memory_high_watermark,
    "set_disk_free_limit": node_admin.set_disk_free_limit,
    "set_log_level": node_admin.set_log_level,
    "set_log_form": node_admin.set_log_form,
    "stop": node_admin.stop,
    "trace_on": tracing_admin.trace_on,
    "trace_off": tracing_admin.trace_off,
}
"""One at a time."""


def rows_of(administration: Administration, command: str, given: Mapping[str, object]) -> Iterator[Row]:
    """The rows of a listing, each worked out when it is asked for. Raises AdministrationError at once."""
    return rows(LISTINGS[command], administration, Arguments(given))


async def carry_out(administration: Administration, command: str, given: Mapping[str, object]) -> object:
    """Do what a command says; its answer, as JSON can hold it. Raises AdministrationError."""
    arguments = Arguments(given)
    try:
        if command in LISTINGS:
            return list(rows_of(administration, command, given))
        if command in QUESTIONS:
            return QUESTIONS[command](administration, arguments)
        if command in COPIES:
            return await COPIES[command](administration, arguments)
        if command not in CHANGES:
            raise invalid("there is no such command")
        async with administration.turns:
            answer = await CHANGES[command](administration, arguments)
        by = administration.by
        log.info("%s", in_words(command, given, by), extra=fields(command, given, by))
        return answer
    except (AmqpError, StoreError) as error:
        raise AdministrationError("failed", str(error)) from error
    except OSError as error:
        raise AdministrationError("failed", f"{error.filename}: {error.strerror}") from error
    finally:
        administration.end_turn()
