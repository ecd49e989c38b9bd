"""Refusals and headers of the HTTP API that RabbitMQ 4.3.6 has and 3.10.8 has not, for users of each tag."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from harness.brokers.http_broker import web_broker
from harness.brokers.rabbitmq_reference import REFERENCE
from tests.conformance.http.api_requests import Api

pytestmark = pytest.mark.skipif(bool(REFERENCE), reason="the reference is RabbitMQ 3.10")

TAGS = {"in": "management", "out": "management", "pol": "policymaker", "mon": "monitoring", "adm": "administrator"}
"""Users; `in` alone has permissions in the virtual host v, and none of them has rights there."""
HIDDEN = 404, "not_found", "Not Found"
REFUSED = 401, "not_authorised", "Access refused."
NOT_THE_OBJECT = 401, "not_authorised", "User not authorised to access object"
NOT_ADMINISTRATOR = 401, "not_authorised", "Not administrator user"
NO_SUCH_VHOST = 404, "not_found", "vhost_not_found"
NO_SUCH_NAME = 404, "Object Not Found", "Not Found"
ANSWERS = {
    ("out", "GET", "queues/v"): HIDDEN,
    ("mon", "GET", "exchanges/v/amq.topic"): HIDDEN,
    ("out", "PUT", "queues/v/q"): HIDDEN,
    ("out", "GET", "consumers/v"): HIDDEN,
    ("mon", "GET", "consumers/v"): 200,
    ("out", "GET", "vhost-limits/v"): HIDDEN,
    ("mon", "GET", "shovels/v"): 200,
    ("pol", "GET", "policies/v/p"): HIDDEN,
    ("out", "GET", "policies/v/p"): NOT_THE_OBJECT,
    ("adm", "GET", "queues/v"): 200,
    ("adm", "PUT", "queues/v/q"): REFUSED,
    ("adm", "DELETE", "queues/v/none"): NO_SUCH_NAME,
    ("adm", "POST", "queues/v/none/get"): (404, "not_found", "queue_not_found"),
    ("guest", "POST", "exchanges/v/none/publish"): (404, "not_found", "exchange_not_found"),
    ("guest", "POST", "exchanges/none/x/publish"): NO_SUCH_VHOST,
    ("guest", "PUT", "parameters/shovel/none/s"): NO_SUCH_VHOST,
    ("guest", "DELETE", "vhost-limits/none/max-queues"): NO_SUCH_VHOST,
    ("guest", "PUT", "permissions/v/none"): (400, "bad_request", "vhost_or_user_not_found"),
    ("guest", "POST", "vhosts/v/start/none"): (400, "bad_request", "Unknown node: none"),
    ("guest", "DELETE", "shovels/vhost/v/none"): 204,
    ("out", "GET", "user-limits"): NOT_ADMINISTRATOR,
    ("out", "GET", "user-limits/out"): 200,
    ("out", "GET", "user-limits/in"): NOT_THE_OBJECT,
    ("mon", "GET", "user-limits/none"): NO_SUCH_NAME,
    ("out", "GET", "connections/username/out"): 200,
    ("out", "DELETE", "connections/username/in"): NOT_THE_OBJECT,
    ("mon", "DELETE", "auth/attempts/{node}"): NOT_ADMINISTRATOR,
    ("out", "HEAD", "user-limits/out"): 405,
    ("out", "PUT", "none"): 405,
}
"""By user, method and path; each body is an empty object."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    process = web_broker(tmp_path_factory.mktemp("api"), '[identity]\npersonality = "4.3"\n')
    process.start()
    api = Api(process)
    api.request("PUT", "vhosts/v", {})
    for user, tags in TAGS.items():
        api.request("PUT", f"users/{user}", {"password": user, "tags": tags})
    api.request("PUT", "permissions/v/in", {"configure": "", "write": "", "read": ""})
    yield api
    process.stop()


@pytest.mark.parametrize(("user", "method", "path"), ANSWERS)
def test_answers(api: Api, user: str, method: str, path: str) -> None:
    path = path.replace("{node}", api.get("overview")["node"])
    reply = api.request(method, path, {} if method in ("PUT", "POST") else None, user=f"{user}:{user}")
    expected = ANSWERS[user, method, path if "attempts" not in path else "auth/attempts/{node}"]
    if isinstance(expected, int):
        assert reply.status == expected
    else:
        found = json.loads(reply.body)
        assert (reply.status, found["error"], found["reason"]) == expected


JSON, ONE_TYPE, EARLY = "accept, accept-encoding, origin", "accept-encoding, origin", "origin, accept-encoding"
STRICT, KEPT = "no-cache", "public, max-age=0, must-revalidate"


@pytest.mark.parametrize(
    ("user", "method", "path", "allow", "cache", "vary"),
    [
        ("guest", "GET", "queues", "HEAD, GET, OPTIONS", STRICT, JSON),
        ("guest", "GET", "vhosts/none", "HEAD, GET, PUT, DELETE, OPTIONS", KEPT, JSON),
        ("guest", "GET", "vhost-limits", "GET, OPTIONS", STRICT, ONE_TYPE),
        ("guest", "GET", "shovels", "HEAD, GET, OPTIONS", STRICT, EARLY),
        ("guest", "DELETE", "reset", "DELETE, OPTIONS", KEPT, ONE_TYPE),
        ("guest", "POST", "queues", "HEAD, GET, OPTIONS", KEPT, EARLY),
        ("out", "GET", "queues/v", "HEAD, GET, OPTIONS", KEPT, EARLY),
        ("out", "OPTIONS", "definitions", "HEAD, GET, POST, OPTIONS", KEPT, EARLY),
        ("out", "GET", "nothing", "HEAD, GET, OPTIONS", KEPT, EARLY),
        ("out", "GET", "version", "HEAD, GET, OPTIONS", STRICT, JSON),
    ],
)
def test_headers(api: Api, user: str, method: str, path: str, allow: str, cache: str, vary: str) -> None:
    reply = api.request(method, path, user=f"{user}:{user}")
    assert [reply.headers.get(name) for name in ("allow", "cache-control", "vary")] == [allow, cache, vary]
    assert reply.headers["content-security-policy"] == "script-src 'self'; object-src 'self'"
    assert ("pragma" in reply.headers, "expires" in reply.headers) == (path == "version", path == "version")


def test_a_wrong_password(api: Api) -> None:
    reply = api.request("GET", "overview", user="guest:wrong")
    assert (reply.status, json.loads(reply.body)["reason"]) == (401, "Not_Authorized")
    assert "www-authenticate" not in reply.headers
    assert "www-authenticate" in api.request("GET", "overview", user=None).headers


def test_users_that_are_not_there_are_no_reason_to_keep_others(api: Api) -> None:
    api.request("PUT", "users/gone", {"password": "x", "tags": ""})
    assert api.request("POST", "users/bulk-delete", {"users": ["none", "gone"]}).status == 204
    assert api.request("GET", "users/gone").status == 404
