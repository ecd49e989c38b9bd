"""Every command by its name, and how one is carried out."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from broker.administration import AdministrationError
from broker.server.commands import (
    definitions,
    export,
    limits,
    listing,
    maintenance,
    permissions,
    policies,
    tracing,
    users,
    vhosts,
)
from broker.server.commands.administration import Administration
from broker.server.commands.arguments import Arguments, invalid
from broker.wire.amqp_errors import AmqpError
from storage.errors import StoreError

log = logging.getLogger("leveret.administration")

QUESTIONS: dict[str, Callable[[Administration, Arguments], object]] = {
    "ping": maintenance.ping,
    "status": maintenance.status,
    "authenticate_user": users.authenticate_user,
    "list_users": listing.list_users,
    "list_vhosts": listing.list_vhosts,
    "list_permissions": listing.list_permissions,
    "list_user_permissions": listing.list_user_permissions,
    "list_topic_permissions": listing.list_topic_permissions,
    "list_policies": policies.list_policies,
    "list_operator_policies": policies.list_operator_policies,
    "list_queues": listing.list_queues,
    "list_exchanges": listing.list_exchanges,
    "list_bindings": listing.list_bindings,
    "list_consumers": listing.list_consumers,
    "list_connections": listing.list_connections,
    "list_channels": listing.list_channels,
}
"""Answered from memory, at once."""

COPIES: dict[str, Callable[[Administration, Arguments], Awaitable[object]]] = {
    "export_definitions": export.export_definitions,
    "backup": maintenance.backup,
}
"""These read the stores and may take long: changes go on meanwhile."""

CHANGES: dict[str, Callable[[Administration, Arguments], Awaitable[object]]] = {
    "add_user": users.add_user,
    "delete_user": users.delete_user,
    "change_password": users.change_password,
    "clear_password": users.clear_password,
    "set_user_tags": users.set_user_tags,
    "set_user_limits": limits.set_user_limits,
    "clear_user_limits": limits.clear_user_limits,
    "add_vhost": vhosts.add_vhost,
    "delete_vhost": vhosts.delete_vhost,
    "set_vhost_limits": limits.set_vhost_limits,
    "clear_vhost_limits": limits.clear_vhost_limits,
    "set_permissions": permissions.set_permissions,
    "clear_permissions": permissions.clear_permissions,
    "set_topic_permissions": permissions.set_topic_permissions,
    "clear_topic_permissions": permissions.clear_topic_permissions,
    "set_policy": policies.set_policy,
    "clear_policy": policies.clear_policy,
    "set_operator_policy": policies.set_operator_policy,
    "clear_operator_policy": policies.clear_operator_policy,
    "import_definitions": definitions.import_definitions,
    "delete_queue": maintenance.delete_queue,
    "purge_queue": maintenance.purge_queue,
    "close_connection": maintenance.close_connection,
    "trace_on": tracing.trace_on,
    "trace_off": tracing.trace_off,
}
"""One at a time."""

SUBJECTS = ("vhost", "user", "name", "exchange", "directory")
"""The arguments that a log line repeats; never others, a password may be among them."""


async def carry_out(administration: Administration, command: str, given: Mapping[str, object]) -> object:
    """Do what a command says; its answer, as JSON can hold it. Raises AdministrationError."""
    arguments = Arguments(given)
    try:
        if command in QUESTIONS:
            return QUESTIONS[command](administration, arguments)
        if command in COPIES:
            return await COPIES[command](administration, arguments)
        if command not in CHANGES:
            raise invalid("there is no such command")
        async with administration.turns:
            answer = await CHANGES[command](administration, arguments)
        log.info("%s %s", command, " ".join(f"{name}={given[name]!r}" for name in SUBJECTS if given.get(name)))
        return answer
    except (AmqpError, StoreError) as error:
        raise AdministrationError("failed", str(error)) from error
    except OSError as error:
        raise AdministrationError("failed", f"{error.filename}: {error.strerror}") from error
    finally:
        administration.server.engine.end_turn()
