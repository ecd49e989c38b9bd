"""Users, their passwords, tags, permissions and limits."""

from __future__ import annotations

import secrets
import sys
from typing import Any

import click

from broker.admin.commands.admin_command import ListCommand, VhostList
from broker.admin.commands.limit_admin import ClearUserLimits, SetUserLimits
from broker.admin.commands.permission_admin import (
    ClearPermissions,
    ClearTopicPermissions,
    ListPermissions,
    ListTopicPermissions,
    ListUserPermissions,
    ListUserTopicPermissions,
    SetPermissions,
    SetPermissionsGlobally,
    SetTopicPermissions,
)
from broker.admin.commands.user_admin import (
    AddUser,
    AuthenticateUser,
    ChangePassword,
    ClearPassword,
    DeleteUser,
    ListUsers,
    SetUserTags,
)
from broker.admin.protocol import AdministrationError
from broker.rabbitmq.ctl.line_options import Option
from broker.rabbitmq.ctl.outcomes import (
    DATA,
    NO_USER,
    SOFTWARE,
    UNAVAILABLE,
    ListedRows,
    Outcome,
    ShownText,
    VerbRefusal,
    bad_argument,
)
from broker.rabbitmq.ctl.verb_call import VerbAction, VerbCall, asking, generally_refused
from broker.rabbitmq.ctl.verbs.list_verbs import lister
from broker.rabbitmq.ctl.verbs.vhost_verbs import no_vhost, no_vhost_text, parsed_json, sorted_json
from broker.session.login.passwords import MD5, SHA256, SHA512, hash_password, is_hash

GRANT = (
    "Done. Don't forget to grant the user permissions to some virtual hosts! "
    "See 'rabbitmqctl help set_permissions' to learn more."
)


def _password(call: VerbCall, code: int = SOFTWARE) -> str:
    """The second argument, or what is typed unseen, or comes as the first line of standard input.

    Raises VerbRefusal with the exit code where standard input is at its end: an empty line is a blank password.
    """
    typed = call.arguments[1] if len(call.arguments) > 1 else _typed_password(call)
    if typed is None:
        raise VerbRefusal(code, "Password is not provided via argument or stdin")
    return typed


def _typed_password(call: VerbCall) -> str | None:
    """The password that is typed, or comes as a line; None at the end of standard input."""
    if sys.stdin.isatty():
        typed: str = click.prompt("Password", hide_input=True, default="", show_default=False)
        return typed
    if not call.quiet:
        click.echo("Password: ")
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


def _check_user(call: VerbCall) -> None:
    if not call.arguments[0]:
        raise bad_argument("user cannot be an empty string")
    if call.options.get("pre-hashed-password") and call.arguments[1:] and not is_hash(call.arguments[1]):
        raise bad_argument(_NO_HASH)


def _unknown_user(code: int, text: str) -> Any:
    """Return the refusal for a user that does not exist; `{}` in the text is the name."""

    def refused(call: VerbCall, error: AdministrationError) -> VerbRefusal:
        name = call.options.get("user") or (call.arguments[0] if call.arguments else "guest")
        if str(error) == f'User "{name}" does not exist':
            return VerbRefusal(code, text.format(name))
        return generally_refused(call, error)

    return refused


_no_such_user = _unknown_user(NO_USER, 'User "{}" does not exist')
_no_such_user_term = _unknown_user(UNAVAILABLE, '{{:no_such_user, "{}"}}')


def _of_permissions(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    user = call.arguments[0]
    if str(error) == f'User "{user}" does not exist':
        return VerbRefusal(NO_USER, f"User {user} does not exist")
    if str(error) == no_vhost_text(call.vhost):
        return VerbRefusal(UNAVAILABLE, f"Virtual host {call.vhost} does not exist")
    return generally_refused(call, error)


def _add_user(call: VerbCall) -> Outcome:
    """A user whose password is blank cannot log in with one."""
    name, password = call.arguments[0], _password(call, DATA)
    hashed = bool(call.options.get("pre-hashed-password"))
    if hashed and not is_hash(password):
        raise VerbRefusal(DATA, _NO_HASH)
    given = {"password_hash": password} if hashed else {"password": password or secrets.token_urlsafe()}
    try:
        call.ask(AddUser(name=name, tags=[], **given))
    except AdministrationError as error:
        if error.kind == "already_exists":
            raise VerbRefusal(SOFTWARE, str(error)) from error
        raise
    if not password:
        call.ask(ClearPassword(name=name))
    return ShownText([] if call.quiet else [GRANT], {"message": GRANT, "node": call.node, "status": "ok"})


def _authenticate_user(call: VerbCall) -> Outcome:
    name = call.arguments[0]
    try:
        call.ask(AuthenticateUser(name=name, password=_password(call)))
    except AdministrationError as error:
        if error.kind != "refused":
            raise
        text = f"Error: failed to authenticate user \"{name}\"\nuser '{name}' - invalid credentials"
        raise VerbRefusal(DATA, text) from error
    return call.message("Success")


def _change_password(call: VerbCall) -> Outcome:
    name, password = call.arguments[0], _password(call)
    if password:
        call.ask(ChangePassword(name=name, password=password))
    else:
        call.ask(ClearPassword(name=name))
    return call.done()


def _delete_user(call: VerbCall) -> Outcome:
    try:
        call.ask(DeleteUser(name=call.arguments[0]))
    except AdministrationError as error:
        if call.dialect.absent_users or error.kind != "not_found":
            raise
    return call.done()


def _hash_password(call: VerbCall) -> Outcome:
    password = call.arguments[0] if call.arguments else _typed_password(call)
    if not password:
        raise VerbRefusal(UNAVAILABLE, "not_enough_args")
    hashed = hash_password(password.encode("utf-8", "surrogateescape"), algorithm=_algorithm(call) or SHA256)
    return call.message(hashed)


def _algorithm(call: VerbCall) -> str | None:
    return _ALGORITHMS.get(call.options.get("hashing-algorithm", "sha256").lower())


def _check_password(call: VerbCall) -> None:
    if call.arguments and not call.arguments[0]:
        raise bad_argument("password cannot be an empty string")
    if _algorithm(call) is None:
        raise bad_argument(f"unsupported hashing algorithm: {call.options['hashing-algorithm']}")


def _hash_banner(call: VerbCall) -> str:
    return f"Will hash password {call.arguments[0]}" if call.arguments else "Will hash provided password"


def _tags_banner(call: VerbCall) -> str:
    return f'Setting tags for user "{call.arguments[0]}" to [{", ".join(call.arguments[1:])}] ...'


def _clear_user_limits(call: VerbCall) -> Outcome:
    name, limit = call.arguments
    try:
        call.ask(ClearUserLimits(name=name, limits=[limit]))
    except AdministrationError as error:
        if error.kind != "invalid":  # a limit that there is not is not there afterwards
            raise
    return call.done()


def _clear_banner(call: VerbCall) -> str:
    name, limit = call.arguments
    which = "all limits" if limit == "all" else f'"{limit}" limit'
    return f'Clearing {which} for user "{name}" ...'


def _list_user_limits(call: VerbCall) -> Outcome:
    users = {row["name"]: row["limits"] for row in call.ask(ListUsers(columns=["name", "limits"]))}
    if call.options.get("global"):
        rows = [{"user": name, "limits": sorted_json(limits)} for name, limits in users.items() if limits]
        return ListedRows(["user", "limits"], rows, streamed=False)
    name = call.options.get("user", "guest")
    if name not in users:
        raise VerbRefusal(UNAVAILABLE, f'{{:no_such_user, "{name}"}}')
    return call.message(sorted_json(users[name]))


def _limits_banner(call: VerbCall) -> str:
    if call.options.get("global"):
        return "Listing limits for all users ..."
    return f'Listing limits for user "{call.options.get("user", "guest")}" ...'


def _clear_topic_permissions(call: VerbCall) -> Outcome:
    exchange = call.arguments[1] if len(call.arguments) > 1 else None
    call.ask(ClearTopicPermissions(vhost=call.vhost, user=call.arguments[0], exchange=exchange))
    return call.done()


def _clear_topic_banner(call: VerbCall) -> str:
    exchange = f' on "{call.arguments[1]}"' if len(call.arguments) > 1 else ""
    return f'Clearing topic permissions{exchange} for user "{call.arguments[0]}" in vhost "{call.vhost}" ...'


_NO_HASH = "Could not Base64 decode provided password hash value"
_ALGORITHMS = {"sha256": SHA256, "sha-256": SHA256, "sha512": SHA512, "sha-512": SHA512, "md5": MD5}
_PERMISSION = ("user", "configure", "write", "read")
_TOPIC_PERMISSION = ("user", "exchange", "write", "read")


def _permission_list(kind: type[ListCommand], *columns: str, headed: bool = True) -> Any:
    """Return a verb that lists permissions, of a virtual host or of a user."""

    def run(call: VerbCall) -> Outcome:
        owner: dict[str, Any] = {"vhost": call.vhost} if issubclass(kind, VhostList) else {"name": call.arguments[0]}
        rows = call.ask(kind(columns=list(columns), **owner))
        return ListedRows(columns, rows, streamed=False, headed=headed)

    return run


LINES = """
[Users]
add_user c 1-2 until=3.13 <username> <password>
  Creates a user
  Adding user "{0}" ...
add_user c 1-2 since=4.2 <username> [<password>] [<password_hash> --pre-hashed-password]
  Creates a user, with a password or with the hash of one
  Adding user "{0}" ...
authenticate_user c 1-2 <username> <password>
  Tries a user's password
  Authenticating user "{0}" ...
change_password c 1-2 <username> <password>
  Gives a user another password
  Changing password for user "{0}" ...
clear_password c 1-1 <username>
  Lets a user log in with no password any more
  Clearing password for user "{0}" ...
clear_user_limits c 2-2 <username> <limit_type> | all
  Lifts a limit of a user, or all
delete_user c 1-1 <username>
  Deletes a user
  Deleting user "{0}" ...
list_user_limits cd 0-0 [--user <username>] [--global]
  Lists the limits of a user, or of all
list_users cd 0-0 [--no-table-headers] [--timeout <timeout>]
  Lists users and their tags
  Listing users ...
set_user_limits c 2-2 <username> <definition>
  Limits a user's connections and channels
  Setting user limits to "{1}" for user "{0}" ...
set_user_tags c 1-* <username> <tag> [...]
  Gives a user these tags and no others

[Access Control]
clear_permissions c 1-1 [--vhost <vhost>] <username>
  Keeps a user out of a virtual host
  Clearing permissions for user "{0}" in vhost "{vhost}" ...
clear_topic_permissions c 1-2 [--vhost <vhost>] <username> [<exchange>]
  Lifts a user's topic permissions, on an exchange or on all
list_permissions cd 0-0 [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
  Lists the permissions in a virtual host
  Listing permissions for vhost "{vhost}" ...
list_topic_permissions cd 0-0 [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
  Lists the topic permissions in a virtual host
  Listing topic permissions for vhost "{vhost}" ...
list_user_permissions cd 1-1 [--no-table-headers] <username> [--timeout <timeout>]
  Lists what a user may do in each virtual host
  Listing permissions for user "{0}" ...
list_user_topic_permissions cd 1-1 [--no-table-headers] <username> [--timeout <timeout>]
  Lists a user's topic permissions
  Listing topic permissions for user "{0}" ...
set_permissions c 4-4 [--vhost <vhost>] <username> <conf> <write> <read>
  Says what a user may do in a virtual host
  Setting permissions for user "{0}" in vhost "{vhost}" ...
set_permissions_globally c 4-4 since=3.13 <username> <conf> <write> <read>
  Says what a user may do in all virtual hosts
  Setting permissions for user "{0}" in all virtual hosts ...
set_topic_permissions c 4-4 [--vhost <vhost>] <username> <exchange> <write> <read>
  Says which routing keys of an exchange a user may use
  Setting topic permissions on "{1}" for user "{0}" in vhost "{vhost}" ...

[Other]
hash_password c 0-1 since=3.13 <cleartext_password> [--hashing-algorithm <algorithm>]
  Shows a password's hash, for definitions
"""

VERBS: dict[str, VerbAction] = {
    "add_user": VerbAction(_add_user, options=(Option("pre-hashed-password", bool),), check=_check_user),
    "authenticate_user": VerbAction(_authenticate_user, check=_check_user),
    "change_password": VerbAction(_change_password, _no_such_user),
    "clear_password": asking(lambda call, name: ClearPassword(name=name), _no_such_user_term),
    "delete_user": VerbAction(_delete_user, _no_such_user),
    "list_users": VerbAction(lister(ListUsers, ("user", "tags"))),
    "set_user_tags": asking(
        lambda call, name, *tags: SetUserTags(name=name, tags=list(tags)), _no_such_user, banner=_tags_banner
    ),
    "set_user_limits": asking(
        lambda call, name, limits: SetUserLimits(name=name, limits=parsed_json(call, limits)), _no_such_user_term
    ),
    "clear_user_limits": VerbAction(_clear_user_limits, _no_such_user_term, banner=_clear_banner),
    "list_user_limits": VerbAction(
        _list_user_limits, _no_such_user_term, (Option("user", str), Option("global", bool)), banner=_limits_banner
    ),
    "hash_password": VerbAction(
        _hash_password,
        options=(Option("hashing-algorithm", str),),
        check=_check_password,
        banner=_hash_banner,
        alone=True,
    ),
    "set_permissions_globally": asking(
        lambda call, user, configure, write, read: SetPermissionsGlobally(
            user=user, configure=configure, write=write, read=read
        ),
        _of_permissions,
    ),
    "set_permissions": asking(
        lambda call, user, configure, write, read: SetPermissions(
            vhost=call.vhost, user=user, configure=configure, write=write, read=read
        ),
        _of_permissions,
    ),
    "clear_permissions": asking(lambda call, user: ClearPermissions(vhost=call.vhost, user=user), _of_permissions),
    "set_topic_permissions": asking(
        lambda call, user, exchange, write, read: SetTopicPermissions(
            vhost=call.vhost, user=user, exchange=exchange, write=write, read=read
        ),
        _of_permissions,
    ),
    "clear_topic_permissions": VerbAction(_clear_topic_permissions, _of_permissions, banner=_clear_topic_banner),
    "list_permissions": VerbAction(_permission_list(ListPermissions, *_PERMISSION), no_vhost),
    "list_topic_permissions": VerbAction(_permission_list(ListTopicPermissions, *_TOPIC_PERMISSION), no_vhost),
    "list_user_permissions": VerbAction(
        _permission_list(ListUserPermissions, "vhost", *_PERMISSION[1:]), _no_such_user_term
    ),
    "list_user_topic_permissions": VerbAction(
        _permission_list(ListUserTopicPermissions, "vhost", *_TOPIC_PERMISSION[1:], headed=False),
        _no_such_user_term,
    ),
}
