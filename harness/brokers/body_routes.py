"""The routes of the HTTP API that take a body: those of its own table that complain of one that is no JSON."""

from __future__ import annotations

import re
from http.client import HTTPConnection
from typing import NamedTuple

from broker.entities.arguments.personality import DEFAULT
from broker.management.routes.route_table import resources_of
from harness.brokers.http_broker import basic
from harness.clients.wire_client import Address

NAMES = {"vhost": "%2F", "queue": "bodies", "exchange": "amq.topic", "source": "amq.topic", "component": "none"}
"""Values of names in a path. A thing to delete is not there, except for the virtual host that it is not in."""
COMPLAINTS = ("not_json", "failed_to_parse_json")
SECONDS = 10.0


class Route(NamedTuple):
    """A method, and a path with names in it."""

    method: str
    path: str


def changing_routes(node: str) -> list[Route]:
    """Every route for something else than reading."""
    found: list[Route] = []
    for resource in resources_of(DEFAULT.series):
        for method in resource.operations:
            if method != "GET":
                names = {"node": node} if method == "DELETE" else {**NAMES, "node": node}
                found.append(Route(method, _filled(resource.path, names)))
    return found


def routes_with_bodies(address: Address, node: str) -> list[Route]:
    """Those that read the body: the broker at an address refuses half an object there, whatever else is wrong."""
    return [route for route in changing_routes(node) if complains(address, route)]


def complains(address: Address, route: Route) -> bool:
    """A broker refuses half an object as what it is."""
    connection = HTTPConnection(*address, timeout=SECONDS)
    try:
        connection.request(route.method, route.path, b"{", {**basic(), "content-type": "application/json"})
        response = connection.getresponse()
        said = response.read() if response.status == 400 else b""  # an answer of another status may have no end
        return any(each.encode() in said for each in COMPLAINTS)
    finally:
        connection.close()


def _filled(path: str, names: dict[str, str]) -> str:
    """A path with its names. A virtual host that something is deleted in is there; one that is deleted is not."""
    inner = {**names, "vhost": "%2F"}
    return re.sub(
        r"\{(\w+)\}",
        lambda name: (names if name.end() == len(path) else inner).get(name[1], "none"),
        path,
    )
