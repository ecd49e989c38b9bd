"""Groups of metrics: what things of one kind are measured by, as a table, and how that becomes families of samples.

A group is shown summed up, one sample for each metric, or for each of its things by itself. With 10,000 queues either
is a lot of work, so both are done in steps: families come in parts of at most `PART` samples, with None in between
where a step has come to nothing that can be shown. All values of a thing are of one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric, UntypedMetricFamily

T = TypeVar("T")

PART = 100
"""Samples that are worked out and written down before others have a turn: some 0.5 ms."""

Parts = Iterator[Metric | None]
Values = Sequence[float | None]
GAUGE, COUNTER, UNTYPED = "gauge", "counter", "untyped"
_FAMILIES: dict[str, Any] = {GAUGE: GaugeMetricFamily, COUNTER: CounterMetricFamily, UNTYPED: UntypedMetricFamily}


class Measure(NamedTuple):
    """One metric of a group. `summed`: the sum over all things means something."""

    name: str
    kind: str
    help: str
    summed: bool = True


class Labels(NamedTuple, Generic[T]):
    """The labels of a group's samples, where each is for one thing."""

    names: tuple[str, ...]
    values: Callable[[T], Sequence[str]]


class Group(NamedTuple, Generic[T]):
    """What is measured of things of one kind. `name` is what RabbitMQ calls it: a `family` of /metrics/detailed.

    `values` are a thing's, in the order of `measures`; where one is None there is no sample. `vhost`: the virtual host
    that a thing is in, where a scrape may choose some. `always_apart`: never summed up.
    """

    name: str
    things: Callable[[], Sequence[T]]
    labels: Labels[T]
    measures: tuple[Measure, ...]
    values: Callable[[T], Values]
    vhost: Callable[[T], str] | None = None
    always_apart: bool = False

    def summed(self, prefix: str) -> Parts:
        """A family with one sample for each metric; none where there are things, and none of them has a value."""
        things = self.things()
        sums: list[float | None] = [None if things else 0] * len(self.measures)
        for at, thing in enumerate(things):
            if at % PART == 0:
                yield None
            sums = [_added(*pair) for pair in zip(sums, self.values(thing), strict=True)]
        for measure, total in zip(self.measures, sums, strict=True):
            if measure.summed:
                yield family(prefix + measure.name, measure.kind, measure.help, [((), total)])

    def apart(self, prefix: str, vhosts: frozenset[str] | None = None) -> Parts:
        """Families with a sample for each thing, or for those in some virtual hosts, in parts."""
        rows: list[tuple[Sequence[str], Values]] = []
        for at, thing in enumerate(self.things()):
            if at % PART == 0:
                yield None
            if vhosts is None or self.vhost is None or self.vhost(thing) in vhosts:
                rows.append((self.labels.values(thing), self.values(thing)))
        for number, measure in enumerate(self.measures):
            for start in range(0, len(rows) or 1, PART):
                samples = [(labels, values[number]) for labels, values in rows[start : start + PART]]
                yield family(prefix + measure.name, measure.kind, measure.help, samples, self.labels.names)


def _added(total: float | None, value: float | None) -> float | None:
    return total if value is None else value if total is None else total + value


def family(
    name: str, kind: str, help_: str, samples: Iterable[tuple[Sequence[str], float | None]], labels: Sequence[str] = ()
) -> Metric:
    """A family of samples: the values of their labels, and of the metric. Names of counters end in `_total`."""
    made: Any = _FAMILIES[kind](name, help_, labels=labels)
    for values, value in samples:
        if value is not None:
            made.add_metric([text(each) for each in values], value)
    return made  # type: ignore[no-any-return]


def text(name: str) -> str:
    """A name as a label's value: bytes that are not UTF-8 become `\\\\xff`."""
    if name.isascii():
        return name
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
