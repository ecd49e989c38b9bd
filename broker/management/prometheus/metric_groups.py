"""Groups of metrics: what things of one kind are measured by, as a table, and how that becomes families of samples.

A group is shown summed up, one sample for each metric, or for each of its things by itself. With 10,000 queues either
is a lot of work, so both are done in steps: families come in parts of at most `PART` samples, with None in between
where a step has come to nothing that can be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric, UntypedMetricFamily

T = TypeVar("T")

PART = 100
"""Samples that are worked out and written down before others have a turn: some 0.5 ms."""

Parts = Iterator[Metric | None]
GAUGE, COUNTER, UNTYPED = "gauge", "counter", "untyped"
_FAMILIES: dict[str, Any] = {GAUGE: GaugeMetricFamily, COUNTER: CounterMetricFamily, UNTYPED: UntypedMetricFamily}


class Measure(NamedTuple, Generic[T]):
    """One metric of a group. A thing whose value is None has no sample."""

    name: str
    kind: str
    help: str
    value: Callable[[T], float | None]
    summed: bool = True
    """The sum over all things means something."""


class Labels(NamedTuple, Generic[T]):
    """The labels of a group's samples, where each is for one thing."""

    names: tuple[str, ...]
    values: Callable[[T], Sequence[str]]


class Group(NamedTuple, Generic[T]):
    """What is measured of things of one kind. `name` is what RabbitMQ calls it: a `family` of /metrics/detailed.

    `vhost`: the virtual host that a thing is in, where a scrape may choose some. `always_apart`: never summed up.
    """

    name: str
    things: Callable[[], Sequence[T]]
    labels: Labels[T]
    measures: tuple[Measure[T], ...]
    vhost: Callable[[T], str] | None = None
    always_apart: bool = False

    def summed(self, prefix: str) -> Parts:
        """A family with one sample for each metric."""
        measures = [measure for measure in self.measures if measure.summed]
        sums = [0.0] * len(measures)
        values = [measure.value for measure in measures]
        for at, thing in enumerate(self.things()):
            if at % PART == 0:
                yield None
            for number, value in enumerate(values):
                sums[number] += value(thing) or 0
        for measure, total in zip(measures, sums, strict=True):
            yield family(prefix + measure.name, measure.kind, measure.help, [((), total)])

    def apart(self, prefix: str, vhosts: frozenset[str] | None = None) -> Parts:
        """Families with a sample for each thing, or for those in some virtual hosts, in parts."""
        things = self.things()
        if vhosts is not None and self.vhost is not None:
            vhost = self.vhost
            things = [thing for thing in things if vhost(thing) in vhosts]
        for measure in self.measures:
            for start in range(0, len(things) or 1, PART):
                samples = self._samples(measure, things[start : start + PART])
                yield family(prefix + measure.name, measure.kind, measure.help, samples, self.labels.names)

    def _samples(self, measure: Measure[T], things: Iterable[T]) -> list[Sample]:
        values = self.labels.values
        return [(values(thing), value) for thing in things if (value := measure.value(thing)) is not None]


Sample = tuple[Sequence[str], float]
"""The values of the labels, and of the metric."""


def family(name: str, kind: str, help_: str, samples: Iterable[Sample], labels: Sequence[str] = ()) -> Metric:
    """A family of samples. Those of counters end in `_total`."""
    made: Metric = _FAMILIES[kind](name, help_, labels=labels)
    for values, value in samples:
        made.add_metric([text(each) for each in values], value)  # type: ignore[attr-defined]
    return made


def text(name: str) -> str:
    """A name as a label's value: bytes that are not UTF-8 become `\\\\xff`."""
    if name.isascii():
        return name
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
