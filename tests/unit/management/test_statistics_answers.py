"""message_stats, rates and samples by HTTP: what a client has done is there at once, its rate with the next sample."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from broker.wire.methods import BasicAck, BasicDeliver, BasicGetEmpty, BasicGetOk, BasicReturn, ConfirmSelect
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import ask, web_address
from harness.clients.shorthand import ack, consume, get, nack, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually

pytestmark = pytest.mark.slow

PUBLISHES = {"publish": 6, "confirm": 6, "return_unroutable": 1, "drop_unroutable": 1}
DELIVERIES = {
    "deliver": 2,
    "deliver_no_ack": 0,
    "get": 2,
    "get_no_ack": 1,
    "get_empty": 1,
    "deliver_get": 5,
    "redeliver": 1,
    "ack": 2,
}
"""Deliveries of `busy`, as RabbitMQ counts them."""


class Site:
    """A broker, and a client that has published, fetched, given back and consumed."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.client = client = Client.connect(broker.address)
        host, port = client.socket.getsockname()
        self.name = f"{host}:{port} -> 127.0.0.1:{broker.address[1]}"
        client.ask(ConfirmSelect(no_wait=False))
        client.ask(queue_declare("q", durable=True))
        client.ask(queue_declare("empty"))

    def get(self, path: str) -> Any:
        reply = ask(web_address(self.broker), path)
        assert reply.status == 200, (path, reply)
        return json.loads(reply.body)

    def busy(self) -> None:
        """Publish six times, once to no queue and once mandatory; get, give back, get again, acknowledge, consume."""
        client = self.client
        for key, mandatory in (*(("q", False),) * 4, ("nowhere", False), ("nowhere", True)):
            client.publish(b"x", key=key, mandatory=mandatory, properties=BasicProperties(delivery_mode=2))
            if mandatory:
                client.expect_message(BasicReturn)
            client.expect(BasicAck)
        client.send(get("q", no_ack=True), get("q"))
        client.expect_message(BasicGetOk)
        client.send(nack(client.expect_message(BasicGetOk).method.delivery_tag), get("q"))
        client.send(ack(client.expect_message(BasicGetOk).method.delivery_tag), get("empty"))
        client.expect(BasicGetEmpty)
        client.ask(consume("q", "tag"))
        client.send(ack(client.expect_message(BasicDeliver).method.delivery_tag))
        client.expect_message(BasicDeliver)
        client.ask(queue_declare("q", passive=True))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    broker = BrokerProcess(tmp_path_factory.mktemp("site") / "data")
    broker.http = ("--management-listen", "127.0.0.1:0", "--prometheus-listen", "127.0.0.1:0")
    broker.start()
    site = Site(broker)
    eventually(lambda: "mem_used_details" in site.get("/api/nodes")[0], "the first sample, which has no past")
    site.busy()
    yield site
    site.client.close()
    assert broker.stop() == 0
    assert "Traceback" not in broker.log()


def counts(stats: dict[str, Any]) -> dict[str, int]:
    return {name: value for name, value in stats.items() if not name.endswith("_details")}


def test_counters_are_right_at_once(site: Site) -> None:
    channel = site.get(f"/api/channels/{quote(site.name, safe='')}%20(1)")["message_stats"]
    assert counts(channel) == PUBLISHES | DELIVERIES
    whole = site.get("/api/overview")
    assert counts(whole["message_stats"]) == PUBLISHES | DELIVERIES | {"disk_reads": 0, "disk_writes": 4}
    assert counts(whole["queue_totals"]) == {"messages": 1, "messages_ready": 0, "messages_unacknowledged": 1}
    churn = {"connection_created": 1, "channel_created": 1, "queue_declared": 2, "queue_created": 2}
    others = ("connection_closed", "channel_closed", "queue_deleted")
    assert counts(whole["churn_rates"]) == churn | dict.fromkeys(others, 0)
    queue = site.get("/api/queues/%2F/q")
    of_queue = DELIVERIES | {"get_empty": 0, "publish": 4, "disk_reads": 0, "disk_writes": 4}
    assert counts(queue["message_stats"]) == of_queue
    assert (queue["message_bytes"], queue["consumer_capacity"]) == (1, queue["consumer_utilisation"])
    assert "message_stats" in site.get("/api/queues/%2F/empty"), "an empty get"
    exchange = site.get("/api/exchanges/%2F/amq.default")
    assert counts(exchange["message_stats"]) == {"publish_in": 6, "publish_out": 4}
    (vhost,) = site.get("/api/vhosts")
    assert counts(vhost["message_stats"]) == PUBLISHES | DELIVERIES
    one = site.get("/api/vhosts/%2F")
    assert one.keys() == vhost.keys()
    assert counts(one["message_stats"]) == PUBLISHES | DELIVERIES
    assert min(one["recv_oct"], one["send_oct"], one["recv_oct_details"]["rate"], one["messages_details"]["rate"]) >= 0
    assert (one["messages"], one["messages_ready"], one["messages_unacknowledged"]) == (1, 0, 1)
    (connection,) = site.get("/api/connections")
    assert connection["recv_oct"] > 500
    assert connection["connected_at"] > 1_700_000_000_000


@pytest.mark.parametrize("rates_mode", ["none", "basic", "detailed"])
def test_a_channel_has_its_publishes_and_deliveries_with_detailed_rates_only(
    configured: Callable[[str], BrokerProcess], rates_mode: str
) -> None:
    """docs/management.md says it once: by exchange and by queue, and empty lists in the other modes."""
    settings = f'[management]\nlisten = ["127.0.0.1:0"]\nrates_mode = "{rates_mode}"\n'
    site = Site(configured(settings))
    site.busy()
    channel = site.get(f"/api/channels/{quote(site.name, safe='')}%20(1)")
    assert channel["message_stats"]["publish"] == 6, "the channel's own counters are there in each mode"
    published = [(row["exchange"]["name"], row["stats"]["publish"]) for row in channel["publishes"]]
    delivered = [(row["queue"]["name"], row["stats"]["deliver_get"]) for row in channel["deliveries"]]
    assert published == ([("", 6)] if rates_mode == "detailed" else [])
    assert sorted(delivered) == ([("empty", 0), ("q", 5)] if rates_mode == "detailed" else [])
    site.client.close()


def test_a_request_comes_and_goes_as_a_connection_with_a_channel(site: Site) -> None:
    def churn() -> dict[str, int]:
        return counts(site.get("/api/overview")["churn_rates"])

    before, body = churn(), b'{"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}'
    assert ask(web_address(site.broker), "/api/queues/%2F/empty/get", method="POST", body=body).status == 200
    come_and_gone = ("connection_created", "connection_closed", "channel_created", "channel_closed")
    after = before | {name: before[name] + 1 for name in come_and_gone}
    assert (
        eventually(lambda: (found := churn())["channel_closed"] > before["channel_closed"] and found, "its end")
        == after
    )


def test_samples_are_on_a_grid(site: Site) -> None:
    """Newest first, at multiples of their distance, all of the window, zeros from before the start."""
    path = f"/api/channels/{quote(site.name, safe='')}%20(1)?msg_rates_age=60&msg_rates_incr=5"

    def sampled() -> Any:
        found = site.get(path)["message_stats"]["publish_details"]
        return found if found["samples"][0]["sample"] == 6 else None

    details = eventually(sampled, "a sample with the publishes")
    samples = details["samples"]
    assert len(samples) == 13
    times = [sample["timestamp"] for sample in samples]
    assert times == list(range(times[0], times[0] - 60_001, -5000))
    assert times[0] % 5000 == 0
    assert samples[-1]["sample"] == 0
    assert details["avg_rate"] == 0.1
    assert details["avg"] == pytest.approx(sum(sample["sample"] for sample in samples) / 13)
    windows = "lengths_age=60&lengths_incr=5&msg_rates_age=600&msg_rates_incr=60"
    whole = site.get(f"/api/overview?{windows}")
    assert len(whole["message_stats"]["ack_details"]["samples"]) == 11
    assert len(whole["queue_totals"]["messages_details"]["samples"]) == 13
    assert len(whole["churn_rates"]["queue_created_details"]["samples"]) == 11
    node = site.get("/api/nodes?node_stats_age=60&node_stats_incr=5")[0]
    assert node["mem_used_details"]["samples"][0]["sample"] > 10_000_000
    queue = site.get("/api/queues/%2F/q?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5")
    assert len(queue["messages_details"]["samples"]) == len(queue["message_stats"]["ack_details"]["samples"]) == 13
    (vhost,) = site.get("/api/vhosts?data_rates_age=60&data_rates_incr=5&lengths_age=60&lengths_incr=30")
    assert len(vhost["recv_oct_details"]["samples"]) == 13
    assert len(vhost["messages_details"]["samples"]) == 3
    (connection,) = site.get("/api/connections?data_rates_age=60&data_rates_incr=5")
    assert connection["recv_oct_details"]["samples"][0]["sample"] <= connection["recv_oct"]
    assert ask(web_address(site.broker), "/api/overview?lengths_age=60&lengths_incr=0").status == 400


def test_a_rate_is_that_of_the_last_five_seconds(site: Site) -> None:
    def rate() -> float:
        site.client.publish(b"x", key="nowhere")
        site.client.expect(BasicAck)
        found: float = site.get("/api/overview")["message_stats"]["publish_details"]["rate"]
        return found

    assert 0 < eventually(rate, "a rate") < 500


def test_an_operator_has_samples_forgotten(site: Site) -> None:
    node = site.get("/api/overview")["node"]
    address = web_address(site.broker)
    for path, status in (("/api/reset/other", 404), (f"/api/reset/{node}", 204), ("/api/reset", 204)):
        assert ask(address, path, method="DELETE").status == status
    found = site.get("/api/overview?msg_rates_age=60&msg_rates_incr=5")["message_stats"]
    assert found["publish"] >= 6
    assert len({sample["sample"] for sample in found["publish_details"]["samples"]}) == 1
