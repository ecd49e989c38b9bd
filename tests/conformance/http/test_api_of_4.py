"""The HTTP API of personality 4.3, where it differs from 3.13's: keys of rows, routes, refusals.

The keys are those of RabbitMQ 4.3.6, asked with the same queues, without `peer_cert_*`, `ssl_*` and Erlang's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.brokers.http_broker import web_broker
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.clients.shorthand import consume, exchange_declare, prefetch, queue_declare
from harness.clients.wire_client import Client
from tests.conformance.http.api_requests import Api

pytestmark = pytest.mark.skipif(bool(REFERENCE), reason="the reference is RabbitMQ 3.10")

QUEUES = {"c": {}, "q": {"x-queue-type": "quorum"}, "s": {"x-queue-type": "stream"}}
EVERY = (
    "arguments auto_delete consumers durable effective_policy_definition exclusive internal internal_owner memory messages "
    "messages_details messages_ready messages_ready_details messages_unacknowledged messages_unacknowledged_details name "
    "node reductions reductions_details state type vhost"
)
NOT_OF_STREAMS = (
    "consumer_capacity consumer_utilisation message_bytes message_bytes_persistent message_bytes_ram message_bytes_ready "
    "message_bytes_unacknowledged messages_persistent messages_ram"
)
OF_TYPES = {
    "c": f"{NOT_OF_STREAMS} messages_ready_ram messages_unacknowledged_ram storage_version",
    "q": f"{NOT_OF_STREAMS} delayed_retry delivery_limit leader members message_bytes_dlx messages_active_priorities "
    "messages_by_priority messages_delayed messages_dlx messages_ready_returned online open_files publishers",
    "s": "first_timestamp leader members online readers segments",
}
OF_SINGLE = "consumer_details deliveries garbage_collection incoming operator_policy policy"
OF_SINGLE_TYPES = {
    "c": "exclusive_consumer_tag head_message_timestamp single_active_consumer_tag idle_since",
    "q": "single_active_consumer_tag",
    "s": "",
}
WITHOUT_STATISTICS = "arguments auto_delete durable exclusive name online state type vhost"
TOTALS = "messages messages_ready messages_unacknowledged"
WITH_TOTALS = {
    "c": f"node {TOTALS}",
    "q": f"node {TOTALS} delivery_limit effective_policy_definition leader members operator_policy",
    "s": "totals type_specific",
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    process = web_broker(tmp_path_factory.mktemp("api"), '[identity]\npersonality = "4.3"\n')
    process.start()
    client = Client.connect(process.address)
    for name, arguments in QUEUES.items():
        client.ask(queue_declare(name, durable=True, arguments=arguments))
    client.ask(exchange_declare("x", "topic", durable=True))
    client.close()
    yield Api(process)
    process.stop()


@pytest.mark.parametrize("name", QUEUES)
def test_keys_of_queues(api: Api, name: str) -> None:
    rows = {row["name"]: row for row in api.get("queues/%2F")}
    listed = {*EVERY.split(), *OF_TYPES[name].split()}
    idle = {"idle_since"} & rows[name].keys()
    assert rows[name].keys() - idle - {"message_stats"} == listed
    single = {*listed, *OF_SINGLE.split(), *OF_SINGLE_TYPES[name].split()}
    assert api.get(f"queues/%2F/{name}").keys() - {"message_stats"} == single - {"idle_since"} | (
        {"idle_since"} if name == "c" else set()
    )
    detailed = {row["name"]: row for row in api.get("queues/detailed")}
    assert ("garbage_collection" in detailed[name]) == (name != "s")


@pytest.mark.parametrize("name", WITH_TOTALS)
def test_keys_of_queues_without_statistics(api: Api, name: str) -> None:
    rows = {row["name"]: row for row in api.get("queues?disable_stats=true&enable_queue_totals=true")}
    assert rows[name].keys() == {*WITHOUT_STATISTICS.split(), *WITH_TOTALS[name].split()}
    assert rows[name]["exclusive"] is (False if name == "c" else None)


def test_a_limit_of_none_without_statistics(api: Api) -> None:
    declared = {"durable": True, "arguments": {"x-queue-type": "quorum", "x-delivery-limit": -1}}
    api.request("PUT", "queues/%2F/unlimited", declared)
    assert api.get("queues/%2F/unlimited?disable_stats=true")["delivery_limit"] == -1
    assert api.get("queues/%2F/unlimited")["delivery_limit"] == "unlimited"


def test_values_of_a_quorum_queue(api: Api) -> None:
    row = api.get("queues/%2F/q")
    assert (row["delivery_limit"], row["delayed_retry"], row["messages_by_priority"]) == (20, "disabled", {})
    assert (row["internal_owner"], row["effective_policy_definition"]) == (False, {})


def test_keys_of_other_things(api: Api) -> None:
    client = Client.connect(api.process.address)
    client.ask(prefetch(5))
    client.ask(consume("c"))
    (channel,) = api.get("channels")
    assert {"cached_segments", "prefetch_count", "pending_raft_commands"} < channel.keys()
    assert "global_prefetch_count" not in channel
    (connection,) = api.get("connections")
    assert connection["peer_cert_serial_number"] is None
    assert api.get(f"connections/{connection['name'].replace(' ', '%20')}")["peer_cert_serial_number"] == ""
    sessions = api.request("GET", f"connections/{connection['name'].replace(' ', '%20')}/sessions")
    assert (sessions.status, json.loads(sessions.body)["reason"]) == (400, "connection does not use AMQP 1.0")
    assert api.request("GET", "connections/none/sessions").status == 404
    client.close()
    overview = api.get("overview")
    assert (overview["default_queue_type"], overview["cluster_tags"], overview["node_tags"]) == ("classic", {}, {})
    assert overview["require_definition_json_extension"] is False
    assert "release_series_support_status" not in overview
    assert all(listener["tls"] is False for listener in overview["listeners"])
    (node,) = api.get("nodes")
    assert {"crypto_lib_version", "erlang_version", "erlang_full_version", "rabbitmq_version"} < node.keys()
    assert api.get("whoami") == {"name": "guest", "tags": ["administrator"], "is_internal_user": True}


def test_the_timeout_of_consumers(api: Api) -> None:
    """It is shown for queues that have none, too."""
    client = Client.connect(api.process.address)
    client.ask(prefetch(1))
    for name in QUEUES:
        client.ask(consume(name))
    assert [row["consumer_timeout"] for row in api.get("consumers")] == [1_800_000] * 3
    client.close()


def test_who_declared_what(api: Api) -> None:
    """Remembered over a restart; anybody may ask for anybody's, in virtual hosts that they see."""
    api.request("PUT", "users/bob", {"password": "x", "tags": "monitoring"})
    api.request("PUT", "users/ann", {"password": "x", "tags": "management"})
    api.request("PUT", "permissions/%2F/ann", {"configure": ".*", "write": ".*", "read": ".*"})
    assert api.request("PUT", "queues/%2F/anns", {"durable": True}, user="ann:x").status == 201
    for _ in range(2):
        assert [row["name"] for row in api.get("users/ann/queues")] == ["anns"]
        assert {"c", "q", "s"} <= {row["name"] for row in api.get("users/guest/queues")}
        assert api.get("users/nobody/queues") == []
        assert json.loads(api.request("GET", "users/ann/queues", user="bob:x").body) == []
        assert api.get("exchanges/%2F/x")["user_who_performed_action"] == "guest"
        assert api.get("exchanges/%2F/amq.direct")["user_who_performed_action"] == "rmq-internal"
        api.process.kill_and_restart()


def test_protection_from_deletion(api: Api) -> None:
    assert api.request("POST", "vhosts/none/deletion/protection").status == 404
    assert api.request("PUT", "vhosts/kept", {"protected_from_deletion": True}).status == 201
    assert api.get("vhosts/kept")["protected_from_deletion"] is False
    assert api.request("POST", "vhosts/kept/deletion/protection", user="ann:x").status == 401
    assert api.request("POST", "vhosts/kept/deletion/protection").status == 204
    shown = api.get("vhosts/kept")
    assert shown["protected_from_deletion"] is shown["metadata"]["protected_from_deletion"] is True
    refused = api.request("DELETE", "vhosts/kept")
    reason = "Refusing to delete virtual host 'kept' because it is protected from deletion"
    assert (refused.status, json.loads(refused.body)) == (412, {"error": "precondition_failed", "reason": reason})
    assert api.request("DELETE", "vhosts/kept/deletion/protection").status == 204
    assert api.request("DELETE", "vhosts/kept").status == 204


def test_protected_users(api: Api) -> None:
    reason = "Protected users cannot be modified via the HTTP API"
    assert api.request("PUT", "users/safe", {"password": "x", "tags": "protected"}).status == 201
    for refused in (
        api.request("PUT", "users/safe", {"password": "y", "tags": ""}),
        api.request("DELETE", "users/safe"),
    ):
        assert (refused.status, json.loads(refused.body)["reason"]) == (400, reason)
    assert api.request("POST", "users/bulk-delete", {"users": ["safe"]}).status == 204
    assert api.get("users/safe")["tags"] == ["protected"]


def test_refused_definitions(api: Api) -> None:
    """The words name the thing; the place in the file is of 3.13's refusals here."""

    def reason(**definitions: Any) -> Any:
        reply = api.request("POST", "definitions", definitions)
        assert reply.status == 400
        return json.loads(reply.body)["reason"]

    queue = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {"x-queue-version": 1}}
    assert reason(queues=[queue]).startswith("precondition_failed: invalid arg 'x-queue-version' for queue 'q'")
    assert reason(queues=[{**queue, "vhost": "none"}]).startswith('Please create virtual host "none" prior to')
    parameter = {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {"foo": 1}}
    assert reason(parameters=[parameter]) == (
        'Validation failed\n\nUnrecognised terms [{<<"foo">>,1}] in limits\n'
        ' (vhost: "/" / component: "vhost-limits" / key: "limits")'
    )


def test_definitions(api: Api) -> None:
    """With an entity tag; a virtual host has its limits, and its description among its metadata alone."""
    api.request("PUT", "vhosts/v", {"description": "d"})
    api.request("PUT", "vhost-limits/v/max-queues", {"value": 5})
    for path in ("definitions", "definitions/v"):
        first = api.request("GET", path)
        tag = first.headers["etag"]
        again = api.request("GET", path, if_none_match=tag)
        assert (again.status, again.body) == (304, b"")
    (vhost,) = [row for row in api.get("definitions")["vhosts"] if row["name"] == "v"]
    metadata = {"description": "d", "tags": [], "default_queue_type": "classic"}
    assert vhost == {"name": "v", "limits": {"max-queues": 5}, "metadata": metadata}
    whole = api.get("definitions/v")
    assert (whole["description"], whole["limits"], whole["metadata"]) == ("d", {"max-queues": 5}, metadata)
    assert (whole["explanation"], whole["rabbitmq_definition_format"]) == (
        "Definitions of virtual host 'v'",
        "single_virtual_host",
    )
    api.request("PUT", "queues/v/new", {"durable": True})
    assert api.request("GET", "definitions/v", if_none_match=tag).status == 200


def test_health_checks(api: Api) -> None:
    leaders = "health/checks/quorum-queues-without-elected-leaders"
    for path in (
        "health/checks/metadata-store/initialized",
        "health/checks/metadata-store/initialized/with-data",
        "health/checks/reached-target-cluster-size",
        *(
            f"{leaders}/{which}"
            for which in ("all-vhosts/", "vhost/none/", "all-vhosts/pattern/x", "vhost/v/pattern/x")
        ),
        "aliveness-test/%2F",
    ):
        assert (path, api.get(path)) == (path, {"status": "ok"})
    for path in ("health/checks/is-in-service", "health/checks/ready-to-serve-clients", "version"):
        assert api.request("GET", path, user=None).status == 200
    assert api.request("GET", "health/checks/alarms", user=None).status == 401
    assert api.get("version") == "4.3.6"
    assert api.get("health/checks/protocol-listener/amqp,http") == {"status": "ok", "protocols": ["amqp", "http"]}
    failed = api.get("health/checks/protocol-listener/amqp,foo")
    assert (failed["missing"], failed["reason"]) == (["foo"], "No active listener")
    assert "aliveness-test" not in [row["name"] for row in api.get("queues")]


@pytest.mark.parametrize("path", ["auth", "health/checks/node-is-mirror-sync-critical"])
def test_routes_that_are_gone(api: Api, path: str) -> None:
    assert api.request("GET", path).status == 404


def test_feature_flags(api: Api) -> None:
    rows = {row["name"]: row for row in api.get("feature-flags")}
    assert len(rows) == 33
    assert {row["state"] for row in rows.values()} == {"enabled"}
    levels = [rows[name]["require_level"] for name in ("khepri_db", "quorum_queue", "rabbitmq_4.3.0")]
    assert levels == ["soft", "hard", "none"]
    assert rows["khepri_db"]["callbacks"] == ["enable", "post_enable"]
    refused = api.request("PUT", "feature-flags/nope/enable", {})
    assert (refused.status, json.loads(refused.body)["reason"]) == (400, "unsupported")


def test_deprecated_features(api: Api) -> None:
    rows = {row["name"]: (row["deprecation_phase"], row["state"]) for row in api.get("deprecated-features")}
    denied, permitted, removed = (
        ("denied_by_default", "denied"),
        ("permitted_by_default", "permitted"),
        ("removed", "denied"),
    )
    assert rows == {
        "queue_master_locator": denied,
        "global_qos": denied,
        "amqp_filter_set_bug": denied,
        "amqp_address_v1": denied,
        "management_metrics_collection": permitted,
        "transient_nonexcl_queues": denied,
        "classic_queue_mirroring": removed,
        "ram_node_type": removed,
    }


def test_a_denied_feature(api: Api) -> None:
    """The whole text, which a connection is sent 255 bytes of."""
    refused = api.request("PUT", "queues/%2F/transient", {"durable": False})
    reason = json.loads(refused.body)["reason"]
    assert refused.status == 400
    assert reason.startswith(
        "Feature `transient_nonexcl_queues` is deprecated.\nBy default, this feature is not permitted"
    )
    assert reason.endswith('\n    "deprecated_features.permit.transient_nonexcl_queues = true"')


def test_the_status_of_a_quorum_queue(api: Api) -> None:
    (member,) = api.get("queues/quorum/%2F/q/status")
    assert (member["Raft State"], member["Membership"], member["Machine Version"]) == ("leader", "voter", 8)


def test_messages_that_are_looked_at_stay_first_and_are_not_counted(api: Api) -> None:
    """A rejection counts as a failed delivery; looking at a message does not."""

    def looked_at(ackmode: str) -> tuple[str, dict[str, int]]:
        fields = {"count": 1, "ackmode": ackmode, "encoding": "auto"}
        (message,) = json.loads(api.request("POST", "queues/%2F/looked-at/get", fields).body)
        return message["payload"], dict(message["properties"]).get("headers", {})

    api.request("PUT", "queues/%2F/looked-at", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    for payload in ("1", "2"):
        fields = {"routing_key": "looked-at", "properties": {}, "payload": payload, "payload_encoding": "string"}
        api.request("POST", "exchanges/%2F/amq.default/publish", fields)
    found = [looked_at(mode) for mode in ("ack_requeue_true", "reject_requeue_true", "ack_requeue_true")]
    assert found == [("1", {}), ("1", {"x-acquired-count": 1}), ("1", {"x-acquired-count": 2, "x-delivery-count": 1})]
    api.request("DELETE", "queues/%2F/looked-at")


def test_users_are_listed_by_pages(api: Api) -> None:
    page = api.get("users?page=1&page_size=1&name=guest&columns=name")
    assert (page["page"], page["page_size"], page["items"]) == (1, 1, [{"name": "guest"}])
