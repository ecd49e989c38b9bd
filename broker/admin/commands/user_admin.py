"""Users, their passwords and their tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from msgspec import UNSET, UnsetType

from broker.admin.commands.admin_command import AdminChange, Given, ListCommand, Question, Text
from broker.admin.commands.argument_values import distinct, named, table, tags_of
from broker.admin.commands.permission_admin import SetPermissions
from broker.admin.protocol import AdministrationError, invalid
from broker.session.login.passwords import ALGORITHMS, SHA256, hash_password, is_hash, verify
from storage.definitions.definition_rows import Change, PermissionRow, Put, UserLimitRow, UserRow, delete

if TYPE_CHECKING:
    from broker.admin.administration import Administration
    from broker.admin.views.listing import View

_DELETED = "user '{}' is deleted"


class ListUsers(ListCommand):
    """List the users."""

    def view(self) -> View:
        from broker.admin.views.access_view import USERS

        return USERS


class AddUser(AdminChange):
    """Create a user with a password, or with the hash of one."""

    log_words: ClassVar[str] = "user '{name}' is added"
    name: Text
    tags: list[Text]
    password: Text | None = None
    password_hash: Text | None = None

    async def apply(self, administration: Administration) -> None:
        name = named(self.name)
        if name in administration.users.by_name:
            raise AdministrationError("already_exists", f'User "{name}" already exists')
        await administration.change(Put(UserRow(name, self._hash(), SHA256, distinct(self.tags))))

    def _hash(self) -> str:
        if self.password_hash is None:
            if self.password is None:
                raise invalid("argument password is missing")
            return _hashed(self.password)
        return _checked_hash(self.password_hash)


class PutUser(AdminChange):
    """Create or replace a user, as RabbitMQ's API does: with a password, the hash of one, or neither.

    No login takes a user with neither. Permissions are for a new user. A protected user is refused.
    """

    log_words: ClassVar[str] = "user '{name}' is added or changed"
    name: Text
    tags: list[Text] | Text | UnsetType | None = UNSET
    password: Given = UNSET
    password_hash: Given = UNSET
    hashing_algorithm: Text | None = None
    limits: object = None
    permissions: object = None

    async def apply(self, administration: Administration) -> None:
        from broker.admin.kinds.limit_kind import checked
        from broker.entities.node.user_limits import OF_USERS

        name = named(self.name)
        _assert_unprotected(administration, name)
        password_hash, algorithm = self._hash()
        limits = checked(table(self.limits, "limits"), OF_USERS, "user-limits")
        if self.tags is UNSET:
            raise invalid("tags_not_present")
        changes: list[Change] = [Put(UserRow(name, password_hash, algorithm, tags_of(self.tags)))]
        changes += (Put(UserLimitRow(name, *limit)) for limit in limits.items())
        if name not in administration.users.by_name:
            changes += (Put(row) for row in self._permissions(administration))
        await administration.change(*changes)

    def _hash(self) -> tuple[str, str]:
        """Return the hash to be stored, and its algorithm."""
        if self.password is not UNSET and self.password_hash is not UNSET:
            raise invalid("both_password_and_password_hash_are_provided")
        if self.password_hash is not UNSET:
            password_hash = _checked_hash(self.password_hash)
            algorithm = self.hashing_algorithm or SHA256
            if algorithm not in ALGORITHMS:
                raise invalid(f"argument hashing_algorithm: known are {', '.join(ALGORITHMS)}")
            return password_hash, algorithm
        return _hashed(self.password) if self.password is not UNSET and self.password else "", SHA256

    def _permissions(self, administration: Administration) -> Iterator[PermissionRow]:
        for vhost, given in table(self.permissions, "permissions").items():
            permission = SetPermissions.parse({**table(given, vhost), "vhost": vhost, "user": self.name})
            yield PermissionRow(self.name, administration.vhost(vhost).name, *permission.patterns())


class DeleteUser(AdminChange):
    """Delete a user with all its permissions, and close its connections, as RabbitMQ does.

    With `by_api`, a protected user is refused.
    """

    log_words: ClassVar[str] = "user '{name}' is deleted"
    name: Text
    by_api: bool = False

    async def apply(self, administration: Administration) -> None:
        name = administration.user(self.name).name
        if self.by_api:
            _assert_unprotected(administration, name)
        await administration.change(delete(UserRow, name=name))
        administration.registry.close_connections(_DELETED.format(name), user=name)


class DeleteUsers(AdminChange):
    """Delete several users, or none of them if one does not exist; as RabbitMQ 4 the others. Protected ones stay."""

    log_words: ClassVar[str] = "users {names} are deleted"
    names: list[Text]

    async def apply(self, administration: Administration) -> None:
        lenient, known = administration.broker.personality.series >= (4, 0), administration.broker.users.by_name
        given = [name for name in distinct(self.names) if name in known or not lenient]
        named_users = [administration.user(name).name for name in given]
        names = [name for name in named_users if not _protected(administration, name)]
        await administration.change(*(delete(UserRow, name=name) for name in names))
        for name in names:
            administration.registry.close_connections(_DELETED.format(name), user=name)


class ChangePassword(AdminChange):
    """Change a user's password. Open connections stay open, as in RabbitMQ."""

    log_words: ClassVar[str] = "user '{name}' has a new password"
    name: Text
    password: Text

    async def apply(self, administration: Administration) -> None:
        user = administration.user(self.name)
        await administration.change(Put(UserRow(user.name, _hashed(self.password), SHA256, user.tags)))


class ClearPassword(AdminChange):
    """Remove a user's password: logins need other means, such as a certificate."""

    log_words: ClassVar[str] = "user '{name}' has no password"
    name: Text

    async def apply(self, administration: Administration) -> None:
        user = administration.user(self.name)
        await administration.change(Put(UserRow(user.name, "", SHA256, user.tags)))


class SetUserTags(AdminChange):
    """Replace a user's tags. Answers with the previous ones."""

    log_words: ClassVar[str] = "tags of user '{name}' are set"
    name: Text
    tags: list[Text]

    async def apply(self, administration: Administration) -> dict[str, list[str]]:
        user = administration.user(self.name)
        await administration.change(Put(UserRow(*user)._replace(tags=distinct(self.tags))))
        return {"tags_before": list(user.tags)}


class AuthenticateUser(Question):
    """Check a password. Raises AdministrationError `refused` if it is wrong."""

    name: Text
    password: Text

    def answer(self, administration: Administration) -> None:
        user = administration.users.by_name.get(self.name)
        given = self.password.encode("utf-8", "surrogateescape")
        if user is None or not verify(given, user.password_hash, user.hashing_algorithm):
            reason = f"user '{self.name}' - invalid credentials"
            raise AdministrationError("refused", f'failed to authenticate user "{self.name}": {reason}')


def _protected(administration: Administration, name: str) -> bool:
    from broker.admin.kinds.user_kind import is_protected

    return is_protected(administration.broker, name)


def _assert_unprotected(administration: Administration, name: str) -> None:
    """Raise AdministrationError `refused` for a user that the HTTP API may not change."""
    if _protected(administration, name):
        raise AdministrationError("refused", "Protected users cannot be modified via the HTTP API")


def _checked_hash(password_hash: str) -> str:
    if not is_hash(password_hash):
        raise invalid("argument password_hash: is not base64")
    return password_hash


def _hashed(password: str) -> str:
    if not password:
        raise invalid("argument password: is empty; an empty password is refused at every login")
    return hash_password(password.encode("utf-8", "surrogateescape"))
