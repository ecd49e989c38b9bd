"""Access by HTTP: the broker's users, by the rules and in the words of RabbitMQ's management plugin.

Wrong passwords are throttled by the same login throttle as over AMQP. A throttled client gets 429: RabbitMQ knows
no such thing, and a program with the right password must not take it for the wrong one.
"""

from __future__ import annotations

import logging
import math

from broker.server.http.http_messages import Answer, Request, problem
from broker.session.login import authenticate, sasl
from broker.session.registry import Registry

log = logging.getLogger("leveret.http")

MANAGEMENT = {"administrator", "monitoring", "policymaker", "management"}
MONITORING = {"administrator", "monitoring"}
"""Tags that let a user into RabbitMQ's management plugin at all, and those that show the whole broker."""
CHALLENGE = ("WWW-Authenticate", 'Basic realm="Leveret"')


def refusal(registry: Registry, request: Request) -> Answer | None:
    """Why a request is not handled; None when its user may see the whole broker."""
    scheme, _, credentials = request.headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() != b"basic":
        return _unauthorized("not_authorized", "Login failed")
    try:
        login = sasl.basic(credentials.strip())
    except sasl.Malformed as error:
        log.warning("HTTP request of %s: %s", request.peer, error)
        return problem(400, "bad_request", str(error))
    refused = authenticate.refusal(registry, request.peer, login)
    if refused is not None:
        log.warning("HTTP request of %s: login refused: user '%s' - %s", request.peer, login.user, refused.reason)
        return _refused(refused)
    tags = registry.broker.users.by_name[login.user].tags
    if MONITORING.isdisjoint(tags):
        reason = "Not management user" if MANAGEMENT.isdisjoint(tags) else "Not monitor user"
        log.warning("HTTP request of %s: access denied: user '%s' - %s", request.peer, login.user, reason)
        return _unauthorized("not_authorised", reason)
    return None


def _refused(refused: authenticate.Refusal) -> Answer:
    if refused.unseen:
        after = ("Retry-After", str(math.ceil(refused.unseen)))
        return problem(429, "too_many_requests", "Too many wrong passwords", after)
    if refused.reason != sasl.INVALID:
        return _unauthorized("not_authorised", "User can only log in via localhost")
    return _unauthorized("not_authorized", "Login failed")._replace(delay=refused.longer)


def _unauthorized(error: str, reason: str) -> Answer:
    return problem(401, error, reason, CHALLENGE)
