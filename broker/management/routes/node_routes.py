"""The broker as a whole: who asks."""

from __future__ import annotations

from starlette.responses import Response

from broker.management.access import Tag
from broker.management.answers import in_json
from broker.management.call import Call
from broker.management.resources import Resource, resource


async def whoami(call: Call) -> Response:
    """The user whose request it is."""
    tags = call.broker.users.by_name[call.account.name].tags
    return in_json({"name": call.account.name, "tags": list(tags)})


RESOURCES: list[Resource] = [
    resource("/api/whoami", GET=(Tag.ANY, whoami)),
]
