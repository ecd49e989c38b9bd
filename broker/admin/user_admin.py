"""Users, their passwords and their tags."""

from __future__ import annotations

from collections.abc import Iterator

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.kinds.limit_kind import checked
from broker.admin.protocol import AdministrationError, invalid
from broker.entities.vhosts.user_limits import OF_USERS
from broker.session.login.passwords import ALGORITHMS, SHA256, hash_password, is_hash, verify
from storage.definitions.definition_rows import Change, PermissionRow, Put, UserLimitRow, UserRow, delete

_DELETED = "user '{}' is deleted"


async def add_user(administration: Administration, arguments: Arguments) -> None:
    """Create a user."""
    name = arguments.name("name")
    if name in administration.users.by_name:
        raise AdministrationError("already_exists", f'User "{name}" already exists')
    await administration.change(Put(UserRow(name, _hashed(arguments), SHA256, arguments.texts("tags"))))


async def put_user(administration: Administration, arguments: Arguments) -> None:
    """Create a user, or describe it anew, as RabbitMQ's API does: with a password, a hash of one, or neither, which no
    login takes. Permissions are for a user that is new."""
    name = arguments.name("name")
    password_hash, algorithm = _given_hash(arguments)
    limits = checked(arguments.table("limits"), OF_USERS, "user-limits")
    changes: list[Change] = [Put(UserRow(name, password_hash, algorithm, _given_tags(arguments)))]
    changes += (Put(UserLimitRow(name, *limit)) for limit in limits.items())
    if name not in administration.users.by_name:
        changes += (Put(row) for row in _given_permissions(administration, name, arguments))
    await administration.change(*changes)


def _given_tags(arguments: Arguments) -> tuple[str, ...]:
    if not arguments.has("tags"):
        raise invalid("tags_not_present")
    return arguments.tags("tags")


def _given_hash(arguments: Arguments) -> tuple[str, str]:
    """The hash to be stored, and its algorithm."""
    if arguments.has("password") and arguments.has("password_hash"):
        raise invalid("both_password_and_password_hash_are_provided")
    if arguments.has("password_hash"):
        password_hash = arguments.text("password_hash")
        if not is_hash(password_hash):
            raise invalid("argument password_hash: is not base64")
        algorithm = arguments.optional("hashing_algorithm") or SHA256
        if algorithm not in ALGORITHMS:
            raise invalid(f"argument hashing_algorithm: known are {', '.join(ALGORITHMS)}")
        return password_hash, algorithm
    empty = not arguments.has("password") or not arguments.text("password")
    return "" if empty else _hashed(arguments), SHA256


def _given_permissions(administration: Administration, user: str, arguments: Arguments) -> Iterator[PermissionRow]:
    given = arguments.table("permissions")
    for vhost in given:
        patterns = Arguments(Arguments(given).table(vhost))
        row = administration.vhost(vhost).name, *(patterns.pattern(action) for action in ("configure", "write", "read"))
        yield PermissionRow(user, *row)


async def delete_users(administration: Administration, arguments: Arguments) -> None:
    """Delete several users, or none of them if one does not exist."""
    names = [administration.user(name).name for name in arguments.texts("names")]
    await administration.change(*(delete(UserRow, name=name) for name in names))
    for name in names:
        administration.registry.close_connections(_DELETED.format(name), user=name)


async def delete_user(administration: Administration, arguments: Arguments) -> None:
    """Delete a user with everything permitted to it, and send its connections away, as RabbitMQ does."""
    name = administration.user(arguments.text("name")).name
    await administration.change(delete(UserRow, name=name))
    administration.registry.close_connections(_DELETED.format(name), user=name)


async def change_password(administration: Administration, arguments: Arguments) -> None:
    """Give a user a new password. Connections that are open stay open, as in RabbitMQ."""
    user = administration.user(arguments.text("name"))
    await administration.change(Put(UserRow(user.name, _hashed(arguments), SHA256, user.tags)))


async def clear_password(administration: Administration, arguments: Arguments) -> None:
    """Let a user log in no longer with a password, only by other means such as a certificate."""
    user = administration.user(arguments.text("name"))
    await administration.change(Put(UserRow(user.name, "", SHA256, user.tags)))


async def set_user_tags(administration: Administration, arguments: Arguments) -> dict[str, list[str]]:
    """Replace a user's tags; those that it had are the answer."""
    user = administration.user(arguments.text("name"))
    await administration.change(Put(UserRow(*user)._replace(tags=arguments.texts("tags"))))
    return {"tags_before": list(user.tags)}


def authenticate_user(administration: Administration, arguments: Arguments) -> None:
    """Try a password. Raises AdministrationError `refused` when it is not the user's."""
    name, password = arguments.text("name"), arguments.text("password")
    user = administration.users.by_name.get(name)
    given = password.encode("utf-8", "surrogateescape")
    if user is None or not verify(given, user.password_hash, user.hashing_algorithm):
        raise AdministrationError(
            "refused", f"failed to authenticate user \"{name}\": user '{name}' - invalid credentials"
        )


def _hashed(arguments: Arguments) -> str:
    password = arguments.text("password")
    if not password:
        raise invalid("argument password: is empty; an empty password is refused at every login")
    return hash_password(password.encode("utf-8", "surrogateescape"))
