"""Logging in: how it is done, whether a password is right, and its hash for a definitions file."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import parse_qs

from starlette.responses import Response

from broker.management import access
from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.json_bodies import RequestBodies
from broker.management.resources import Resource, resource
from broker.management.responses import in_json
from broker.session.login.passwords import hash_password

FORM_BYTES_MAX = 16 * 1024
"""How large a form may be: strangers send it."""


async def show_login(call: ApiCall) -> Response:
    """How users log in: with a password, and without OAuth 2. The keys of RabbitMQ 3.10, and of 3.13."""
    return in_json({"enable_uaa": False, "uaa_client_id": "", "uaa_location": "", "oauth_enabled": False})


async def log_in(call: ApiCall) -> Response:
    """Try a name and a password of a form. The cookie is for RabbitMQ's page, which makes a header of it."""
    body = await RequestBodies(FORM_BYTES_MAX).read(call.request)
    form = parse_qs(body.decode("utf-8", "surrogateescape"), errors="surrogateescape")
    user, password = (form.get(name, [""])[0] for name in ("username", "password"))
    credentials = b64encode(f"{user}:{password}".encode("utf-8", "surrogateescape")).decode()
    access.account(call.api.registry, call.client.peer, f"Basic {credentials}").require(Tag.ANY)
    call.client.admit()
    return in_json("ok", {"set-cookie": f"auth={credentials}; Version=1; SameSite=Strict"})


async def show_hash(call: ApiCall) -> Response:
    """A hash of the password that the path names, with a salt of its own."""
    return in_json({"ok": hash_password(call.names["password"].encode("utf-8", "surrogateescape"))})


RESOURCES: list[Resource] = [
    resource("/api/auth", GET=(None, show_login)),
    resource("/api/auth/hash_password/{password}", GET=(Tag.ADMINISTRATOR, show_hash)),
    resource("/api/login", POST=(None, log_in)),
]
