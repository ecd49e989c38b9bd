"""Permissions of users in virtual hosts and on topic exchanges.

They apply to open connections from the next method on; as in RabbitMQ, a connection that loses them stays open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from broker.admin.commands.admin_command import AdminChange, ListCommand, Text, VhostList
from broker.admin.commands.argument_values import patterns
from storage.definitions.definition_rows import PermissionRow, Put, TopicPermissionRow, delete

if TYPE_CHECKING:
    from broker.admin.administration import Administration
    from broker.admin.views.listing import View


class ListPermissions(VhostList):
    """List permissions."""

    def view(self) -> View:
        from broker.admin.views.access_view import PERMISSIONS

        return PERMISSIONS


class ListTopicPermissions(VhostList):
    """List topic permissions."""

    def view(self) -> View:
        from broker.admin.views.access_view import TOPIC_PERMISSIONS

        return TOPIC_PERMISSIONS


class ListUserPermissions(ListCommand, kw_only=True):
    """List the permissions of one user."""

    name: Text

    def owner(self) -> str:
        return self.name

    def view(self) -> View:
        from broker.admin.views.access_view import USER_PERMISSIONS

        return USER_PERMISSIONS


class ListUserTopicPermissions(ListCommand, kw_only=True):
    """List the topic permissions of one user."""

    name: Text

    def owner(self) -> str:
        return self.name

    def view(self) -> View:
        from broker.admin.views.access_view import USER_TOPIC_PERMISSIONS

        return USER_TOPIC_PERMISSIONS


class _PermissionChange(AdminChange):
    """A change of one user's permissions in one virtual host."""

    vhost: Text
    user: Text

    def _key(self, administration: Administration) -> tuple[str, str]:
        """Return user and virtual host. Raises AdministrationError `not_found`."""
        vhost = administration.vhost(self.vhost).name
        return administration.user(self.user).name, vhost


class SetPermissions(_PermissionChange):
    """Set a user's permissions in a virtual host."""

    log_words: ClassVar[str] = "permissions of user '{user}' in virtual host '{vhost}' are set"
    configure: Text
    write: Text
    read: Text

    def patterns(self) -> tuple[str, ...]:
        """Return the three regular expressions. Raises AdministrationError `invalid`."""
        return patterns(self.configure, self.write, self.read)

    async def apply(self, administration: Administration) -> None:
        await administration.change(Put(PermissionRow(*self._key(administration), *self.patterns())))


class SetPermissionsGlobally(AdminChange):
    """Set a user's permissions in each virtual host that there is."""

    log_words: ClassVar[str] = "permissions of user '{user}' in all virtual hosts are set"
    user: Text
    configure: Text
    write: Text
    read: Text

    async def apply(self, administration: Administration) -> None:
        user = administration.user(self.user).name
        given = patterns(self.configure, self.write, self.read)
        await administration.change(
            *(Put(PermissionRow(user, vhost, *given)) for vhost in administration.broker.vhosts)
        )


class ClearPermissions(_PermissionChange):
    """Remove a user's permissions in a virtual host, and with them its access to it."""

    log_words: ClassVar[str] = "permissions of user '{user}' in virtual host '{vhost}' are cleared"

    async def apply(self, administration: Administration) -> None:
        user, vhost = self._key(administration)
        await administration.change(delete(PermissionRow, user=user, vhost=vhost))


class SetTopicPermissions(_PermissionChange):
    """Set which routing keys a user may write and read on an exchange, which need not exist yet."""

    log_words: ClassVar[str] = "topic permissions of user '{user}' in virtual host '{vhost}' are set"
    exchange: Text
    write: Text
    read: Text

    async def apply(self, administration: Administration) -> None:
        key = self._key(administration)
        row = TopicPermissionRow(*key, self.exchange, *patterns(self.write, self.read))
        await administration.change(Put(row))


class ClearTopicPermissions(_PermissionChange):
    """Remove a user's topic permissions on one exchange or, without one, on all of the virtual host."""

    log_words: ClassVar[str] = "topic permissions of user '{user}' in virtual host '{vhost}' are cleared"
    exchange: Text | None = None

    async def apply(self, administration: Administration) -> None:
        user, vhost = self._key(administration)
        await administration.change(delete(TopicPermissionRow, user=user, vhost=vhost, exchange=self.exchange))
