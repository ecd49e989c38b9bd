"""Administration by HTTP beyond single requests: definitions from broker to broker, what a restart leaves, health."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.certificate_authority import Authority
from harness.brokers.http_broker import GUEST, Reply, ask, web_address, web_broker
from harness.clients.shorthand import prefetch, queue_declare
from harness.clients.wire_client import Client

pytestmark = pytest.mark.slow

ODD = ("/", "%2F", "a b+c", "é世", "bytes \udcff", "'\"<>&", "..", "~")
"""Names that someone may have chosen."""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = web_broker(tmp_path_factory.mktemp("web"))
    process.start()
    yield process
    assert process.stop() == 0
    assert "Traceback" not in process.log()


def call(
    process: BrokerProcess, method: str, path: str, body: Any = None, *, user: str = GUEST, **headers: str
) -> Reply:
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    headers.setdefault("Content_Type", "application/json")
    return ask(web_address(process), f"/api/{path}", method=method, body=sent, user=user, **headers)


def get(process: BrokerProcess, path: str, **options: str) -> Any:
    reply = call(process, "GET", path, **options)
    assert reply.status == 200, reply
    return json.loads(reply.body)


def segment(name: str) -> str:
    """A name as part of a path."""
    return quote(name.encode("utf-8", "surrogateescape"), safe="")


def canonical(definitions: dict[str, Any]) -> dict[str, list[str]]:
    """Definitions without their order and without what names a broker."""
    rows = {kind: value for kind, value in definitions.items() if isinstance(value, list)}
    return {kind: sorted(json.dumps(row, sort_keys=True) for row in value) for kind, value in rows.items()}


def odd_definitions() -> dict[str, Any]:
    """Something of each kind under each of the names."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    names = [name for name in ODD if name != "/"]
    arguments = {"x-max-length": 5, "odd": [True, None, 1.5, {"é": "\udcff"}]}
    in_vhosts = {
        "policies": {"pattern": "^q", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues"},
        "exchanges": {"type": "topic", "durable": True, "auto_delete": False, "internal": False, "arguments": {}},
        "queues": {"durable": True, "auto_delete": False, "arguments": arguments},
    }
    return {
        "users": [{"name": name, "password": "pw", "tags": "management, x", "limits": {}} for name in names],
        "vhosts": [{"name": name, "metadata": {"description": name, "tags": ["t"]}} for name in names],
        "permissions": [{"user": name, "vhost": name, **everything} for name in names],
        "topic_permissions": [
            {"user": name, "vhost": name, "exchange": name, "write": "", "read": "a"} for name in names
        ],
        "parameters": [
            {"vhost": name, "component": "vhost-limits", "name": "limits", "value": {"max-queues": 9}} for name in names
        ],
        "global_parameters": [{"name": name, "value": {"é": [name]}} for name in ODD],
        **{kind: [{"name": name, "vhost": name, **row} for name in names] for kind, row in in_vhosts.items()},
        "bindings": [
            {"source": name, "vhost": name, "destination": name, "destination_type": "queue", "routing_key": name}
            for name in names
        ],
    }


def as_form(*definitions: bytes, redirect: bytes | None = None) -> tuple[bytes, str]:
    """Files in a form, as a browser sends them; its content type."""
    fields = [] if redirect is None else [(b'"redirect"', redirect)]
    fields += [(b'"file"; filename="d.json"', file) for file in definitions]
    parts = [b"--B\r\nContent-Disposition: form-data; name=%b\r\n\r\n%b\r\n" % field for field in fields]
    return b"".join(parts) + b"--B--\r\n", "multipart/form-data; boundary=B"


def test_definitions_go_from_broker_to_broker(web: BrokerProcess, tmp_path: Path) -> None:
    """It lasts through a kill, too. By a link and a form, as RabbitMQ's page has it."""
    assert call(web, "POST", "definitions", odd_definitions()).status == 204
    exported = call(web, "GET", "definitions?auth=Z3Vlc3Q6Z3Vlc3Q%3D&download=x.json", user=None)
    assert (exported.status, exported.headers["content-disposition"]) == (200, "attachment; filename=x.json")
    other = web_broker(tmp_path)
    other.start()
    form, kind = as_form(exported.body)
    assert call(other, "POST", "definitions", form, Content_Type=kind).status == 204
    other.kill_and_restart()
    assert canonical(get(other, "definitions")) == canonical(json.loads(exported.body))
    for name in ODD[1:]:
        path = segment(name)
        assert get(other, f"vhosts/{path}?columns=name,description") == {"name": name, "description": name}
        assert get(other, f"global-parameters/{path}")["value"] == {"é": [name]}
        assert get(other, f"users/{path}/permissions")[0]["vhost"] == name
        assert get(other, f"policies/{path}/{path}")["name"] == name
        assert call(other, "DELETE", f"users/{path}").status == 204
    assert other.stop() == 0


def test_a_virtual_host_is_copied_into_another(web: BrokerProcess) -> None:
    call(web, "PUT", "vhosts/copied", {"description": "one"})
    call(web, "PUT", "queues/copied/q", {"durable": True})
    call(web, "PUT", "operator-policies/copied/o", {"pattern": "", "definition": {"max-length": 5}})
    call(web, "POST", "bindings/copied/e/amq.direct/q/q", {"routing_key": "k", "arguments": {"n": 1}})
    exported = get(web, "definitions/copied")
    assert exported["original_vhost_name"] == "copied"
    assert '"vhost":' not in json.dumps(exported)
    call(web, "PUT", "vhosts/copy")
    for _ in range(2):
        assert call(web, "POST", "definitions/copy", exported).status == 204
    assert {**get(web, "definitions/copy"), "original_vhost_name": "copied"} == exported
    assert get(web, "vhosts/copy?columns=description") == {"description": ""}


def test_what_is_wrong_with_a_form_changes_nothing(web: BrokerProcess) -> None:
    before = get(web, "definitions")
    for form, kind, status in (
        (*as_form(b""), 204),
        (b"", "multipart/form-data", 400),
        (*as_form(), 400),
        (*as_form(redirect=b"../"), 400),
        (*as_form(b"not json", redirect=b"../"), 400),
        (*as_form(b"{}", b"not json"), 400),
        (*as_form(b"{}", redirect=b"x\r\nX-Header: y"), 400),
        (*as_form(b'{"queues":[{"name":"x","vhost":"none"}]}'), 400),
        (b"{}", "text/plain", 415),
        (b"{}", "", 415),
    ):
        assert call(web, "POST", "definitions", form, Content_Type=kind).status == status, form
    assert get(web, "definitions") == before


@pytest.mark.parametrize(
    "redirect", [b"../#/import-succeeded", b"http://mq.example.com/x?y=1&z", 'a b"é'.encode(), b""]
)
def test_the_form_s_redirect_is_where_the_browser_goes(web: BrokerProcess, redirect: bytes) -> None:
    """Whatever URL it is, as in RabbitMQ; of several files the last one counts."""
    form, kind = as_form(b"not json", b'{"vhosts":[]}', redirect=redirect)
    for path in ("definitions", "all-configuration", "definitions/%2F"):
        reply = call(web, "POST", path, form, Content_Type=kind)
        assert (reply.status, reply.headers["location"].encode("latin-1"), reply.body) == (303, redirect, b"")


DEEP = b"[" * 90 + b"]" * 90
"""More than is kept, less than is read."""
FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("method", "path", "body", "reason"),
    [
        ("POST", "definitions", b"[" * 100_000, "failed_to_parse_json"),
        ("PUT", "users/x", b'{"tags":' * 50_000, "not_json"),
        ("PUT", "users/x", b'{"tags":"","password":"\\ud800"}', "argument password: expected a text"),
        ("PUT", "users/x", b'{"tags":"","permissions":{"/":5}}', "argument /: expected names with values"),
        ("PUT", "global-parameters/x", b'{"value":' + DEEP + b"}", "argument value: nested too deeply"),
        ("PUT", "global-parameters/x", b'{"value":"\\ud800"}', "argument value: a text holds half of a surrogate pair"),
        ("PUT", "policies/%2F/x", b'{"pattern":"","definition":{"a":' + DEEP + b"}}", "argument definition: nested..."),
        ("PUT", "policies/%2F/x", b'{"pattern":"(*LIMIT_MATCH=9)x","definition":{"max-length":1}}', "Validation..."),
        ("PUT", "permissions/%2F/guest", b'{"configure":"(((((a+)+)+)+)+)+","write":"(","read":""}', "regular..."),
        ("POST", "login", b"x=" * 10_000, "the body is larger than 16384 bytes"),
    ],
)
def test_what_cannot_be_kept_is_refused(web: BrokerProcess, method: str, path: str, body: bytes, reason: str) -> None:
    """Nesting without end, half surrogate pairs, patterns that mean harm, forms of strangers without end."""
    reply = call(web, method, path, body, Content_Type=FORM if path == "login" else "application/json")
    assert reply.status in (400, 413)
    assert json.loads(reply.body)["reason"].startswith(reason.removesuffix("..."))


def test_logging_in_with_a_form(web: BrokerProcess) -> None:
    call(web, "PUT", "users/caf%C3%A9", {"tags": "management", "password": "p+ä:"})
    for password, status in (("p%2B%C3%A4%3A", 200), ("p+%C3%A4%3A", 401), ("%ff%00", 401), ("", 401)):
        body = f"username=caf%C3%A9&password={password}".encode()
        assert call(web, "POST", "login", body, user=None, Content_Type=FORM).status == status, password


def test_the_name_of_the_cluster(web: BrokerProcess) -> None:
    """In answers, and to clients from their next connection on; it and the permanent id outlast a restart."""
    identity = get(web, "global-parameters/internal_cluster_id")["value"]
    assert call(web, "PUT", "cluster-name", {"name": "our own"}).status == 204
    web.kill_and_restart()
    assert get(web, "overview?columns=cluster_name") == {"cluster_name": "our own"}
    assert get(web, "global-parameters/internal_cluster_id")["value"] == identity
    client = Client.connect(web.address)
    assert client.peer.server_start is not None
    assert client.peer.server_start.server_properties["cluster_name"].value == b"our own"
    client.close()
    assert call(web, "DELETE", "global-parameters/cluster_name").status == 204
    assert get(web, "cluster-name")["name"].startswith("leveret@")
    assert call(web, "DELETE", "global-parameters/internal_cluster_id").status == 400


def test_lists_are_of_the_virtual_host_that_the_page_has_chosen(web: BrokerProcess) -> None:
    """By a header of RabbitMQ's page. A user that may not enter it is refused."""
    call(web, "PUT", "vhosts/chosen")
    call(web, "PUT", "policies/chosen/p", {"pattern": "", "definition": {"max-length": 5}})
    call(web, "PUT", "users/mgmt", {"password": "pw", "tags": "management"})
    for chosen, names in (("chosen", ["p"]), ("%2F", [])):
        listed = get(web, "policies?columns=name", X_Vhost=chosen.replace("%2F", "/"))
        assert [row["name"] for row in listed] == names
    assert call(web, "GET", "policies", X_Vhost="none").status == 404
    assert call(web, "GET", "policies", X_Vhost="chosen", user="mgmt:pw").status == 401
    assert get(web, "policies", user="mgmt:pw") == []


def test_what_a_user_sees_of_limits_and_virtual_hosts(web: BrokerProcess) -> None:
    for name, tags in (("own", "management"), ("monitor", "monitoring")):
        call(web, "PUT", f"users/{name}", {"password": "pw", "tags": tags, "limits": {"max-channels": 5}})
    call(web, "PUT", "vhosts/limited")
    call(web, "PUT", "vhost-limits/limited/max-queues", {"value": 5})
    limited = [{"vhost": "limited", "value": {"max-queues": 5}}]
    assert get(web, "user-limits", user="own:pw") == [{"user": "own", "value": {"max-channels": 5}}]
    assert get(web, "user-limits/monitor", user="own:pw") == get(web, "user-limits/none", user="own:pw") == []
    assert get(web, "vhost-limits/limited", user="monitor:pw") == limited
    for path in ("vhost-limits", "vhosts"):
        assert get(web, path, user="own:pw") == []
    assert "limited" in {row["name"] for row in get(web, "vhosts?columns=name", user="monitor:pw")}


def test_features_about_to_end_that_are_in_use(web: BrokerProcess) -> None:
    assert get(web, "deprecated-features/used") == []
    client = Client.connect(web.address)
    client.ask(queue_declare("transient"))
    client.ask(prefetch(5, of_channel=True))
    used = get(web, "deprecated-features/used?columns=name")
    assert used == [{"name": "global_qos"}, {"name": "transient_nonexcl_queues"}]
    client.close()


def test_health_with_an_alarm(tmp_path: Path) -> None:
    process = web_broker(tmp_path, "[memory]\nhigh_watermark_bytes = 1")
    process.start()
    node = get(process, "overview?columns=node")["node"]
    for check in ("alarms", "local-alarms"):
        reply = call(process, "GET", f"health/checks/{check}")
        alarms = [{"node": node, "resource": "memory"}]
        assert (reply.status, json.loads(reply.body)["alarms"]) == (503, alarms), reply
    assert call(process, "GET", "health/checks/ready-to-serve-clients").status == 200
    process.stop()


def test_health_of_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    process = web_broker(tmp_path, tls=authority.config())
    process.start()
    for protocol in ("amqps", "amqp/ssl", "https", "amqp,https"):
        assert call(process, "GET", f"health/checks/protocol-listener/{segment(protocol)}").status == 200
    assert get(process, "health/checks/certificate-expiration/1/days") == {"status": "ok"}
    reply = call(process, "GET", "health/checks/certificate-expiration/5000/years")
    found = json.loads(reply.body)
    assert (reply.status, found["reason"]) == (503, "Certificates expiring")
    assert {row["protocol"] for row in found["expired"]} == {"amqp/ssl", "https"}
    assert found["expired"][0]["certfile"] == str(authority.certificate_file)
    authority.certificate_file.write_text("damaged")
    found = json.loads(call(process, "GET", "health/checks/certificate-expiration/1/days").body)
    assert found["expired"][0]["certfile_expires_on"] == ["error: no certificate"]
    process.stop()
