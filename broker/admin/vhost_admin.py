"""Virtual hosts: made with their pre-declared exchanges, deleted with everything in them."""

from __future__ import annotations

from broker.admin import tracing_admin
from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.protocol import invalid
from storage.definitions.definition_rows import Change, PermissionRow, Put, VhostRow, delete

QUEUE_TYPES = ("classic", "quorum", "stream")


async def add_vhost(administration: Administration, arguments: Arguments) -> None:
    """Create a virtual host; one that is there already is described anew, as in RabbitMQ."""
    queue_type = arguments.text("default_queue_type")
    _check_queue_type(queue_type)
    row = VhostRow(arguments.name("name"), arguments.text("description"), arguments.texts("tags"), queue_type)
    if row.name not in administration.broker.vhosts or any(row[1:]):
        await administration.change(Put(row))


async def put_vhost(administration: Administration, arguments: Arguments) -> None:
    """Create a virtual host in which `user` may do everything, or describe it anew, as RabbitMQ's API does.

    What is not given is empty afterwards; tracing stays as it is.
    """
    queue_type = arguments.optional("default_queue_type") or ""
    _check_queue_type(queue_type)
    tags = arguments.tags("tags") if arguments.has("tags") else ()
    row = VhostRow(arguments.name("name"), arguments.optional("description") or "", tags, queue_type)
    tracing, user = arguments.flag("tracing"), administration.user(arguments.text("user")).name
    changes: list[Change] = [Put(row)]
    if row.name not in administration.broker.vhosts:
        changes.append(Put(PermissionRow(user, row.name, ".*", ".*", ".*")))
    await administration.change(*changes)
    if tracing is not None:
        tracing_admin.switch(administration.vhost(row.name), on=tracing)


async def update_vhost(administration: Administration, arguments: Arguments) -> None:
    """Describe a virtual host anew: `description`, `tags` and `default_queue_type`, of which any may be left out."""
    vhost = administration.vhost(arguments.text("name"))
    said = vhost.description
    if arguments.given("description"):
        said = said._replace(description=arguments.text("description"))
    if arguments.given("tags"):
        said = said._replace(tags=arguments.texts("tags"))
    if arguments.given("default_queue_type"):
        said = said._replace(default_queue_type=arguments.text("default_queue_type"))
    _check_queue_type(said.default_queue_type)
    await administration.change(Put(VhostRow(vhost.name, *said)))


def _check_queue_type(queue_type: str) -> None:
    if queue_type not in ("", *QUEUE_TYPES):
        raise invalid(f"Unsupported default queue type '{queue_type}'; known: {', '.join(QUEUE_TYPES)}")


async def delete_vhost(administration: Administration, arguments: Arguments) -> None:
    """Delete a virtual host: consumers are cancelled, then its connections are sent away, as RabbitMQ does."""
    name = administration.vhost(arguments.text("name")).name
    await administration.change(delete(VhostRow, name=name))
    administration.end_turn()
    administration.registry.close_connections(f"vhost '{name}' is deleted", vhost=name)
