"""The audit of brokers that were really killed: what it finds is what their clients know.

Real clients work with all kinds of queues while the broker is killed and stopped (`tests/durability/kills`); each has
a log that keeps the tags and places of what it did. A sound broker shows nothing, and a kill leaves nothing in doubt.
One that forgets messages, or acknowledgements, shows exactly what the clients' ledgers show; a store that loses its
last batches at the kill, what these had put there.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import NamedTuple

import numpy as np
import pytest

from pipeline.event_parts import parts_of
from pipeline.packed_events import merged, packed
from pipeline.throughput import throughput
from tests.durability.kills.audited import EVENTS, AuditedCampaign, Sight
from tests.durability.kills.log_audit import PASSING, Judgement, judge, sound
from tests.durability.kills.lost_batches import Place
from tests.durability.kills.observed_log import Log
from tests.planted.planted_catalogue import with_mistake

pytestmark = [
    pytest.mark.slow,
    # Clients whose connection was lost leave sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

CYCLES = 2
LOSSES = 3
ENDS = {"ack", "reject", "expire", "drop", "release"}
FORGETFUL = {"message": "message forgotten", "acknowledgement": "acknowledgement forgotten"}


class AtRest(AuditedCampaign):
    """A campaign with a broker that forgets: messages that it needs to read back are still in memory. Its clients do
    not answer its stop."""

    settings = EVENTS + "[shutdown]\ntimeout_seconds = 1\n"


class Told(NamedTuple):
    """A campaign, what was in the queues at its end, and its audit."""

    campaign: AuditedCampaign
    sight: Sight
    judgement: Judgement


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    campaigns: dict[str, AuditedCampaign] = {"sound": AuditedCampaign(tmp_path_factory.mktemp("sound"), 20)}
    for name, mistake in FORGETFUL.items():
        campaigns[name] = AtRest(tmp_path_factory.mktemp(name), 20, with_mistake(mistake))
    sights = {}
    try:
        for name, campaign in campaigns.items():
            campaign.begin()
            sights[name] = _sound(campaign) if name == "sound" else _forgetful(campaign)
            campaign.kill_for_good()
    finally:
        for campaign in campaigns.values():
            campaign.abandon()
    return {name: Told(campaign, sights[name], judge(campaign)) for name, campaign in campaigns.items()}


def _sound(campaign: AuditedCampaign) -> Sight:
    """Kills, an orderly stop, kills, another stop; and what is there then."""
    for _ in range(2):
        campaign.cycles(CYCLES)
        campaign.restart()
    return campaign.look()


def _forgetful(campaign: AuditedCampaign) -> Sight:
    """One life, a stop when all is said, a look, and another stop, so that the look is in the log as well."""
    campaign.work_and_stop()
    campaign.broker.start()
    sight = campaign.look()
    campaign.restart()
    return sight


def test_a_sound_broker_that_is_killed_under_load_shows_nothing(told: dict[str, Told]) -> None:
    campaign, sight, judgement = told["sound"]
    assert campaign.kills.total() >= 2 * CYCLES
    assert sound(judgement) == []
    assert (sight.lost, sight.returned) == ([], [])
    judgement.comparison.queues(sight.places, PASSING)
    assert judgement.comparison.problems == []


def test_every_client_is_heard_of(told: dict[str, Told]) -> None:
    """Something was compared for each client. The part of it that lies in gaps depends on the machine."""
    figures = told["sound"].judgement.comparison.figures
    assert min(figures.confirmed, figures.delivered, figures.settled) > 0, figures
    assert figures.connections >= 2 * CYCLES * len(told["sound"].campaign.ledgers)
    assert figures.verdicts["queued"] > 0


def test_gaps_are_the_ends_of_killed_boots(told: dict[str, Told]) -> None:
    judgement = told["sound"].judgement
    stopped = {boot.boot for boot in judgement.boots if boot.stopped is not None}
    assert len(stopped) >= 2
    assert not [gap for gap in judgement.gaps if gap.boot in stopped]


def test_what_is_lost_at_a_kill_is_found_each_time(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its confirms were sent right before, and the last event before a commit is lost with the commit."""
    seed, losses = count(20), 0
    while losses < LOSSES:
        campaign = AuditedCampaign(tmp_path_factory.mktemp("losing"), next(seed))
        try:
            campaign.begin()
            planted = campaign.work_and_lose()
            campaign.broker.start()
            campaign.restart()
            campaign.kill_for_good()
        finally:
            campaign.abandon()
        judgement = judge(campaign)
        promised = _promised(judgement.comparison.log, planted)
        assert {(row.queue, row.position) for row in judgement.lost} == promised
        assert judgement.problems == []
        losses += bool(promised)


def _promised(log: Log, planted: set[Place]) -> set[Place]:
    """Return the last places of confirmed messages that nothing has made leave, and that are nowhere in their queue
    later.

    Only those that a lost batch had put somewhere. This need not be their last place: the batch in which one was given
    back and went to the end of its queue may never have been on the disk.
    """
    places = {(event.queue or "", event.position or 0): event for event in log.events if event.kind == "route"}

    def origin(place: Place) -> Place:
        """Return the place of a message before it went to the end of its queue for the first time."""
        before = place[0], places[place].msg_id or 0
        return place if before == place or before not in places else origin(before)

    gone = {(event.queue, event.position) for event in log.events if event.kind in ENDS}
    found = {(event.queue or "", event.position or 0) for event in log.events if event.kind == "queued"}
    still_there = {origin(place) for place in found & places.keys()}
    last = {origin(place): place for place in places}
    return {
        last[first]
        for first in {origin(place) for place in planted & places.keys()} - still_there
        if last[first] not in gone and places[first].msg_id in log.confirmed
    }


def test_messages_that_were_forgotten_are_lost_and_no_others(told: dict[str, Told]) -> None:
    campaign, sight, judgement = told["message"]
    log = judgement.comparison.log
    numbers = log.numbers_of(campaign.connections)
    assert sight.lost
    assert sorted(numbers[log.first_number(row.msg_id)] for row in judgement.lost) == sorted(sight.lost)
    assert judgement.violations == []
    assert judgement.problems == []


def test_acknowledgements_that_were_forgotten_are_violations_and_no_others(told: dict[str, Told]) -> None:
    """Clients cannot tell a message that leaves by itself a second time; the audit can."""
    _, sight, judgement = told["acknowledgement"]
    found = {(row.queue, row.position) for row in judgement.violations}
    assert sight.returned
    assert {place for place in found if place[0] in sight.held and place[0] not in PASSING} == {
        place for place in sight.returned if place[0] not in PASSING
    }
    assert judgement.lost == []
    assert judgement.problems == []


def test_depths_are_what_is_found_in_the_queues(told: dict[str, Told]) -> None:
    """Over kills, of which the log lacks the ends, and what came undone with them."""
    campaign, sight, _ = told["sound"]
    (events,) = merged(map(packed, parts_of(str(campaign.segments))))
    # All in one bin: at the end of one that ends within a start, depths are not known.
    rows = throughput([replace(events, us=np.zeros_like(events.us))]).to_pylist()
    depths = {row["queue"]: row["depth"] for row in rows}
    found = {queue: len(places) for queue, places in sight.places.items() if queue not in PASSING}
    assert sum(found.values()) > 0
    assert {queue: depths[queue] for queue in found} == found
