"""Every row of the measurements runs, on a hundredth of its size or less, and says what it is read for."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from bench.__main__ import ROWS
from bench.load.measured_broker import TRIAL
from harness.project import ROOT
from leveret.testing.power.c_compiler import compiler

SECONDS = 1200

READ_FOR = {
    "rates": {"messages_per_s", "of_plain", "cpu_us_per_message", "round_trip_ms"},
    "backlog": {"rss_anon_mib_highest", "last_tenth_of_first", "file_of_all_messages"},
    "unacked": {"rss_anon_mib_highest", "bytes_each"},
    "restarts": {"ready_s", "first_delivery_ms"},
    "purges": {"confirm_ms", "answered_ms"},
    "masses": {"took_s", "rss_anon_mib_highest", "confirm_ms"},
    "memory-alarm": {"publisher_goes_on_s", "rss_anon_mib_after", "rss_anon_mib_later"},
    "starts": {"median_s", "packages_ms", "rss_mib", "cpu_percent"},
    "idle": {"kib_each", "cores", "alive"},
    "declares": {"syncs_each", "of_one_client", "ready_s"},
    "definitions": {"p50_ms", "p90_ms"},
    "many-queues": {"p99_of_one_queue"},
    "routing": {"rate_ratio", "per_s", "ready_s"},
    "tls": {"cpu_us_per_message", "round_trip_ms_meanwhile"},
    "downloads": {"mib_per_s", "confirm_ms", "broker_cores"},
    "management": {"median_ms", "cpu_ms", "longest_ms", "undisturbed_p99_ms", "confirm_p99_ms", "times"},
    "events": {"events_per_s", "us_per_event", "rate_ratio", "cpu_us_on", "cpu_us_off", "p99_ms_on", "p99_ms_off"},
    "shipping": {"rate", "cpu_us", "cpu_us_off", "confirm_p50_ms", "confirm_p50_ms_off"},
    "attacks": {"cores", "p99", "benign_p99", "mib_kept", "descriptors_kept"},
    "steps": {"parse", "commit", "ack", "sum_of_steps", "tcp_acknowledgement"},
    "turns": {"longest_ms", "long_turns", "turns"},
    "clients": {"client", "version", "connect_ms", "publish_ms", "get_ms", "consume_ms", "close_ms"},
    "health-checks": {"cpu_ms", "broker_cpu_ms"},
    "cores": {"part_of_rate", "p50_ms"},
    "program-sizes": {"mb"},
    "connections": {"kib_each", "alive_at_the_end", "good_beside", "mib_after", "descriptors_after"},
    "connection-churn": {"per_s", "mib_before", "mib_after", "descriptors_after"},
    "http-bodies": {"longest_turn_ms", "confirm_p99", "mib_more"},
    "http-queries": {"seconds", "longest_turn", "mib_more"},
    "http-unread": {"longest_s", "confirm_p99", "mib_more"},
    "soak": {"what", "start", "end", "lost", "doubled", "disordered", "sound"},
}


@pytest.fixture(scope="module")
def said() -> dict[str, set[str]]:
    """Return the names in each row's output: all are run in turn by one process, which ends a row by saying how long
    it took."""
    command = [sys.executable, "-m", "bench", *ROWS, "--part", "0.001"]
    environment = {**os.environ, TRIAL: "1"}
    run = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert run.returncode == 0, run.stderr
    rows, names = dict[str, set[str]](), set[str]()
    for line in map(json.loads, run.stdout.splitlines()):
        names |= line.keys()
        if line["row"] == "took":
            rows[line["what"]], names = names, set()
    return rows


@pytest.mark.slow
@pytest.mark.skipif(not compiler(), reason="the load generator is compiled")
@pytest.mark.parametrize("row", ROWS)
def test_a_row_runs(said: dict[str, set[str]], row: str) -> None:
    assert READ_FOR[row] <= said[row]
