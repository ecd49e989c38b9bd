"""Users, their passwords and their tags."""

from __future__ import annotations

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments, invalid
from broker.admin.protocol import AdministrationError
from broker.session.login.passwords import SHA256, hash_password, verify
from storage.definitions.definition_changes import DeleteUser, PutUser, UserRow


async def add_user(administration: Administration, arguments: Arguments) -> None:
    """Create a user."""
    name = arguments.name("name")
    if name in administration.users.by_name:
        raise AdministrationError("already_exists", f'User "{name}" already exists')
    await administration.change(PutUser(UserRow(name, _hashed(arguments), SHA256, arguments.texts("tags"))))


async def delete_user(administration: Administration, arguments: Arguments) -> None:
    """Delete a user with everything permitted to it, and send its connections away, as RabbitMQ does."""
    name = administration.user(arguments.text("name")).name
    await administration.change(DeleteUser(name))
    administration.registry.close_connections(f"user '{name}' is deleted", user=name)


async def change_password(administration: Administration, arguments: Arguments) -> None:
    """Give a user a new password. Connections that are open stay open, as in RabbitMQ."""
    user = administration.user(arguments.text("name"))
    await administration.change(PutUser(UserRow(user.name, _hashed(arguments), SHA256, user.tags)))


async def clear_password(administration: Administration, arguments: Arguments) -> None:
    """Let a user log in no longer with a password, only by other means such as a certificate."""
    user = administration.user(arguments.text("name"))
    await administration.change(PutUser(UserRow(user.name, "", SHA256, user.tags)))


async def set_user_tags(administration: Administration, arguments: Arguments) -> None:
    """Replace a user's tags."""
    user = administration.user(arguments.text("name"))
    await administration.change(PutUser(UserRow(*user)._replace(tags=arguments.texts("tags"))))


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
