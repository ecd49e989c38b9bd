"""Virtual hosts: creation with the pre-declared exchanges, description, deletion with everything in them, tracing."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from broker.admin.commands.admin_command import AdminChange, ListCommand, Text
from broker.admin.commands.argument_values import distinct, named, tags_of
from broker.admin.protocol import invalid
from storage.definitions.definition_rows import Change, PermissionRow, Put, VhostRow, delete

if TYPE_CHECKING:
    from broker.admin.administration import Administration
    from broker.admin.views.listing import View


class ListVhosts(ListCommand):
    """List the virtual hosts."""

    def view(self) -> View:
        from broker.admin.views.access_view import VHOSTS

        return VHOSTS


class AddVhost(AdminChange):
    """Create a virtual host. One that is there already stays as it is, as in RabbitMQ; `added` in the answer tells."""

    log_words: ClassVar[str] = "virtual host '{name}' is added, unless it was there"
    name: Text
    description: Text
    tags: list[Text]
    default_queue_type: Text

    async def apply(self, administration: Administration) -> dict[str, bool]:
        from broker.admin.kinds.vhost_kind import check_queue_type, protection_of, queue_type_put

        broker, name = administration.broker, named(self.name)
        check_queue_type(broker, self.default_queue_type)
        if name in broker.vhosts:
            return {"added": False}
        queue_type = queue_type_put(broker, name, self.default_queue_type)
        row = VhostRow(name, self.description, distinct(self.tags), queue_type, protection_of(broker, name))
        await administration.change(Put(row))
        return {"added": True}


class PutVhost(AdminChange):
    """Create a virtual host in which `user` has all permissions, or change one, as RabbitMQ's API does.

    What is not given is empty afterwards; tracing stays as it is.
    """

    log_words: ClassVar[str] = "virtual host '{name}' is added or changed"
    name: Text
    user: Text
    description: Text | None = None
    tags: list[Text] | Text | None = None
    default_queue_type: Text | None = None
    tracing: bool | None = None

    async def apply(self, administration: Administration) -> None:
        from broker.admin.kinds.vhost_kind import check_queue_type, protection_of, queue_type_put, set_tracing

        broker, name = administration.broker, named(self.name)
        if self.default_queue_type == "" and broker.personality.vhost_types:
            raise invalid("default_queue_type must not be an empty string")
        check_queue_type(broker, self.default_queue_type or "")
        queue_type = queue_type_put(broker, name, self.default_queue_type or "")
        protected = protection_of(broker, name)
        row = VhostRow(name, self.description or "", tags_of(self.tags), queue_type, protected)
        user = administration.user(self.user).name
        changes: list[Change] = [Put(row)]
        if row.name not in administration.broker.vhosts:
            changes.append(Put(PermissionRow(user, row.name, ".*", ".*", ".*")))
        await administration.change(*changes)
        if self.tracing is not None:
            set_tracing(administration.vhost(row.name), on=self.tracing)


class UpdateVhost(AdminChange):
    """Change what is given of a virtual host's description, tags, default queue type and protection from deletion."""

    log_words: ClassVar[str] = "virtual host '{name}' is changed"
    name: Text
    description: Text | None = None
    tags: list[Text] | None = None
    default_queue_type: Text | None = None
    protected_from_deletion: bool | None = None

    async def apply(self, administration: Administration) -> None:
        from broker.admin.kinds.vhost_kind import check_queue_type

        vhost = administration.vhost(self.name)
        before = vhost.description
        row = VhostRow(
            vhost.name,
            before.description if self.description is None else self.description,
            before.tags if self.tags is None else distinct(self.tags),
            before.default_queue_type if self.default_queue_type is None else self.default_queue_type,
            before.protected_from_deletion if self.protected_from_deletion is None else self.protected_from_deletion,
        )
        check_queue_type(administration.broker, row.default_queue_type)
        await administration.change(Put(row))


class DeleteVhost(AdminChange):
    """Delete a virtual host: consumers are cancelled, then its connections are closed, as in RabbitMQ."""

    log_words: ClassVar[str] = "virtual host '{name}' is deleted"
    name: Text

    async def apply(self, administration: Administration) -> None:
        from broker.admin.kinds.vhost_kind import assert_deletable

        vhost = administration.vhost(self.name)
        assert_deletable(administration.broker, vhost)
        await administration.change(delete(VhostRow, name=vhost.name))
        administration.end_turn()
        administration.registry.close_connections(f"vhost '{vhost.name}' is deleted", vhost=vhost.name)


class TraceOn(AdminChange):
    """Publish a copy of every message of a virtual host to amq.rabbitmq.trace, until the broker stops."""

    log_words: ClassVar[str] = "tracing of virtual host '{vhost}' is on"
    vhost: Text

    async def apply(self, administration: Administration) -> None:
        from broker.admin.kinds.vhost_kind import set_tracing

        set_tracing(administration.vhost(self.vhost), on=True)


class TraceOff(AdminChange):
    """Switch tracing off; no error if it is off."""

    log_words: ClassVar[str] = "tracing of virtual host '{vhost}' is off"
    vhost: Text

    async def apply(self, administration: Administration) -> None:
        from broker.admin.kinds.vhost_kind import set_tracing

        set_tracing(administration.vhost(self.vhost), on=False)
