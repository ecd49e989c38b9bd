"""Samples and rates of the past, in time that tests move on."""

from __future__ import annotations

from typing import Any

import pytest

from broker.admin.views.columns import ABSENT
from broker.admin.views.topology_view import ExchangeOf
from broker.entities.arguments.personality import DEFAULT
from broker.entities.queues.consumers import STALE_MILLISECONDS
from broker.management.insight.commit_histograms import commit_history
from broker.management.responses import Problem
from broker.management.rows.channel_rows import channel_rows
from broker.management.rows.exchange_rows import exchange_rows
from broker.management.rows.queue_rows import QueueRows, queue_rows
from broker.management.statistics import pair_stats
from broker.management.statistics.history import StatisticsHistory
from broker.management.statistics.history_query import HistoryQuery
from broker.management.statistics.sample_series import FINE, LONG, SLOT_MILLISECONDS, Series, SeriesKind
from broker.management.statistics.sampler import Sampler
from broker.management.statistics.windows import NO_SAMPLES, Ages, SampleWindow, read_ages
from broker.session.channel.channel import Channel
from broker.session.session_settings import SessionSettings
from harness.brokers.broker_core import START, Core
from harness.clients.session_client import SessionLayer
from harness.clients.shorthand import ack, consume, get, prefetch

FIRST = START // SLOT_MILLISECONDS
ONE = SeriesKind(("value",), LONG, "q")


class Past:
    """A broker with a queue, and a round of samples whenever five seconds are over."""

    def __init__(self, core: Core, rates_mode: str = "basic") -> None:
        self.core = core
        self.sessions = SessionLayer(core, SessionSettings(detailed_rates=rates_mode == "detailed"))
        self.client = self.sessions.connect()
        self.queue = core.queue("q", durable=False)
        self.figures = {"mem_used": 1, "io_sync_avg_time": 0.5}
        self.history = StatisticsHistory(self.sessions.registry, lambda: self.figures, rates_mode=rates_mode)
        self.round()

    def round(self) -> list[None]:
        """Take a sample of everything; its steps."""
        return list(self.history.sampler.round(self.core.clock.now() // SLOT_MILLISECONDS))

    def use(self, sampler: Sampler) -> None:
        """Have samples taken by another from now on."""
        self.history.sampler = sampler
        self.round()

    def five_seconds(self, *, published: int = 0) -> None:
        for _ in range(published):
            self.client.publish(b"x", key="q")
        self.core.advance(SLOT_MILLISECONDS)
        self.round()


@pytest.fixture
def past(core: Core) -> Past:
    return Past(core)


def samples(detail: dict[str, Any]) -> list[int]:
    return [each["sample"] for each in detail["samples"]]


def test_a_rate_is_the_difference_of_the_last_two_samples(past: Past) -> None:
    """Rates of a queue, its exchange, its channel, its virtual host and the broker alike."""
    history, queue = past.history, past.queue
    (channel,) = past.client.connection.channels.values()
    exchange, vhost = past.core.vhost.exchange(""), past.core.vhost
    assert history.queue_stats(queue) == {}
    past.five_seconds(published=10)
    shown = (
        history.queue_stats(queue),
        history.channel_stats(channel),
        history.overview_stats(None),
        history.vhost_stats(vhost),
    )
    assert [(stats["publish"], stats["publish_details"]) for stats in shown] == [(10, {"rate": 2.0})] * 4
    assert history.exchange_stats(exchange)["publish_out_details"] == {"rate": 2.0}
    assert history.queue_lengths(queue)["messages_ready_details"] == {"rate": 2.0}
    past.client.publish(b"x", key="q")
    assert history.queue_stats(queue) == {"publish": 11, "publish_details": {"rate": 2.0}}, "the number is of now"
    past.five_seconds()
    assert history.queue_stats(queue)["publish_details"] == {"rate": 0.2}
    past.five_seconds()
    assert history.queue_stats(queue)["publish_details"] == {"rate": 0.0}


def test_a_round_that_was_missed_does_not_double_the_rate(past: Past) -> None:
    past.core.advance(SLOT_MILLISECONDS)
    past.five_seconds(published=10)
    assert past.history.queue_stats(past.queue)["publish_details"] == {"rate": 1.0}


def test_a_group_is_shown_when_one_of_it_is_not_0(past: Past) -> None:
    past.client.publish(b"x", key="q", mandatory=True)
    (channel,) = past.client.connection.channels.values()
    publishes = {"publish": 1, "confirm": 0, "return_unroutable": 0, "drop_unroutable": 0}
    assert plain(past.history.channel_stats(channel)) == publishes
    past.client.ask(get("q"))
    deliveries = {
        "deliver": 0,
        "deliver_no_ack": 0,
        "get": 1,
        "get_no_ack": 0,
        "get_empty": 0,
        "deliver_get": 1,
        "redeliver": 0,
        "ack": 0,
    }
    assert plain(past.history.channel_stats(channel)) == publishes | deliveries
    assert plain(past.history.queue_stats(past.queue)) == {"publish": 1} | deliveries


def plain(stats: dict[str, Any]) -> dict[str, Any]:
    """Without details."""
    return {name: value for name, value in stats.items() if not name.endswith("_details")}


def test_the_history_of_commits_is_of_each_interval(past: Past) -> None:
    measured = past.core.broker.statistics.measurements
    for messages, wait in ((4, 0.004), (6, 0.04)):
        measured.commit_messages.observe(messages)
        measured.confirm_seconds.observe(wait)
        past.five_seconds()
    past.five_seconds()
    none, second, first, *earlier = commit_history(past.history.sampler, SampleWindow(60, 5))
    assert (none["rate"], none["messages"], none["confirm_seconds"]) == (0, None, {"median": None, "p99": None})
    assert (first["rate"], first["messages"], second["messages"]) == (0.2, 4, 6)
    assert 0.0025 < first["confirm_seconds"]["median"] <= 0.005 < second["confirm_seconds"]["p99"] <= 0.05
    assert [each["rate"] for each in earlier] == [0] * 9


def test_samples_are_newest_first_at_multiples_of_their_distance(past: Past) -> None:
    for count in (1, 2, 0, 3):
        past.five_seconds(published=count)
    ages = Ages(
        msg_rates=SampleWindow(20, 5),
        lengths=SampleWindow(25, 5),
        data_rates=SampleWindow(10, 10),
        node_stats=SampleWindow(5, 5),
    )
    detail = past.history.queue_stats(past.queue, ages)["publish_details"]
    newest = (FIRST + 4) * SLOT_MILLISECONDS
    assert detail == {
        "rate": 0.6,
        "avg": 2.6,
        "avg_rate": 0.3,
        "samples": [
            {"sample": sample, "timestamp": newest - number * SLOT_MILLISECONDS}
            for number, sample in enumerate((6, 3, 3, 1, 0))
        ],
    }
    assert samples(past.history.queue_lengths(past.queue, ages)["messages_details"]) == [6, 3, 3, 1, 0, 0]
    assert samples(past.history.overview_lengths(None, ages)["messages_ready_details"]) == [6, 3, 3, 1, 0, 0]
    assert past.history.overview_stats([past.core.vhost], ages)["publish_details"] == detail
    assert len(past.history.connection_traffic(past.client.connection, ages)["recv_oct_details"]["samples"]) == 2
    assert samples(past.history.node_details(ages)["io_sync_avg_time_details"]) == [0.5, 0.5]
    assert samples(past.history.churn_rates(ages)["queue_created_details"]) == [1, 1]


@pytest.mark.parametrize(
    ("age", "incr", "wanted"), [(600, 5, 121), (3600, 60, 61), (28800, 600, 49), (86400, 1800, 49)]
)
def test_each_ring_has_the_past_at_its_own_distance(age: int, incr: int, wanted: int) -> None:
    """A value that is its own time: whatever is asked, each sample is the value of its time, back to the beginning."""
    series, start = Series(ONE), 86400 // 5
    end = start + 2 * 86400 // 5 + 7
    for slot in range(start, end + 1):
        series.sample(slot, (slot * 5,))
    newest = end * 5 // incr * incr
    times = [newest - number * incr for number in range(wanted)]
    assert series.at([time // 5 for time in times], age)(0) == times


def test_what_does_not_change_takes_no_room(past: Past) -> None:
    """Nothing if it never did, and no samples after their time."""
    other = past.core.queue("other", durable=False)
    past.five_seconds(published=1)
    assert other.counters.history is None
    series = past.queue.counters.history
    assert [len(ring.rows) > 0 for ring in series.rings] == [True, False]
    for _ in range(12 * 61 + 12):
        past.five_seconds()
    assert [len(ring.rows) for ring in series.rings] == [0] * len(FINE)
    assert (
        samples(past.history.queue_stats(past.queue, Ages(msg_rates=SampleWindow(60, 5)))["publish_details"])
        == [1] * 13
    )


def test_values_beyond_32_bits_have_samples(past: Past) -> None:
    counters = past.queue.counters
    for value in ((1 << 32) - 1, (1 << 32) + 9):
        counters.publish = value
        past.five_seconds()
    detail = past.history.queue_stats(past.queue, Ages(msg_rates=SampleWindow(5, 5)))["publish_details"]
    assert detail["samples"][0]["sample"] - detail["samples"][1]["sample"] == 10
    assert (detail["samples"][0]["sample"], detail["rate"]) == ((1 << 32) + 9, 2.0)


def test_those_that_have_not_changed_for_longest_are_forgotten_when_there_is_no_room(past: Past) -> None:
    """All of what was forgotten is in samples; rates are right nevertheless."""
    past.five_seconds(published=5)
    idle, ages = past.queue, Ages(msg_rates=SampleWindow(20, 5))
    past.use(Sampler(past.sessions.registry, dict, bytes_max=1))
    busy = [past.core.queue(f"busy {number}", durable=False) for number in range(3)]
    for _ in range(4):
        for queue in busy:
            past.client.publish(b"x", key=queue.name)
        past.five_seconds()
    assert samples(past.history.queue_stats(idle, ages)["publish_details"]) == [5] * 5
    assert past.history.queue_stats(busy[0], ages)["publish_details"]["rate"] == 0.2


def test_a_round_goes_in_steps(past: Past) -> None:
    """It gives way after each thing."""
    for number in range(100):
        past.core.queue(f"q{number}", durable=False)
    assert len(past.round()) > 100


def test_consumers_that_are_given_nothing_more_have_less_capacity(past: Past) -> None:
    queue = past.queue
    assert queue.consumers.capacity == 0
    past.client.send(prefetch(1), consume("q", "c"))
    past.five_seconds(published=1)
    assert queue.consumers.capacity == 1, "nothing waits"
    past.five_seconds(published=1)
    past.core.advance(SLOT_MILLISECONDS // 2)
    past.client.send(ack(1))
    past.core.advance(SLOT_MILLISECONDS // 2)
    past.round()
    assert queue.consumers.capacity == 0.5
    past.core.advance(STALE_MILLISECONDS)
    assert queue.consumers.capacity == 0.5, "the round's"
    past.core.advance(STALE_MILLISECONDS)
    assert queue.consumers.capacity == 1, "without rounds it is measured when it is asked for"


def test_since_when_something_is_idle(past: Past) -> None:
    (channel,) = past.client.connection.channels.values()
    history, opened = past.history, channel.opened_at
    past.five_seconds()
    assert history.channel_idle_since(channel) == opened
    past.five_seconds(published=1)
    assert history.queue_idle_since(past.queue) is history.channel_idle_since(channel) is None
    used = past.core.clock.now()
    past.five_seconds()
    past.five_seconds()
    assert history.queue_idle_since(past.queue) == history.channel_idle_since(channel) == used


def test_without_rates_there_are_numbers_only(core: Core) -> None:
    past = Past(core, "none")
    past.five_seconds(published=1)
    assert past.history.queue_stats(past.queue, Ages(msg_rates=SampleWindow(60, 5))) == {"publish": 1}
    assert past.history.queue_lengths(past.queue) == {}


@pytest.mark.parametrize(
    ("asked", "ages"),
    [
        ({}, NO_SAMPLES),
        ({"lengths_age": "60", "lengths_incr": "5"}, Ages(lengths=SampleWindow(60, 5))),
        ({"msg_rates_age": "60"}, NO_SAMPLES),
        ({"msg_rates_age": "x", "msg_rates_incr": "5"}, NO_SAMPLES),
    ],
)
def test_what_is_asked_for(asked: dict[str, str], ages: Ages) -> None:
    assert read_ages(asked) == ages


@pytest.mark.parametrize(("age", "incr"), [(60, 0), (-60, 5), (1000000, 1)])
def test_what_makes_no_sense(age: int, incr: int) -> None:
    with pytest.raises(Problem) as refused:
        read_ages({"node_stats_age": str(age), "node_stats_incr": str(incr)})
    refusal = refused.value.status, refused.value.reason
    assert refusal == (400, f"Invalid range parameters: age {age}, incr {incr}")


def test_pairs_are_counted_with_detailed_rates(core: Core) -> None:
    """Both ends say the same; those of what is gone go with the next sample."""
    past = Past(core, "detailed")
    vhost, queue, client = core.vhost, past.queue, past.client
    core.queue("gone", durable=False)
    for key in ("q", "q", "nowhere", "gone"):
        client.publish(b"x", key=key)
    client.ask(get("q"))
    client.ask(get("q"))
    client.send(ack(1))
    client.ask(get("gone", no_ack=True))
    vhost.delete_queue(vhost.queues["gone"])
    past.five_seconds()
    (channel,) = client.connection.channels.values()
    asked, registry = HistoryQuery(past.history, NO_SAMPLES), past.sessions.registry
    (published,) = pair_stats.publishes(asked, channel)
    assert published["exchange"] == {"name": "", "vhost": "/"}
    assert published["stats"]["publish_details"] == {"rate": 0.8}
    assert plain(published["stats"]) == {"publish": 4, "return_unroutable": 0, "drop_unroutable": 1}
    of_exchange = pair_stats.of_exchange(asked, registry, vhost, vhost.exchange(""), number)
    assert of_exchange["incoming"] == [{"channel_details": {"number": 1}, "stats": published["stats"]}]
    (received,) = of_exchange["outgoing"]
    assert (received["queue"], plain(received["stats"])) == ({"name": "q", "vhost": "/"}, {"publish": 2})
    (delivered,) = pair_stats.deliveries(asked, channel)
    assert (delivered["stats"]["get"], delivered["stats"]["ack"], delivered["stats"]["deliver_get"]) == (2, 1, 2)
    assert pair_stats.of_queue(asked, registry, vhost, queue, number) == {
        "incoming": [{"exchange": published["exchange"], "stats": received["stats"]}],
        "deliveries": [{"channel_details": {"number": 1}, "stats": delivered["stats"]}],
    }


def number(channel: Channel) -> dict[str, Any]:
    return {"number": channel.number}


def test_lists_are_sorted_by_what_their_rows_show(past: Past) -> None:
    """Each counter and rate of a row is worked out by itself for sorting, and is the same."""
    (channel,) = past.client.connection.channels.values()
    past.client.send(get("q"))
    past.five_seconds(published=3)
    asked = HistoryQuery(past.history, NO_SAMPLES)
    exchange = ExchangeOf("/", past.core.vhost.exchange(""))
    compared = 0
    for columns, thing in (
        (queue_rows("node", asked, QueueRows(DEFAULT.series)), past.queue),
        (exchange_rows(asked, DEFAULT.series), exchange),
        (channel_rows("node", asked, DEFAULT.series), channel),
    ):
        row = columns.row(thing)
        for name, value in row["message_stats"].items():
            path = f"message_stats.{name}" + (".rate" if name.endswith("_details") else "")
            assert columns.getter(path)(thing) == (value["rate"] if name.endswith("_details") else value), path
            compared += bool(columns.getter(path)(thing))
    assert compared == 12, "publishes and an empty get, each with its rate"
    listed = past.queue
    assert queue_rows("node", asked, QueueRows(DEFAULT.series)).getter("messages_details.rate")(listed) == 0.6
    assert queue_rows("node", asked, QueueRows(DEFAULT.series)).getter("message_stats.none")(listed) is ABSENT
