"""Each route of the API asks for what RabbitMQ asks of its users: no credentials, one of some tags, a permission.

All routes are walked by users with each tag, with permissions in the virtual host and without. A route that is not in
the table fails the test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import NamedTuple

import pytest

from broker.entities.arguments.personality import DEFAULT
from broker.management.resources import Resource
from broker.management.routes.route_table import resources_of
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import Reply, basic, reply_of, web_address
from harness.clients.wire_client import Address

pytestmark = pytest.mark.slow

VHOST = "walked"
TAGS = ("plain", "impersonator", "management", "policymaker", "monitoring", "administrator")
WITHOUT = ("plain", "impersonator")
"""Those that the API is not for."""
NOT_MANAGEMENT, NOT_MONITOR, NOT_ADMINISTRATOR, NOT_IN_VHOST, NOT_OF_OBJECT = (
    "Not management user",
    "Not monitor user",
    "Not administrator user",
    "User not authorised to access virtual host",
    "User not authorised to access object",
)


class Who(NamedTuple):
    """A user: its only tag, and whether it has permissions in the virtual host."""

    tag: str
    enters: bool

    @property
    def name(self) -> str:
        return f"{self.tag}-{'in' if self.enters else 'out'}"


USERS = [Who(tag, enters) for tag in TAGS for enters in (True, False)]

RULES = {
    "tag": lambda user: True,
    "sees": lambda user: user.enters or user.tag == "administrator",
    "knows": lambda user: user.enters or user.tag in ("monitoring", "administrator"),
    "enters": lambda user: user.enters,
    "policymaker": lambda user: user.tag in ("policymaker", "administrator"),
    "setting": lambda user: user.tag == "administrator" or (user.tag == "policymaker" and user.enters),
    "monitor": lambda user: user.tag in ("monitoring", "administrator"),
    "monitor-in": lambda user: user.tag == "administrator" or (user.tag == "monitoring" and user.enters),
    "administrator": lambda user: user.tag == "administrator",
    "administrator-in": lambda user: user.tag == "administrator" and user.enters,
}
"""Users with one of RabbitMQ's four tags that may ask; `anybody` needs no credentials."""
REASONS = {
    "sees": [NOT_IN_VHOST],
    "knows": [NOT_IN_VHOST],
    "enters": [NOT_IN_VHOST, "Access refused."],
    "policymaker": [NOT_OF_OBJECT],
    "setting": [NOT_OF_OBJECT],
    "monitor": [NOT_MONITOR],
    "monitor-in": [NOT_MONITOR, NOT_IN_VHOST],
    "administrator": [NOT_ADMINISTRATOR],
    "administrator-in": [NOT_ADMINISTRATOR, NOT_IN_VHOST],
}

TABLE = """
whoami                                                    GET tag
overview                                                  GET tag
nodes                                                     GET monitor
nodes/{node}                                              GET monitor
nodes/{node}/memory                                       GET monitor
nodes/{node}/memory/relative                              GET monitor
nodes/{node}/memory/ets                                   GET monitor
nodes/{node}/memory/ets/relative                          GET monitor
events                                                    GET monitor
events/{segment}                                          GET monitor
connections                                               GET tag
connections/username/{user}                               GET monitor DELETE administrator
connections/{name}                                        GET tag DELETE tag
connections/{name}/channels                               GET tag
vhosts/{vhost}/connections                                GET sees
channels                                                  GET tag
channels/{name}                                           GET tag
vhosts/{vhost}/channels                                   GET sees
queues                                                    GET tag
queues/detailed                                           GET tag
queues/{vhost}                                            GET sees
queues/{vhost}/{queue}                                    GET sees PUT enters DELETE enters
queues/{vhost}/{queue}/contents                           DELETE enters
queues/{vhost}/{queue}/actions                            POST administrator-in
queues/{vhost}/{queue}/bindings                           GET sees
queues/{vhost}/{queue}/get                                POST enters
queues/{vhost}/{queue}/peek                               GET enters
queues/quorum/{vhost}/{queue}/replicas/add                POST administrator-in
queues/quorum/{vhost}/{queue}/replicas/delete             DELETE administrator-in
queues/quorum/{vhost}/{queue}/status                      GET sees
queues/quorum/replicas/on/{node}/grow                     POST administrator
queues/quorum/replicas/on/{node}/shrink                   DELETE administrator
exchanges                                                 GET tag
exchanges/{vhost}                                         GET sees
exchanges/{vhost}/{exchange}                              GET sees PUT enters DELETE enters
exchanges/{vhost}/{exchange}/bindings/source              GET sees
exchanges/{vhost}/{exchange}/bindings/destination         GET sees
exchanges/{vhost}/{exchange}/publish                      POST enters
bindings                                                  GET tag
bindings/{vhost}                                          GET sees
bindings/{vhost}/e/{source}/q/{queue}                     GET sees POST enters
bindings/{vhost}/e/{source}/q/{queue}/{properties}        GET sees DELETE enters
bindings/{vhost}/e/{source}/e/{exchange}                  GET sees POST enters
bindings/{vhost}/e/{source}/e/{exchange}/{properties}     GET sees DELETE enters
consumers                                                 GET tag
consumers/{vhost}                                         GET tag
definitions                                               GET administrator POST administrator
all-configuration                                         GET administrator POST administrator
definitions/{vhost}                                       GET administrator POST administrator
extensions                                                GET tag
feature-flags                                             GET tag
feature-flags/{name}/enable                               PUT administrator
deprecated-features                                       GET tag
deprecated-features/used                                  GET tag
health/checks/alarms                                      GET tag
health/checks/local-alarms                                GET tag
health/checks/disk                                        GET tag
health/checks/certificate-expiration/{within}/{unit}      GET tag
health/checks/port-listener/{port}                        GET tag
health/checks/protocol-listener/{protocol}                GET tag
health/checks/virtual-hosts                               GET tag
health/checks/node-is-mirror-sync-critical                GET tag
health/checks/node-is-quorum-critical                     GET tag
health/checks/is-in-service                               GET tag
health/checks/below-node-connection-limit                 GET tag
health/checks/ready-to-serve-clients                      GET tag
healthchecks/node                                         GET tag
healthchecks/node/{node}                                  GET tag
aliveness-test/{vhost}                                    GET enters
vhost-limits                                              GET tag
vhost-limits/{vhost}                                      GET knows
vhost-limits/{vhost}/{name}                               PUT administrator DELETE administrator
user-limits                                               GET tag
user-limits/{user}                                        GET tag
user-limits/{user}/{name}                                 PUT administrator DELETE administrator
auth                                                      GET anybody
auth/hash_password/{password}                             GET administrator
auth/attempts/{node}                                      GET monitor DELETE monitor
auth/attempts/{node}/source                               GET monitor DELETE monitor
login                                                     POST anybody
rebalance/queues                                          POST administrator
config/effective                                          GET administrator
reset                                                     DELETE administrator
reset/{node}                                              DELETE administrator
parameters                                                GET policymaker
parameters/{component}                                    GET policymaker
parameters/{component}/{vhost}                            GET setting
parameters/{component}/{vhost}/{name}                     GET setting PUT setting DELETE setting
shovels                                                   GET monitor
shovels/{vhost}                                           GET monitor-in
shovels/vhost/{vhost}/{name}                              GET monitor-in DELETE monitor-in
shovels/vhost/{vhost}/{name}/restart                      GET monitor-in DELETE monitor-in
global-parameters                                         GET policymaker
global-parameters/{name}                                  GET policymaker PUT policymaker DELETE policymaker
cluster-name                                              GET tag PUT administrator
permissions                                               GET administrator
permissions/{vhost}/{user}                                GET administrator PUT administrator DELETE administrator
vhosts/{vhost}/permissions                                GET administrator
users/{user}/permissions                                  GET administrator
topic-permissions                                         GET administrator
topic-permissions/{vhost}/{user}                          GET administrator PUT administrator DELETE administrator
topic-permissions/{vhost}/{user}/{exchange}               GET administrator PUT administrator DELETE administrator
vhosts/{vhost}/topic-permissions                          GET administrator
users/{user}/topic-permissions                            GET administrator
policies                                                  GET tag
policies/{vhost}                                          GET sees
policies/{vhost}/{name}                                   GET setting PUT setting DELETE setting
operator-policies                                         GET tag
operator-policies/{vhost}                                 GET sees
operator-policies/{vhost}/{name}                          GET administrator PUT administrator DELETE administrator
users                                                     GET administrator
users/bulk-delete                                         POST administrator
users/without-permissions                                 GET administrator
users/{user}                                              GET administrator PUT administrator DELETE administrator
vhosts                                                    GET tag
vhosts/{vhost}                                            GET administrator PUT administrator DELETE administrator
vhosts/{vhost}/start/{node}                               POST administrator
rehearsal                                                 GET monitor DELETE administrator
leveret/permissions                                       GET tag
leveret/permissions/{vhost}/{name}                        GET sees
leveret/alarms                                            GET monitor
leveret/backups                                           GET administrator POST administrator
leveret/commits                                           GET monitor
leveret/shipping                                          GET monitor
leveret/unconfirmed                                       GET monitor
leveret/move/{vhost}/{queue}                              POST enters
leveret/streams/{vhost}/{queue}                           POST enters
leveret/stream-offsets                                    GET tag
leveret/stream-offsets/{vhost}                            GET sees
leveret/stream-offsets/{vhost}/{group}                    PUT enters DELETE enters
leveret/trace/{vhost}                                     POST administrator-in
testing GET administrator
testing/clock GET administrator
testing/clock/stop POST administrator
testing/clock/start POST administrator
testing/clock/step POST administrator
testing/clock/set POST administrator
testing/reset POST administrator
testing/faults GET administrator POST administrator DELETE administrator
testing/faults/{id} DELETE administrator
testing/fault-table GET administrator
testing/snapshots GET administrator
testing/snapshots/{name} PUT administrator DELETE administrator
testing/snapshots/{name}/restore POST administrator
testing/restore POST administrator
testing/history GET administrator DELETE administrator
testing/expect POST administrator
testing/idle POST administrator
"""


def rules() -> dict[str, dict[str, str]]:
    """The rules of the table, by path and method."""
    rows = (line.split() for line in TABLE.strip().splitlines())
    return {f"/api/{path}": dict(zip(row[::2], row[1::2], strict=True)) for path, *row in rows}


EXPECTED = rules()


@pytest.fixture(scope="module")
def address(web_process: BrokerProcess) -> Iterator[Address]:
    """The API of a broker with the users, and a virtual host that half of them may enter; they are deleted at the end."""
    web_process.tell("add_vhost", name=VHOST, description="", tags=[], default_queue_type="")
    for user in USERS:
        tags = [] if user.tag == "plain" else [user.tag]
        web_process.tell("add_user", name=user.name, password="pw", tags=tags)
        if user.enters:
            everything = {"configure": ".*", "write": ".*", "read": ".*"}
            web_process.tell("set_permissions", vhost=VHOST, user=user.name, **everything)
    yield web_address(web_process)
    web_process.tell("delete_vhost", name=VHOST)
    web_process.tell("delete_users", names=[user.name for user in USERS])


@pytest.fixture
def connection(address: Address) -> Iterator[HTTPConnection]:
    connection = HTTPConnection(*address, timeout=15)
    yield connection
    connection.close()


def ask(connection: HTTPConnection, method: str, resource: Resource, user: str = "") -> Reply:
    """A request to a resource, of a user with the password `pw`, or without credentials; nothing in it exists but the
    virtual host, which stays."""
    names = dict.fromkeys(("node", "user", "name", "queue", "exchange", "source", "properties", "component"), "none")
    others = {
        "segment": "x",
        "group": "x",
        "within": "1",
        "unit": "days",
        "port": "1",
        "protocol": "amqp",
        "password": "x",
        "id": "1",
    }
    vhost = "none" if (method, resource.path) == ("DELETE", "/api/vhosts/{vhost}") else VHOST
    path = resource.path.format(vhost=vhost, **names, **others)
    headers = {"Content-Type": "application/json", **(basic(f"{user}:pw") if user else {})}
    connection.request(method, path, b"{}" if method in ("PUT", "POST") else None, headers)
    response = connection.getresponse()
    if response.chunked:  # it goes on until the client has enough
        connection.close()
        return Reply(response.status, {}, b"")
    return reply_of(response)


def test_each_route_is_in_the_table_with_its_methods() -> None:
    walked = {resource.path: set(resource.operations) for resource in resources_of(DEFAULT.series)}
    assert {path: methods for path, methods in walked.items() if methods != set(EXPECTED.get(path, ()))} == {}


@pytest.mark.parametrize("resource", resources_of(DEFAULT.series), ids=lambda resource: resource.path)
def test_a_route_is_for_those_who_may(connection: HTTPConnection, resource: Resource) -> None:
    for method, rule in EXPECTED[resource.path].items():
        assert method in ask(connection, "OPTIONS", resource).headers["allow"].split(", ")
        stranger = ask(connection, method, resource)
        if rule == "anybody":
            assert (stranger.status, method) in ((200, "GET"), (401, "POST")), "an empty log-in is refused"
            continue
        assert (stranger.status, stranger.body) == (401, b"")
        assert stranger.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'
        for user in USERS:
            reply = ask(connection, method, resource, user.name)
            refused = [NOT_MANAGEMENT] if user.tag in WITHOUT else [] if RULES[rule](user) else REASONS[rule]
            assert (reply.status == 401) == bool(refused), f"{method} of {user.name}: {reply}"
            if refused:
                problem = json.loads(reply.body)
                assert (problem["error"], problem["reason"] in refused) == ("not_authorised", True), problem
            if method == "GET":
                assert ask(connection, "HEAD", resource, user.name).status == reply.status
