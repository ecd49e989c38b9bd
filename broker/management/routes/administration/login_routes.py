"""Logging in: the methods, the current user, and hashes of passwords for definitions files."""

from __future__ import annotations

from base64 import b64encode
from typing import Any
from urllib.parse import parse_qs

from starlette.responses import Response

from broker.management import access
from broker.management.access import Account, Tag
from broker.management.api_call import ApiCall
from broker.management.json_bodies import RequestBodies
from broker.management.resources import Resource, resource
from broker.management.responses import Problem, empty, in_json
from broker.session.login.passwords import hash_password

FORM_BYTES_MAX = 16 * 1024
"""Largest form: it is read without credentials."""


async def show_login(call: ApiCall) -> Response:
    """Show the methods of logging in: no OAuth 2. The keys are those of RabbitMQ 3.10 and 3.13."""
    return in_json({"enable_uaa": False, "uaa_client_id": "", "uaa_location": "", "oauth_enabled": False})


async def log_in(call: ApiCall) -> Response:
    """Check the user name and password of a form, and return what RabbitMQ's page sends from then on.

    That is a token since RabbitMQ 4.3, before it a cookie.
    """
    body = await RequestBodies(FORM_BYTES_MAX).read(call.request)
    form = parse_qs(body.take_all().decode("utf-8", "surrogateescape"), errors="surrogateescape")
    user, password = (form.get(name, [""])[0] for name in ("username", "password"))
    credentials = b64encode(f"{user}:{password}".encode("utf-8", "surrogateescape")).decode()
    of_4_3 = call.api.series >= (4, 3)
    try:
        account = access.account(call.api.registry, call.client.peer, f"Basic {credentials}")
    except Problem as refused:
        refused.early = True
        raise
    account.require(Tag.ANY)
    call.client.admit()
    if of_4_3:
        return in_json({"user": _described(call, account), "token": {"type": "basic", "value": credentials}})
    return in_json("ok", {"set-cookie": f"auth={credentials}; Version=1; SameSite=Strict"})


async def log_out(call: ApiCall) -> Response:
    """Do nothing: a token is kept by nobody but its client."""
    return empty(204)


async def show_user(call: ApiCall) -> Response:
    """Show the user of the request."""
    return in_json(_described(call, call.account))


def _described(call: ApiCall, account: Account) -> dict[str, Any]:
    tags = call.broker.users.by_name[account.name].tags
    internal = {"is_internal_user": True} if call.api.series >= (4, 0) else {}
    return {"name": account.name, "tags": list(tags), **internal}


async def show_version(call: ApiCall) -> Response:
    """Show the version of RabbitMQ, to anybody."""
    return in_json(call.api.settings.version)


async def show_hash(call: ApiCall) -> Response:
    """Hash the password in the path with a random salt."""
    return in_json({"ok": hash_password(call.names["password"].encode("utf-8", "surrogateescape"))})


RESOURCES: list[Resource] = [
    resource("/api/auth", GET=(None, show_login), until=(4, 0)),
    resource("/api/version", GET=(None, show_version), since=(4, 0)),
    resource("/api/auth/hash_password/{password}", headless=True, GET=(Tag.ADMINISTRATOR, show_hash)),
    resource("/api/whoami", GET=(Tag.ANY, show_user)),
    resource("/api/login", POST=(None, log_in), until=(4, 3)),
    resource("/api/login", POST=(None, log_in), DELETE=(None, log_out), since=(4, 3)),
]
