"""The broker as a whole: who asks."""

from __future__ import annotations

from starlette.responses import Response

from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.resources import Resource, resource
from broker.management.responses import in_json


async def whoami(call: ApiCall) -> Response:
    """The user whose request it is."""
    tags = call.broker.users.by_name[call.account.name].tags
    return in_json({"name": call.account.name, "tags": list(tags)})


RESOURCES: list[Resource] = [
    resource("/api/whoami", GET=(Tag.ANY, whoami)),
]
