"""The data file of sittings: what is measured goes in, and page and picture come out of it alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench.clients.client_steps import Waits
from bench.figures.client_waits import ClientSitting, client_section
from bench.figures.figure_page import made, table
from bench.figures.figures_in_pages import PAGES
from bench.figures.figures_in_words import CLAIMS, part, reworded
from bench.figures.measured_loads import LOADS
from bench.figures.row_figures import EMPTY_START
from bench.figures.row_figures import read as read_rows
from bench.figures.sittings import OURS, Broker, Machine, Runs, Sitting, append, read
from harness.project import ROOT
from leveret.testing.power.c_compiler import compiler

MACHINE = Machine("a processor", 2, 4.0, "6.1", "ext4", 0.1)
OTHER = "RabbitMQ 1.2"
THREE = Sitting(
    "2026-01-02",
    "python -m bench.release",
    4.0,
    MACHINE,
    [Broker(OURS, "0.1.0", "compiled"), Broker(OTHER, "", "quorum queues")],
    {
        "lone": {
            OURS: Runs([300.0, 100.0, 200.0], [5.0, 7.0, 6.0], [1.0] * 3, [2.0] * 3),
            OTHER: Runs([100.0] * 3, [50.0] * 3, [3.0] * 3, [4.0] * 3),
        },
        "drain": {OURS: Runs([9000.0] * 3, [5.0] * 3, [0.0] * 3, [0.0] * 3)},
    },
)


@pytest.mark.slow
def test_page_and_picture_are_those_of_the_data() -> None:
    """`python -m bench.figures.figure_page` makes them again."""
    assert {path: path.read_text(encoding="utf-8") for path in made(read())} == made(read())


def test_an_older_figure_in_a_sentence_is_noticed() -> None:
    """Every claim stands in some page, and words that state another figure are replaced by those of the data."""
    pages = {page: page.read_text(encoding="utf-8") for page in PAGES}
    assert [claim.pattern.pattern for claim in CLAIMS if not any(map(claim.pattern.search, pages.values()))] == []
    rows = read_rows()
    rows[EMPTY_START] = msgspec.structs.replace(rows[EMPTY_START], figures={"median_s": 0.1})
    assert reworded("It is ready in a fifth of\na second.", rows) == "It is ready in a tenth of\na second."


@pytest.mark.parametrize(
    ("value", "words"), [(0.215, "a fifth"), (0.26, "a quarter"), (0.12, "an eighth"), (0.024, "a fortieth")]
)
def test_a_figure_is_the_nearest_of_the_usual_parts(value: float, words: str) -> None:
    assert part(value) == words


def test_a_table_has_medians_and_the_ratios_of_rounds() -> None:
    *_, lone, drain = table(THREE)
    title = LOADS["lone"].title
    assert lone == f"| {title} | 200/s | 100/s | 2.00 (1.00 to 3.00) | 6, 50 | 1, 3 | 2, 4 |"
    assert drain == "| drain | 9,000/s |  |  | 5,  |  |  |"


def test_sittings_are_kept_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "sittings.json"
    append(THREE, file)
    append(THREE, file)
    assert read(file) == [THREE, THREE]


def test_rounds_can_be_added_to_a_sitting(tmp_path: Path) -> None:
    file = tmp_path / "sittings.json"
    append(THREE, file)
    append(THREE, file, into_last=True)
    (sitting,) = read(file)
    assert sitting.loads["lone"][OURS].rate == [300.0, 100.0, 200.0] * 2


@pytest.mark.slow
@pytest.mark.skipif(not compiler(), reason="the load generator is compiled")
def test_a_sitting_is_measured_and_appended(tmp_path: Path) -> None:
    file, loads = tmp_path / "sittings.json", ["lone", "publish", "drain", "pika-busy"]
    command = [sys.executable, "-m", "bench.release", "--rounds", "2", "--seconds", "0.05", "--file", str(file)]
    subprocess.run([*command, "--loads", ",".join(loads)], cwd=ROOT, check=True, timeout=300, stdout=subprocess.DEVNULL)
    (sitting,) = read(file)
    assert {load: len(found[OURS].rate) for load, found in sitting.loads.items()} == dict.fromkeys(loads, 2)
    assert sitting.machine.processors


@pytest.mark.slow
@pytest.mark.skipif(not compiler(), reason="the load generator is compiled")
def test_latencies_beside_busy_loops_are_compared_with_quiet_ones() -> None:
    command = [sys.executable, "-m", "bench.busy_machine", "--rounds", "1", "--seconds", "0.05"]
    out = subprocess.run(command, cwd=ROOT, check=True, timeout=300, stdout=subprocess.PIPE, text=True).stdout
    *_runs, lone, pika, queues = map(json.loads, out.splitlines())
    assert all(found["ratio"] > 0 for found in (lone, pika, queues))


def test_a_clients_step_is_in_bold_where_it_takes_longest_here() -> None:
    """Above two milliseconds only: below, nobody's tests feel it."""
    waits = [
        Waits(
            "pika",
            "1.0",
            {OURS: {"connect": 2.5, "get": 0.5, "bind": 11.0}, OTHER: {"connect": 2.0, "get": 0.1, "bind": 12.0}},
        ),
        Waits("amqplib", "2.0", {OURS: {"connect": 1.0}, OTHER: {"connect": 50.0}}),
    ]
    sitting = ClientSitting("2026-01-02", "", "abc", "compiled", 5, 2, MACHINE, [OURS, OTHER], waits)
    *_, titles, _, pika, amqplib = client_section(sitting)
    assert titles == "| client | connect | get | bind |"
    assert pika == "| pika 1.0 | **2.50**, 2.00 | 0.50, 0.10 | 11, 12 |"
    assert amqplib == "| amqplib 2.0 | 1.00, 50 |  |  |"
