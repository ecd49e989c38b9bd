"""What measures the data source runs, and leaves what it published where it should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.pipeline.spark_rates import QUEUE, intake_rate, sink_rate, source_rate
from tests.pipeline.inputs.queue_client import Desk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    # PySpark leaves the sockets of its results to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_the_measurements_run(spark: SparkSession, desk: Desk) -> None:
    assert intake_rate(desk.options, 2, 500).messages > 0
    assert source_rate(spark, desk.options, 2, 500) > 0
    assert sink_rate(spark, desk.options, 1, 50) > 0
    assert len(desk.take(QUEUE)) == 100
    desk.channel.queue_delete(QUEUE)
