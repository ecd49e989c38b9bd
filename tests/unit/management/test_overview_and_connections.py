"""The overview, the node, connections and channels by HTTP: which fields, of which types, and who sees what.

The tables are RabbitMQ 3.10.8's, asked on 2026-11-23, but for what docs/management.md says is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from broker.wire.methods import ConfirmSelect, ConnectionClose, TxSelect
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import Reply, ask, web_address
from harness.clients.shorthand import consume, prefetch, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually

pytestmark = pytest.mark.slow

Types = dict[str, str]


def table(**names: str) -> Types:
    """Names by their types: `table(int="port channels")`."""
    return {name: kind for kind, listed in names.items() for name in listed.split()}


def types(row: dict[str, Any]) -> Types:
    return {name: type(value).__name__ for name, value in row.items()}


OVERVIEW = table(
    str="management_version rates_mode product_version product_name rabbitmq_version cluster_name erlang_version "
    "erlang_full_version release_series_support_status node",
    bool="disable_stats enable_queue_totals is_op_policy_updating_enabled",  # the last of them since 3.12
    int="statistics_db_event_queue",
    list="exchange_types listeners contexts",
    dict="sample_retention_policies object_totals queue_totals message_stats churn_rates",
)
NODE = table(
    str="db_dir mem_calculation_strategy name os_pid rates_mode type",
    bool="being_drained disk_free_alarm mem_alarm running",
    float="io_read_avg_time io_sync_avg_time io_write_avg_time",
    int="channel_closed channel_created connection_closed connection_created io_read_bytes io_read_count io_sync_count "
    "io_write_bytes io_write_count msg_store_read_count msg_store_write_count queue_created queue_declared "
    "queue_deleted context_switches disk_free disk_free_limit fd_total fd_used gc_num mem_limit mem_used net_ticktime "
    "proc_total proc_used processors run_queue sockets_total sockets_used uptime",
    list="applications auth_mechanisms cluster_links config_files contexts enabled_plugins exchange_types log_files "
    "partitions",
    dict="metrics_gc_queue_length ra_open_file_metrics",
)
SAMPLED = """
    channel_closed channel_created connection_closed connection_created context_switches disk_free fd_used gc_num
    io_read_avg_time io_read_bytes io_read_count io_sync_avg_time io_sync_count io_write_avg_time io_write_bytes
    io_write_count mem_used msg_store_read_count msg_store_write_count proc_used queue_created queue_declared
    queue_deleted sockets_used
"""
NODE |= table(dict=" ".join(f"{name}_details" for name in SAMPLED.split()))
CONNECTION = table(
    str="auth_mechanism host name node peer_host protocol state type user user_who_performed_action vhost",
    bool="ssl",
    int="channel_max channels connected_at frame_max peer_port port recv_cnt recv_oct send_cnt send_oct send_pend "
    "timeout",
    dict="client_properties recv_oct_details send_oct_details",
)
OF_TLS = "ssl_protocol ssl_key_exchange ssl_cipher ssl_hash peer_cert_subject peer_cert_issuer peer_cert_validity"
CHANNEL = table(
    str="name node state user user_who_performed_action vhost",
    bool="confirm transactional",
    int="acks_uncommitted consumer_count global_prefetch_count messages_unacknowledged messages_uncommitted "
    "messages_unconfirmed number pending_raft_commands prefetch_count",
    dict="connection_details",
)
SINGLE_CHANNEL = CHANNEL | table(list="consumer_details publishes deliveries")
BRIEF_CONNECTION = table(str="name node user vhost")


class Site(NamedTuple):
    """A broker with a connection of `mgmt`, which has three channels, and one of guest."""

    broker: BrokerProcess
    address: tuple[str, int]
    mine: Client
    name: str

    def get(self, path: str, user: str = "guest:guest") -> Any:
        reply = self.ask(path, user)
        assert reply.status == 200, (path, reply)
        return json.loads(reply.body)

    def ask(self, path: str, user: str = "guest:guest", **options: Any) -> Reply:
        return ask(self.address, path, user=user, **options)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    broker = BrokerProcess(tmp_path_factory.mktemp("site") / "data")
    broker.http = ("--management-listen", "127.0.0.1:0", "--prometheus-listen", "127.0.0.1:0")
    broker.start()
    for user, tags in (("plain", []), ("mgmt", ["management"]), ("pol", ["policymaker"]), ("mon", ["monitoring"])):
        broker.tell("add_user", name=user, password="p", tags=tags)
    broker.tell("set_permissions", user="mgmt", vhost="/", configure=".*", write=".*", read=".*")
    mine = Client.connect(broker.address, user="mgmt", password="p", channels=(1, 2, 3))
    mine.ask(ConfirmSelect(no_wait=False))
    mine.ask(TxSelect(), channel=3)
    mine.ask(queue_declare("q", durable=True))
    mine.ask(prefetch(7), channel=2)
    mine.ask(consume("q", "tag"), channel=2)
    guest = Client.connect(broker.address)
    host, port = mine.socket.getsockname()
    yield Site(broker, web_address(broker), mine, f"{host}:{port} -> 127.0.0.1:{broker.address[1]}")
    mine.close()
    guest.close()
    assert broker.stop() == 0
    assert "Traceback" not in broker.log()


# Fields and their types


def test_fields_are_rabbitmqs(site: Site) -> None:
    name = quote(site.name, safe="")
    (connection,) = site.get("/api/connections", "mgmt:p")
    nothing = dict.fromkeys(OF_TLS.split(), "NoneType")
    (node,) = eventually(
        lambda: site.get("/api/nodes") if "mem_used_details" in site.get("/api/nodes")[0] else None, "a first sample"
    )
    for row, expected in (
        (site.get("/api/overview"), OVERVIEW),
        (node, NODE),
        (connection, CONNECTION | nothing),
        (site.get(f"/api/connections/{name}"), CONNECTION | dict.fromkeys(OF_TLS.split(), "str")),
        (site.get(f"/api/connections/{name}/channels")[0], CHANNEL),
        (site.get(f"/api/channels/{name}%20(2)"), SINGLE_CHANNEL),
        (site.get("/api/connections/username/mgmt")[0], BRIEF_CONNECTION),
        (site.get("/api/connections?disable_stats=true")[0], BRIEF_CONNECTION),
        (site.get("/api/nodes?disable_stats=true")[0], table(str="name type", bool="running")),
    ):
        assert types(row) == expected | ({"idle_since": "str"} if "idle_since" in row else {})


def test_what_a_connection_says_of_itself(site: Site) -> None:
    """From the moment it is open."""
    host, port = site.mine.socket.getsockname()
    (row,) = (row for row in site.get("/api/connections") if row["name"] == site.name)
    expected = {
        "auth_mechanism": "PLAIN", "channels": 3, "host": "127.0.0.1", "peer_host": host, "peer_port": port,
        "port": site.broker.address[1], "ssl": False, "state": "running", "type": "network", "user": "mgmt",
        "vhost": "/", "protocol": "AMQP 0-9-1",
    }  # fmt: skip
    assert row == row | expected
    assert row["client_properties"]["capabilities"]["basic.nack"] is True
    channels = site.get(f"/api/connections/{quote(site.name, safe='')}/channels?columns=number,confirm,transactional")
    shown = [(channel["number"], channel["confirm"], channel["transactional"]) for channel in channels]
    assert shown == [(1, True, False), (2, False, False), (3, False, True)]
    (consumer,) = site.get(f"/api/channels/{quote(site.name, safe='')}%20(2)")["consumer_details"]
    assert consumer == consumer | {"consumer_tag": "tag", "prefetch_count": 7, "queue": {"name": "q", "vhost": "/"}}


def test_lists_are_paged_sorted_and_filtered(site: Site) -> None:
    page = site.get(f"/api/channels?page=2&page_size=2&columns=number&name={quote(site.name)}")
    assert page["items"] == [{"number": 3}]
    assert (page["total_count"], page["filtered_count"], page["page_count"]) == (4, 3, 2)
    page = site.get("/api/channels?page=1&page_size=1&columns=number&totals=number,name")
    assert page["totals"] == {"number": 7, "name": 0}, "of all pages"
    counts = [site.get(f"/api/queues?page=1&only={each}")["filtered_count"] for each in ("filled", "unconsumed")]
    assert counts == [0, 0]
    names = [row["name"] for row in site.get("/api/connections?sort=name&sort_reverse=true&columns=name")]
    assert names == sorted(names, reverse=True)
    assert site.get("/api/connections?page=1&name=" + quote(site.name))["filtered_count"] == 1
    assert len(site.get("/api/vhosts/%2F/connections?page=1")) == 2, "which is no paged list"


def test_listeners_and_totals(site: Site) -> None:
    row = site.get("/api/overview")
    assert row["object_totals"] == {"channels": 4, "connections": 2, "consumers": 1, "exchanges": 7, "queues": 1}
    found = {(each["protocol"], type(each["port"]), each["node"]) for each in row["listeners"]}
    assert found == {(name, int, row["node"]) for name in ("amqp", "http", "http/prometheus")}
    ports = {context["port"] for context in row["contexts"]}
    assert str(site.address[1]) in ports, "texts"
    assert row["rabbitmq_version"].startswith("3.13")
    brief = site.get("/api/overview?disable_stats=true")
    assert brief["object_totals"] == {"queues": 1, "exchanges": 7, "connections": 2}
    assert brief.keys().isdisjoint({"message_stats", "queue_totals", "churn_rates", "listeners", "contexts"})
    assert site.get("/api/nodes?columns=name,fd_used")[0].keys() == {"name", "fd_used"}


def test_memory_adds_up(site: Site) -> None:
    node = site.get("/api/overview")["node"]
    memory = site.get(f"/api/nodes/{node}/memory")["memory"]
    parts = [value for value in memory.values() if isinstance(value, int)]
    assert sum(parts) == memory["total"]["rss"] > 10_000_000
    relative = site.get(f"/api/nodes/{node}/memory/relative")["memory"]
    assert relative.keys() == {"total", *(name for name, value in memory.items() if isinstance(value, int))}
    assert relative["total"] == 100
    assert abs(sum(relative.values()) - 200) < 10
    assert site.get("/api/nodes?memory=true")[0]["memory"].keys() == memory.keys()


# Who sees what


def test_what_each_tag_sees(site: Site) -> None:
    """An administrator, monitors, the owner of a connection, and another user without a permission."""
    name, node = quote(site.name, safe=""), site.get("/api/overview")["node"]
    users = ("guest:guest", "mon:p", "mgmt:p", "pol:p", "plain:p")
    for path, *statuses in (
        ("/api/overview", 200, 200, 200, 200, 401),
        ("/api/nodes", 200, 200, 401, 401, 401),
        (f"/api/nodes/{node}", 200, 200, 401, 401, 401),
        (f"/api/nodes/{node}/memory", 200, 200, 401, 401, 401),
        (f"/api/auth/attempts/{node}", 200, 200, 401, 401, 401),
        (f"/api/auth/attempts/{node}/source", 200, 200, 401, 401, 401),
        ("/api/nodes/other", 404, 404, 401, 401, 401),
        ("/api/nodes/other/memory/relative", 404, 404, 401, 401, 401),
        ("/api/connections", 200, 200, 200, 200, 401),
        (f"/api/connections/{name}", 200, 200, 200, 401, 401),
        (f"/api/connections/{name}/channels", 200, 200, 200, 401, 401),
        (f"/api/channels/{name}%20(1)", 200, 200, 200, 401, 401),
        (f"/api/channels/{name}%20(9)", 404, 404, 404, 404, 401),
        ("/api/connections/nope", 404, 404, 404, 404, 401),
        ("/api/connections/nope/channels", 404, 404, 404, 404, 401),
        ("/api/connections/username/mgmt", 200, 200, 401, 401, 401),
        ("/api/vhosts/%2F/connections", 200, 401, 200, 401, 401),
        ("/api/vhosts/%2F/channels", 200, 401, 200, 401, 401),
        ("/api/vhosts/none/channels", 404, 404, 404, 404, 401),
        ("/api/channels?disable_stats=true", 400, 400, 400, 400, 401),
    ):
        assert [site.ask(path, user).status for user in users] == statuses, path
    counts = {user: len(site.get("/api/connections", user)) for user in users[:4]}
    assert counts == {"guest:guest": 2, "mon:p": 2, "mgmt:p": 1, "pol:p": 0}
    assert len(site.get("/api/channels", "mgmt:p")) == len(site.get("/api/vhosts/%2F/channels", "mgmt:p")) == 3
    mine = site.get("/api/overview", "mgmt:p")
    assert mine["object_totals"] == {"channels": 3, "connections": 1, "consumers": 1, "exchanges": 7, "queues": 1}
    assert mine.keys().isdisjoint({"node", "listeners", "contexts"})
    assert site.get("/api/overview", "pol:p")["object_totals"]["queues"] == 0


def test_a_client_is_sent_away(site: Site) -> None:
    """By its user, or an administrator; it reads the reason."""

    def another(user: str) -> tuple[Client, str]:
        client = Client.connect(site.broker.address, user=user, password="guest" if user == "guest" else "p")
        host, port = client.socket.getsockname()
        return client, quote(f"{host}:{port} -> 127.0.0.1:{site.broker.address[1]}", safe="")

    def reason(client: Client) -> str:
        close = client.expect(ConnectionClose, channel=0)
        client.close()
        return f"{close.reply_code} {close.reply_text}"

    client, name = another("mgmt")
    for user, status in (("pol:p", 401), ("mon:p", 401), ("mgmt:p", 204)):
        assert site.ask(f"/api/connections/{name}", user, method="DELETE").status == status
    assert reason(client) == "320 CONNECTION_FORCED - Closed via management plugin"
    assert site.ask(f"/api/connections/{name}", method="DELETE").status == 404
    client, name = another("guest")
    assert site.ask(f"/api/connections/{name}", method="DELETE", X_Reason="go home").status == 204
    assert reason(client) == "320 CONNECTION_FORCED - go home"
    site.broker.tell("add_user", name="brief", password="p", tags=[])
    site.broker.tell("set_permissions", user="brief", vhost="/", configure="", write="", read="")
    first, second = another("brief")[0], another("brief")[0]
    assert site.ask("/api/connections/username/brief", "mon:p", method="DELETE").status == 401
    for _ in range(2):
        assert site.ask("/api/connections/username/brief", method="DELETE").status == 204
    assert reason(first) == reason(second)
    eventually(lambda: site.get("/api/overview")["object_totals"]["connections"] == 2, "their end")


def test_attempts_to_log_in_are_counted(site: Site) -> None:
    path = f"/api/auth/attempts/{site.get('/api/overview')['node']}"
    assert site.ask(path, "mon:p", method="DELETE").status == 204
    assert site.ask(path, "mon:wrong").status == 401
    (http,) = site.get(path)
    expected = {"auth_attempts": 2, "auth_attempts_failed": 1, "auth_attempts_succeeded": 1}
    assert http == {"protocol": "http", **expected}


def test_settings_are_shown_in_erlangs_notation(site: Site) -> None:
    reply = site.ask("/api/config/effective", Accept="text/plain")
    assert reply.body.startswith(b'[{leveret,\n    [{server,[{listen,["127.0.0.1:')
    assert b'{password,"(hidden)"}' in reply.body
    assert site.ask("/api/config/effective", Accept="application/json").status == 406


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", 200),  # Java's HttpURLConnection
        ("application/json ; q=0.5", 200),
        ("application/json;charset=utf-8", 406),
        ("text/html, application/*;Q=0.5", 406),
    ],
)
def test_a_media_range_has_a_weight(site: Site, accept: str, status: int) -> None:
    """As RabbitMQ 3.10.8 and 4.3.6 answer, asked on 2026-11-28."""
    assert site.ask("/api/whoami", Accept=accept).status == status
