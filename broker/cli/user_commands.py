"""`leveret user|vhost|permission|topic-permission ...`: users, virtual hosts and permissions."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click

from broker.admin.commands.admin_command import ListCommand
from broker.admin.commands.limit_admin import ClearUserLimits, ClearVhostLimits, SetUserLimits, SetVhostLimits
from broker.admin.commands.permission_admin import (
    ClearPermissions,
    ClearTopicPermissions,
    ListUserPermissions,
    SetPermissions,
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
from broker.admin.commands.vhost_admin import AddVhost, DeleteVhost, ListVhosts, UpdateVhost
from broker.cli.list_command import show
from broker.cli.table_output import done, show_rows, text
from broker.cli.target_broker import Target, json_option, targeted, vhost_option
from broker.cli.usage.command_groups import Commands
from broker.cli.usage.json_argument import json_object

TAGS = ("administrator", "monitoring", "policymaker", "management", "impersonator")
"""Tags that let a user do something; others are kept for programs."""

password_argument = click.argument("password", required=False)


def _password(given: str | None, *, new: bool = False) -> str:
    """A password named `-`, or not named at all, comes from standard input: arguments can be seen by all users."""
    return given if given is not None and given != "-" else asked_password(new=new)


def asked_password(*, new: bool = False) -> str:
    """The password that is typed, unseen, a new one twice; or comes as the first line of standard input.

    Raises UsageError where that is at its end.
    """
    if sys.stdin.isatty():
        typed: str = click.prompt("Password", hide_input=True, err=True, confirmation_prompt=new)
        return typed
    line = sys.stdin.readline()
    if not line:
        raise click.UsageError("there is no password: expected one as an argument, or as a line of standard input")
    return line.rstrip("\n")


@click.group(cls=Commands)
def user() -> None:
    """Users: add, delete, list, passwords, tags, limits."""


def _tags(text: str) -> list[str]:
    return [tag for tag in text.split(",") if tag]


@user.command(name="add", example="app --tags monitoring", elsewhere="add_user")
@targeted
@click.argument("name")
@password_argument
@click.option("--tags", default="", metavar="TAG,...", help="Tags such as administrator or monitoring.")
def add_user(target: Target, name: str, password: str | None, tags: str) -> None:
    """Create the user NAME. It has no access to virtual hosts until `permission set`.

    Without PASSWORD, or with `-`, the password is asked for on a terminal, or read from standard input.
    """
    named = _tags(tags)
    _warn_of_unknown(named)
    target.run(AddUser(name=name, password=_password(password, new=True), tags=named))
    done("user {} is added; `leveret permission set {} CONFIGURE WRITE READ` lets it into a virtual host", name, name)


@user.command(name="delete", example="app", elsewhere="delete_user")
@targeted
@click.argument("name")
def delete_user(target: Target, name: str) -> None:
    """Delete the user NAME with its permissions; its connections are closed."""
    target.run(DeleteUser(name=name))
    done("user {} is deleted", name)


@user.command(name="list", example="--json")
@targeted
@json_option
def list_users(target: Target, as_json: bool) -> None:
    """List the users and their tags."""
    show(target, "users", (), None, as_json)


@user.command(name="change-password", example="app", elsewhere="change_password")
@targeted
@click.argument("name")
@password_argument
def change_password(target: Target, name: str, password: str | None) -> None:
    """Change the password of the user NAME; without PASSWORD, or with `-`, it is read from standard input."""
    target.run(ChangePassword(name=name, password=_password(password, new=True)))
    done("user {} has a new password", name)


@user.command(name="clear-password", example="app", elsewhere="clear_password")
@targeted
@click.argument("name")
def clear_password(target: Target, name: str) -> None:
    """Remove the password of the user NAME, which can then log in by certificate only."""
    target.run(ClearPassword(name=name))
    done("user {} has no password", name)


@user.command(name="set-tags", example="app administrator", elsewhere="set_user_tags")
@targeted
@click.argument("name")
@click.argument("tags", nargs=-1)
def set_user_tags(target: Target, name: str, tags: tuple[str, ...]) -> None:
    """Replace the tags of the user NAME.

    Tags with a meaning are administrator, monitoring, policymaker, management and impersonator.
    """
    _warn_of_unknown(tags)
    answer = target.run(SetUserTags(name=name, tags=list(tags)))
    lost = [tag for tag in answer.get("tags_before", ()) if tag in TAGS and tag not in tags]
    done("user {} has the tags: {}", name, ", ".join(tags) or "none")
    if lost:
        click.echo(f"leveret: warning: user {text(name)} has lost {', '.join(lost)}", err=True)


def _warn_of_unknown(tags: Iterable[str]) -> None:
    for tag in tags:
        if tag not in TAGS:
            known = f"the tags that mean something are {', '.join(TAGS)}"
            click.echo(f"leveret: warning: the tag {text(tag)} means nothing here; {known}", err=True)


@user.command(name="authenticate", example="app", elsewhere="authenticate_user")
@targeted
@click.argument("name")
@password_argument
def authenticate_user(target: Target, name: str, password: str | None) -> None:
    """Check a user's password; exit code 1 if it is wrong."""
    target.run(AuthenticateUser(name=name, password=_password(password)))
    done("password of user {} is correct", name)


@user.command(name="permissions", example="app", elsewhere="list_user_permissions")
@targeted
@click.argument("name")
@json_option
def list_user_permissions(target: Target, name: str, as_json: bool) -> None:
    """List the permissions of the user NAME."""
    rows = target.run(ListUserPermissions(name=name))
    show_rows(rows, ("vhost", "configure", "write", "read"), as_json)


def _limits(text: str) -> dict[str, Any]:
    return json_object(text, "limits", '{"max-connections": 5}')


@user.command(name="set-limits", example="app '{\"max-connections\": 5}'", elsewhere="set_user_limits")
@targeted
@click.argument("name")
@click.argument("definition")
def set_user_limits(target: Target, name: str, definition: str) -> None:
    """Set limits of the user NAME; DEFINITION is JSON such as {"max-connections": 5, "max-channels": 100}."""
    target.run(SetUserLimits(name=name, limits=_limits(definition)))
    done("limits of user {} are set", name)


@user.command(name="clear-limits", example="app max-connections", elsewhere="clear_user_limits")
@targeted
@click.argument("name")
@click.argument("limits", nargs=-1)
def clear_user_limits(target: Target, name: str, limits: tuple[str, ...]) -> None:
    """Remove these LIMITS of the user NAME, or all."""
    target.run(ClearUserLimits(name=name, limits=list(limits)))
    done("limits of user {} are cleared", name)


@user.command(name="limits", elsewhere="list_user_limits")
@targeted
@json_option
def list_user_limits(target: Target, as_json: bool) -> None:
    """List the limits of users."""
    _show_limits(target, ListUsers, as_json)


@click.group(cls=Commands)
def vhost() -> None:
    """Virtual hosts: add, delete, list, limits."""


@vhost.command(name="add", example="staging --default-queue-type quorum", elsewhere="add_vhost")
@targeted
@click.argument("name")
@click.option("--description", default="", help="Description.")
@click.option("--tags", default="", metavar="TAG,...", help="Tags, with commas between.")
@click.option(
    "--default-queue-type",
    default="",
    metavar="TYPE",
    help="Type of queues declared without x-queue-type: classic (the default), quorum or stream.",
)
def add_vhost(target: Target, name: str, description: str, tags: str, default_queue_type: str) -> None:
    """Create the virtual host NAME."""
    wanted = AddVhost(name=name, description=description, tags=_tags(tags), default_queue_type=default_queue_type)
    if (target.run(wanted) or {}).get("added", True):
        done("virtual host {} is added", name)
    else:
        done("virtual host {} was there already, and stays as it is; `leveret vhost set {}` changes it", name, name)


@vhost.command(name="set", example="staging --description 'tests of the shop'")
@targeted
@click.argument("name")
@click.option("--description", help="Description.")
@click.option("--tags", metavar="TAG,...", help="Tags that replace those it has.")
@click.option(
    "--default-queue-type",
    metavar="TYPE",
    help="Type of queues declared without x-queue-type: classic (the default), quorum or stream.",
)
def update_vhost(
    target: Target, name: str, description: str | None, tags: str | None, default_queue_type: str | None
) -> None:
    """Change the virtual host NAME; options that are not given stay as they are."""
    named = None if tags is None else _tags(tags)
    target.run(UpdateVhost(name=name, description=description, tags=named, default_queue_type=default_queue_type))
    done("virtual host {} is changed", name)


@vhost.command(name="delete", example="staging", elsewhere="delete_vhost")
@targeted
@click.argument("name")
def delete_vhost(target: Target, name: str) -> None:
    """Delete the virtual host NAME with everything in it; its connections are closed."""
    target.run(DeleteVhost(name=name))
    done("virtual host {} is deleted", name)


@vhost.command(name="list")
@targeted
@json_option
def list_vhosts(target: Target, as_json: bool) -> None:
    """List the virtual hosts."""
    show(target, "vhosts", (), None, as_json)


@vhost.command(name="set-limits", example="staging '{\"max-queues\": 100}'", elsewhere="set_vhost_limits")
@targeted
@click.argument("name")
@click.argument("definition")
def set_vhost_limits(target: Target, name: str, definition: str) -> None:
    """Set limits of the virtual host NAME; DEFINITION is JSON such as {"max-connections": 5, "max-queues": 100}."""
    target.run(SetVhostLimits(name=name, limits=_limits(definition)))
    done("limits of virtual host {} are set", name)


@vhost.command(name="clear-limits", example="staging", elsewhere="clear_vhost_limits")
@targeted
@click.argument("name")
@click.argument("limits", nargs=-1)
def clear_vhost_limits(target: Target, name: str, limits: tuple[str, ...]) -> None:
    """Remove these LIMITS of the virtual host NAME, or all."""
    target.run(ClearVhostLimits(name=name, limits=list(limits)))
    done("limits of virtual host {} are cleared", name)


@vhost.command(name="limits", elsewhere="list_vhost_limits")
@targeted
@json_option
def list_vhost_limits(target: Target, as_json: bool) -> None:
    """List the limits of virtual hosts."""
    _show_limits(target, ListVhosts, as_json)


def _show_limits(target: Target, command: type[ListCommand], as_json: bool) -> None:
    rows = [row for row in target.run(command(columns=["name", "limits"])) if row["limits"]]
    show_rows(rows, ("name", "limits"), as_json)


@click.group(cls=Commands)
def permission() -> None:
    """Permissions of users in a virtual host: configure, write, read."""


@permission.command(name="set", example="-p staging app '.*' '.*' '.*'", elsewhere="set_permissions")
@targeted
@vhost_option
@click.argument("user")
@click.argument("configure")
@click.argument("write")
@click.argument("read")
def set_permissions(target: Target, vhost: str, user: str, configure: str, write: str, read: str) -> None:
    """Set permissions of USER: regular expressions for names; an empty one matches none."""
    target.run(SetPermissions(vhost=vhost, user=user, configure=configure, write=write, read=read))
    done("permissions of user {} in virtual host {} are set", user, vhost)


@permission.command(name="clear", example="-p staging app", elsewhere="clear_permissions")
@targeted
@vhost_option
@click.argument("user")
def clear_permissions(target: Target, vhost: str, user: str) -> None:
    """Remove the permissions of USER in the virtual host, and so its access."""
    target.run(ClearPermissions(vhost=vhost, user=user))
    done("user {} has no permissions in virtual host {}", user, vhost)


@permission.command(name="list", example="-p staging")
@targeted
@vhost_option
@json_option
def list_permissions(target: Target, vhost: str, as_json: bool) -> None:
    """List the permissions in the virtual host."""
    show(target, "permissions", (), vhost, as_json)


@click.group(cls=Commands, name="topic-permission")
def topic_permission() -> None:
    """Routing keys that users may publish and bind with on a topic exchange."""


@topic_permission.command(name="set", example="app amq.topic '^orders' '.*'", elsewhere="set_topic_permissions")
@targeted
@vhost_option
@click.argument("user")
@click.argument("exchange")
@click.argument("write")
@click.argument("read")
def set_topic_permissions(target: Target, vhost: str, user: str, exchange: str, write: str, read: str) -> None:
    """Set the routing keys that USER may write and read on EXCHANGE; {username} and {vhost} are replaced."""
    target.run(SetTopicPermissions(vhost=vhost, user=user, exchange=exchange, write=write, read=read))
    done("topic permissions of user {} on exchange {} are set", user, exchange)


@topic_permission.command(name="clear", example="app amq.topic", elsewhere="clear_topic_permissions")
@targeted
@vhost_option
@click.argument("user")
@click.argument("exchange", required=False)
def clear_topic_permissions(target: Target, vhost: str, user: str, exchange: str | None) -> None:
    """Remove the topic permissions of USER on EXCHANGE, or on every exchange of the virtual host."""
    target.run(ClearTopicPermissions(vhost=vhost, user=user, exchange=exchange))
    done("topic permissions of user {} in virtual host {} are cleared", user, vhost)


@topic_permission.command(name="list")
@targeted
@vhost_option
@json_option
def list_topic_permissions(target: Target, vhost: str, as_json: bool) -> None:
    """List the topic permissions in the virtual host."""
    show(target, "topic-permissions", (), vhost, as_json)
