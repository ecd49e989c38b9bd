"""Limits of users and virtual hosts. What exceeds a new limit stays; more of it is refused."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

from broker.admin.commands.admin_command import AdminChange, Text
from broker.admin.commands.argument_values import distinct, json_value
from broker.admin.protocol import invalid
from broker.entities.node.user_limits import OF_USERS, OF_VHOSTS
from storage.definitions.definition_rows import Put, UserLimitRow, VhostLimitRow, delete

if TYPE_CHECKING:
    from broker.admin.administration import Administration


class SetUserLimits(AdminChange):
    """Set some of a user's limits; the others stay."""

    log_words: ClassVar[str] = "limits of user '{name}' are set"
    name: Text
    limits: object

    async def apply(self, administration: Administration) -> None:
        from broker.admin.kinds.limit_kind import checked

        name = administration.user(self.name).name
        limits = checked(json_value(self.limits, "limits"), OF_USERS, "user-limits")
        await administration.change(*(Put(UserLimitRow(name, *limit)) for limit in limits.items()))


class ClearUserLimits(AdminChange):
    """Remove some of a user's limits: all, if none is named."""

    log_words: ClassVar[str] = "limits of user '{name}' are cleared"
    name: Text
    limits: list[Text]

    async def apply(self, administration: Administration) -> None:
        name = administration.user(self.name).name
        cleared = _chosen(self.limits, OF_USERS)
        await administration.change(*(delete(UserLimitRow, user=name, name=limit) for limit in cleared))


class SetVhostLimits(AdminChange):
    """Set a virtual host's limits and remove those not named, as in RabbitMQ (a user's other limits stay)."""

    log_words: ClassVar[str] = "limits of virtual host '{name}' are set"
    name: Text
    limits: object

    async def apply(self, administration: Administration) -> None:
        from broker.admin.kinds.limit_kind import checked_of_vhost, replacing

        name = administration.vhost(self.name).name
        limits = checked_of_vhost(json_value(self.limits, "limits"))
        await administration.change(*replacing(administration.broker, name, limits))


class SetVhostLimit(AdminChange):
    """Set one limit of a virtual host; the others stay."""

    log_words: ClassVar[str] = "a limit of virtual host '{name}' is set"
    name: Text
    limit: Text
    value: object

    async def apply(self, administration: Administration) -> None:
        from broker.admin.kinds.limit_kind import checked_of_vhost

        name = administration.vhost(self.name).name
        limits = checked_of_vhost({self.limit: json_value(self.value, "value")})
        await administration.change(*(Put(VhostLimitRow(name, *limit)) for limit in limits.items()))


class ClearVhostLimits(AdminChange):
    """Remove some of a virtual host's limits: all, if none is named."""

    log_words: ClassVar[str] = "limits of virtual host '{name}' are cleared"
    name: Text
    limits: list[Text]

    async def apply(self, administration: Administration) -> None:
        name = administration.vhost(self.name).name
        cleared = _chosen(self.limits, OF_VHOSTS)
        await administration.change(*(delete(VhostLimitRow, vhost=name, name=limit) for limit in cleared))


def _chosen(names: list[str], known: Collection[str]) -> Collection[str]:
    for name in names:
        if name != "all" and name not in known:
            raise invalid(f"Unrecognised limit '{name}'; known: {', '.join(sorted(known))}")
    return known if not names or "all" in names else distinct(names)
