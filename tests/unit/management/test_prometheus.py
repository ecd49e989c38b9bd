"""Metrics: what is served to Prometheus, and that RabbitMQ's dashboards find there what they ask for.

Names and types are RabbitMQ 3.10.8's and 3.13.7's; the status codes were asked of a 3.10.8 on 2026-11-23.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from broker.wire.methods import BasicAck, BasicDeliver, ConfirmSelect
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import Reply, ask, web_address
from harness.clients.shorthand import consume, queue_declare
from harness.clients.wire_client import Client

pytestmark = pytest.mark.slow

DASHBOARDS = {
    "RabbitMQ-Overview (Grafana's 10991), of 3.10.8 and of 3.13.7": """
        build_info identity_info connections channels channel_consumers consumers queues connections_opened_total
        connections_closed_total channels_opened_total channels_closed_total queues_created_total queues_declared_total
        queues_deleted_total disk_space_available_bytes process_max_fds process_max_tcp_sockets process_open_fds
        process_open_tcp_sockets process_resident_memory_bytes resident_memory_limit_bytes queue_messages_ready
        queue_messages_unacked global_publishers global_messages_acknowledged_total global_messages_confirmed_total
        global_messages_delivered_consume_auto_ack_total global_messages_delivered_consume_manual_ack_total
        global_messages_delivered_get_auto_ack_total global_messages_delivered_get_manual_ack_total
        global_messages_get_empty_total global_messages_received_confirm_total global_messages_received_total
        global_messages_redelivered_total global_messages_routed_total global_messages_unroutable_dropped_total
        global_messages_unroutable_returned_total
    """,
    "the same, of 4.3, but for message_size_bytes": """
        disk_space_available_limit_bytes erlang_uptime_seconds global_consumers global_messages_delivered_total
    """,
    "inet_tcp_metrics": "build_info identity_info",
}
"""Metrics that each dashboard reads, without `rabbitmq_`. All join on the labels of identity_info."""

OF_QUEUES = """
    gauge queue_messages queue_messages_ready queue_messages_unacked queue_consumers queue_messages_persistent
    gauge queue_messages_persistent_bytes queue_messages_ready_bytes queue_messages_ram queue_messages_ram_bytes
    gauge queue_messages_ready_ram queue_messages_unacked_ram queue_messages_bytes queue_messages_unacked_bytes
    gauge queue_messages_paged_out queue_messages_paged_out_bytes
    counter queue_disk_reads queue_disk_writes
"""
OF_CHANNELS = """
    gauge channel_consumers channel_messages_unacked channel_messages_unconfirmed channel_messages_uncommitted
    gauge channel_acks_uncommitted consumer_prefetch channel_prefetch
"""
COUNTERS_OF_CHANNELS = """
    counter channel_messages_published channel_messages_confirmed channel_messages_unroutable_returned
    counter channel_messages_unroutable_dropped channel_get_ack channel_get channel_messages_delivered_ack
    counter channel_messages_delivered channel_messages_redelivered channel_messages_acked channel_get_empty
"""
OF_CONNECTIONS = """
    counter connection_incoming_bytes connection_outgoing_bytes connection_incoming_packets
    counter connection_outgoing_packets
    gauge connection_channels connection_pending_packets
"""
OF_THE_NODE = """
    counter connections_opened connections_closed channels_opened channels_closed queues_declared queues_created
    counter queues_deleted erlang_gc_runs erlang_scheduler_context_switches
    counter io_read_ops io_read_bytes io_read_time_seconds io_write_ops io_write_bytes io_write_time_seconds
    counter io_sync_ops io_sync_time_seconds msg_store_read msg_store_write
    gauge process_open_fds process_open_tcp_sockets process_resident_memory_bytes disk_space_available_bytes
    gauge erlang_processes_used process_max_fds process_max_tcp_sockets resident_memory_limit_bytes
    gauge disk_space_available_limit_bytes erlang_processes_limit erlang_scheduler_run_queue erlang_uptime_seconds
"""
"""Groups of families by what their samples are of; names without `rabbitmq_`, those of counters without `_total`."""
TOTALS = "gauge connections channels consumers queues"


def types(*tables: str) -> dict[str, str]:
    """Return the type of each name in tables."""
    lines = (line.split() for table in tables for line in table.splitlines() if line.strip())
    return {f"rabbitmq_{name}": kind for kind, *names in lines for name in names}


class Site(NamedTuple):
    """A broker with messages in queues of all types, one with an awkward name, and a client that has done much."""

    broker: BrokerProcess
    client: Client

    def ask(self, path: str = "/metrics", **options: str) -> Reply:
        return ask(web_address(self.broker, "metrics"), path, user=None, **options)

    def scrape(self, path: str = "/metrics") -> dict[str, Metric]:
        reply = self.ask(path)
        assert reply.status == 200, reply
        found = list(text_string_to_metric_families(reply.body.decode()))
        assert len(found) == len({each.name for each in found}), "each family once"
        return {each.name: each for each in found}


def values(metric: Metric) -> dict[tuple[str, ...], float]:
    """Samples by the values of their labels, in the order of the labels' names."""
    return {tuple(value for _, value in sorted(sample.labels.items())): sample.value for sample in metric.samples}


AWKWARD = 'a "name" with \\ and é \udcff'


OF_4 = """
    histogram message_size_bytes
    counter exchange_messages_published exchange_messages_confirmed exchange_messages_unroutable_dropped
    counter exchange_messages_unroutable_returned queue_exchange_messages_published queue_get_ack queue_get
    counter queue_get_empty queue_messages_delivered_ack queue_messages_delivered queue_messages_redelivered
    counter queue_messages_acked io_seek_ops io_seek_time_seconds io_reopen_ops queue_index_read_ops
    counter queue_index_write_ops schema_db_ram_tx schema_db_disk_tx
    gauge stream_segments queue_process_memory_bytes unreachable_cluster_peers_count stream_consumer_max_offset_lag
"""
"""New on 4.3.6, but for `raft_*` and Erlang's."""
GONE_IN_4 = """
    gauge queue_messages_paged_out queue_messages_paged_out_bytes process_max_tcp_sockets process_open_tcp_sockets
    unknown alarms_file_descriptor_limit
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    yield from new_site(BrokerProcess(tmp_path_factory.mktemp("site") / "data"))


@pytest.fixture(scope="module")
def site_of_4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("site")
    settings = directory / "settings.toml"
    settings.write_text('[identity]\npersonality = "4.3"\n[management]\nrates_mode = "detailed"\n')
    broker = BrokerProcess(directory / "data")
    broker.options = ("--config", str(settings))
    yield from new_site(broker)


def new_site(broker: BrokerProcess) -> Iterator[Site]:
    """A broker and its client, until the module's tests are over."""
    broker.http = ("--management-listen", "127.0.0.1:0", "--prometheus-listen", "127.0.0.1:0")
    broker.start()
    client = Client.connect(broker.address, channels=(1, 2))
    client.ask(ConfirmSelect(no_wait=False))
    for name, kind in (("classic", "classic"), ("quorum", "quorum"), ("stream", "stream"), (AWKWARD, "classic")):
        client.ask(queue_declare(name, durable=True, arguments={"x-queue-type": kind}))
        client.publish(b"0123456789", key=name, properties=BasicProperties(delivery_mode=2))
        client.expect(BasicAck)
    client.publish(b"x", key="nowhere")
    client.expect(BasicAck)
    client.ask(consume("quorum"), channel=2)
    client.expect_message(BasicDeliver, channel=2)
    broker.tell("add_vhost", name="other", description="", tags=[], default_queue_type="")
    yield Site(broker, client)
    client.close()
    assert broker.stop() == 0
    assert "Traceback" not in broker.log()


def test_dashboards_find_what_they_ask_for(site: Site) -> None:
    families = site.scrape()
    names = {sample.name for metric in families.values() for sample in metric.samples}
    for dashboard, wanted in DASHBOARDS.items():
        missing = {f"rabbitmq_{name}" for name in wanted.split()} - names
        assert not missing, dashboard
    for name in ("build_info", "identity_info"):
        (sample,) = families[f"rabbitmq_{name}"].samples
        assert sample.value == 1
    labels = {f"rabbitmq_{name}" for name in ("node", "cluster", "cluster_permanent_id", "endpoint")}
    assert sample.labels.keys() == labels
    assert sample.labels["rabbitmq_cluster_permanent_id"].startswith("rabbitmq-cluster-id-")
    for path, endpoint in (("", "aggregated"), ("/per-object", "per-object"), ("/detailed", "detailed")):
        (sample,) = site.scrape(f"/metrics{path}")["rabbitmq_identity_info"].samples
        assert sample.labels["rabbitmq_endpoint"] == endpoint


def test_types_and_labels_are_rabbitmqs(site: Site) -> None:
    whole, each = site.scrape(), site.scrape("/metrics/per-object")
    of_objects = {("vhost", "queue"): OF_QUEUES, ("channel",): OF_CHANNELS + OF_CONNECTIONS}
    of_objects["channel", "vhost"] = COUNTERS_OF_CHANNELS
    for families in (whole, each):
        expected = types(*of_objects.values(), OF_THE_NODE, TOTALS)
        assert {name: families[name].type for name in expected} == expected
    assert all(not sample.labels for name in types(*of_objects.values()) for sample in whole[name].samples)
    for labels, table in of_objects.items():
        for name in types(table):
            assert {tuple(sample.labels) for sample in each[name].samples} == {labels}, name
    assert {kind for name, kind in ((name, whole[name].type) for name in whole) if "alarms" in name} == {"unknown"}
    assert not any("alarms" in name for name in each)
    for name in ("consumer_capacity", "consumer_utilisation"):
        assert values(each[f"rabbitmq_queue_{name}"])["quorum", "/"] <= 1
        assert f"rabbitmq_queue_{name}" not in whole, "no sum of parts"
    summed = {name: sum(values(each[name]).values()) for name in types(OF_QUEUES) if "disk" not in name}
    assert summed == {name: values(whole[name])[()] for name in summed}


def test_names_are_escaped(site: Site) -> None:
    ready = values(site.scrape("/metrics/per-object")["rabbitmq_queue_messages_ready"])
    assert ready == {("classic", "/"): 1, ("quorum", "/"): 0, ("stream", "/"): 1, (AWKWARD[:-1] + "\\xff", "/"): 1}


def test_figures_are_exact(site: Site) -> None:
    families = site.scrape()
    received = {
        name: values(families[f"rabbitmq_global_messages_{name}"])["amqp091",]
        for name in ("received", "received_confirm", "confirmed", "routed", "unroutable_dropped")
    }
    assert received == {"received": 5, "received_confirm": 5, "confirmed": 5, "routed": 4, "unroutable_dropped": 1}
    delivered = values(families["rabbitmq_global_messages_delivered_consume_manual_ack"])
    assert delivered == {
        ("amqp091", f"rabbit_{kind}_queue"): int(kind == "quorum") for kind in ("classic", "quorum", "stream")
    }
    assert values(families["rabbitmq_global_publishers"]) == {("amqp091",): 1}
    assert values(families["rabbitmq_queues_created"])[()] == 4
    assert values(families["rabbitmq_auth_attempts_succeeded"])["amqp091",] == 1
    dead = families["rabbitmq_global_messages_dead_lettered_maxlen"]
    assert {tuple(sorted(sample.labels)) for sample in dead.samples} == {("dead_letter_strategy", "queue_type")}
    assert len(dead.samples) == 4


def test_histograms_of_our_own(site: Site) -> None:
    """Four persistent messages were published, each confirmed before the next."""
    families = site.scrape()
    for name in ("commit_messages", "commit_bytes", "commit_seconds", "sync_seconds", "confirm_wait_seconds"):
        measured = families[f"leveret_{name}"]
        assert measured.type == "histogram"
        buckets = [(float(sample.labels["le"]), sample.value) for sample in measured.samples if "le" in sample.labels]
        assert buckets == sorted(buckets), "cumulative, by rising bounds"
        sums = {sample.name: sample.value for sample in measured.samples if "le" not in sample.labels}
        assert buckets[-1] == (float("inf"), sums[f"leveret_{name}_count"])
        if name == "commit_messages":
            assert sums["leveret_commit_messages_sum"] == 4
    assert values(families["rabbitmq_io_sync_ops"])[()] >= 4
    assert {"leveret_turn_seconds", "leveret_event_loop_lag_seconds"} <= families.keys()


def test_offsets_that_groups_have_committed(site: Site) -> None:
    """Apart everywhere: the lag of one group is not that of another."""
    committed = json.dumps({"offsets": {"stream": 0}}).encode()
    path = "/api/leveret/stream-offsets/%2F/g%221"
    assert ask(web_address(site.broker), path, method="PUT", body=committed).status == 204
    detailed = "/metrics/detailed?family=stream_committed_offsets"
    for shown in ("/metrics", "/metrics/per-object", detailed, f"{detailed}&vhost=%2F"):
        families = site.scrape(shown)
        found = [values(families[f"leveret_stream_group_{name}"]) for name in ("committed_offset", "lag")]
        assert found == [{('g"1', "stream", "/"): 0}, {('g"1', "stream", "/"): 1}]
    assert values(site.scrape(f"{detailed}&vhost=other")["leveret_stream_group_lag"]) == {}


def test_metrics_of_4(site_of_4: Site) -> None:
    whole, each = site_of_4.scrape(), site_of_4.scrape("/metrics/per-object")
    assert {name: whole[name].type for name in types(OF_4)} == types(OF_4)
    for families in (whole, each):
        assert not types(GONE_IN_4).keys() & families.keys()
        assert "rabbitmq_alarms_memory_used_watermark" in families
    sizes = {tuple(sample.labels.values()): sample.value for sample in whole["rabbitmq_message_size_bytes"].samples}
    assert (sizes["100", "amqp091"], sizes["+Inf", "amqp091"], sizes["+Inf", "amqp10"]) == (5, 5, 0)
    infos = values(each["rabbitmq_queue_info"])
    assert infos["leader", "quorum", "rabbit_quorum_queue", "/"] == 1
    assert values(each["rabbitmq_exchange_messages_published"]) == {("", "/"): 5}
    assert values(each["rabbitmq_exchange_messages_confirmed"]) == {("", "/"): 5}
    assert values(each["rabbitmq_queue_exchange_messages_published"])["", "classic", "/"] == 1
    assert values(each["rabbitmq_stream_segments"]) == {("stream", "/"): 1}
    (build,) = whole["rabbitmq_build_info"].samples
    assert build.labels.keys() == {f"{name}_version" for name in BUILD_OF_4}


BUILD_OF_4 = ("rabbitmq", "prometheus_plugin", "prometheus_client", "erlang")


def test_the_parts_of_memory(site: Site, site_of_4: Site) -> None:
    assert site.ask("/metrics/memory-breakdown").status == 404
    parts = site_of_4.scrape("/metrics/memory-breakdown")
    found = {name: values(parts[name])[()] for name in parts if name.startswith("rabbitmq_memory_")}
    assert len(found) == 26
    assert found["rabbitmq_memory_code_module_bytes"] > 0 == found["rabbitmq_memory_atom_table_bytes"]


def test_queues_are_chosen_by_name(site_of_4: Site) -> None:
    chosen = site_of_4.scrape("/metrics/detailed?family=queue_coarse_metrics&queue=%5Eq.*m$")
    for name in ("queue_messages", "queue_info"):
        assert [names[-2] for names in values(chosen[f"rabbitmq_detailed_{name}"])] in (
            ["quorum"],
            ["rabbit_quorum_queue"],
        )
    refused = site_of_4.ask("/metrics/detailed?queue=%5B")
    text = b"Invalid 'queue' regex at position 1: missing terminating ] for character class"
    assert (refused.status, refused.body) == (400, text)


def test_detailed_has_what_is_asked_for(site: Site) -> None:
    none = site.scrape("/metrics/detailed")
    assert none.keys() == {"rabbitmq_build_info", "rabbitmq_identity_info"}
    families = "family=queue_coarse_metrics&family=vhost_status&family=exchange_names&family=nothing"
    some = site.scrape(f"/metrics/detailed?{families}&vhost=other&vhost=missing")
    assert values(some["rabbitmq_detailed_queue_messages"]) == {}
    assert values(some["rabbitmq_cluster_vhost_status"]) == {("/",): 1, ("other",): 1}
    assert ("amq.direct", "direct", "/") in values(some["rabbitmq_cluster_exchange_name"])
    assert "rabbitmq_detailed_queue_consumers" not in some
    counts = site.scrape("/metrics/detailed?family=queue_consumer_count")["rabbitmq_detailed_queue_consumers"]
    assert values(counts)["quorum", "/"] == 1


def test_answers_to_requests(site: Site) -> None:
    for path, method, status, accept in (
        ("/metrics", "GET", 200, "text/plain"),
        ("/metrics/", "GET", 200, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5,*/*;q=0.1"),
        ("/metrics/default", "GET", 200, "*/*"),
        ("/metrics", "HEAD", 204, "*/*"),
        ("/metrics", "OPTIONS", 200, "*/*"),
        ("/metrics", "POST", 405, "*/*"),
        ("/metrics", "GET", 406, "application/json"),
        ("/metrics/nothing", "GET", 404, "*/*"),
        ("/", "GET", 404, "*/*"),
        ("/metrics/default/x", "GET", 404, "*/*"),
        ("/api/overview", "GET", 404, "*/*"),
    ):
        assert site.ask(path, method=method, Accept=accept).status == status, (path, method)
    reply = site.ask()
    assert reply.headers["content-type"] == "text/plain; version=0.0.4"
    assert reply.headers["content-encoding"] == "identity"
    assert site.ask("/metrics/nothing").body == b"Unknown Registry"
    packed = site.ask(Accept_Encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert b"\nrabbitmq_connections 1.0\n" in zlib.decompress(packed.body, wbits=31)
