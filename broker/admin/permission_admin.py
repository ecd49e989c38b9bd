"""Permissions: what users may do in virtual hosts and on topic exchanges.

They take effect on open connections with the next method; as in RabbitMQ, a connection that loses them stays open.
"""

from __future__ import annotations

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from storage.definitions.definition_rows import PermissionRow, Put, TopicPermissionRow, delete


async def set_permissions(administration: Administration, arguments: Arguments) -> None:
    """Set what a user may configure, write and read in a virtual host."""
    vhost, user = _vhost_and_user(administration, arguments)
    patterns = (arguments.pattern(action) for action in ("configure", "write", "read"))
    await administration.change(Put(PermissionRow(user, vhost, *patterns)))


async def clear_permissions(administration: Administration, arguments: Arguments) -> None:
    """Keep a user out of a virtual host."""
    vhost, user = _vhost_and_user(administration, arguments)
    await administration.change(delete(PermissionRow, user=user, vhost=vhost))


async def set_topic_permissions(administration: Administration, arguments: Arguments) -> None:
    """Set which routing keys a user may write and read on an exchange, which need not exist yet."""
    vhost, user = _vhost_and_user(administration, arguments)
    patterns = (arguments.pattern(action) for action in ("write", "read"))
    await administration.change(Put(TopicPermissionRow(user, vhost, arguments.text("exchange"), *patterns)))


async def clear_topic_permissions(administration: Administration, arguments: Arguments) -> None:
    """Lift a user's topic permissions on one exchange or, without one, on all of the virtual host."""
    vhost, user = _vhost_and_user(administration, arguments)
    await administration.change(
        delete(TopicPermissionRow, user=user, vhost=vhost, exchange=arguments.optional("exchange"))
    )


def _vhost_and_user(administration: Administration, arguments: Arguments) -> tuple[str, str]:
    vhost = administration.vhost(arguments.text("vhost")).name
    return vhost, administration.user(arguments.text("user")).name
