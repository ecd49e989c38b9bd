"""Groups of metrics: what things of one kind are measured by, as a table, and how that becomes families of samples.

A group is shown summed up, one sample for each metric, or for each of its things by itself. With 10,000 queues either
is a lot of work, so it comes in parts, with None where there is nothing to show yet: between two of them others may go
on. All values of a thing are of one moment.

The client library takes 4.5 us for a sample, most of it for its labels. Samples of things are written here instead,
with labels that are made once for each thing: that is a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric, UntypedMetricFamily

T = TypeVar("T")

PART = 100
"""Samples that are written at once: some 0.05 ms."""

Parts = Iterator[Metric | str | None]
"""Families for the client library to write, further samples of the last one as lines, or nothing yet."""
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

    def written(self, thing: T) -> str:
        """A thing's labels as they stand in a line, in braces; empty if there are none."""
        pairs = zip(self.names, self.values(thing), strict=True)
        inner = ",".join([f'{name}="{_escaped(text(value))}"' for name, value in pairs])
        return f"{{{inner}}}" if inner else ""


class MetricGroup(NamedTuple, Generic[T]):
    """What is measured of things of one kind. `name` is what RabbitMQ calls it: a `family` of /metrics/detailed.

    `values` are a thing's, in the order of `measures`; where one is None there is no sample. `vhost`: the virtual host
    that a thing is in, where a scrape may choose some. `always_apart`: never summed up.
    """

    name: str
    things: Callable[[], Iterable[T]]
    labels: Labels[T]
    measures: tuple[Measure, ...]
    values: Callable[[T], Values]
    vhost: Callable[[T], str] | None = None
    always_apart: bool = False

    def summed(self, prefix: str) -> Parts:
        """A family with one sample for each metric; none where there are things, and none of them has a value."""
        values: list[float | None] = []
        for thing in self.things():
            values += self.values(thing)
            yield None
        for number, measure in enumerate(self.measures):
            if measure.summed:
                present = [value for value in values[number :: len(self.measures)] if value is not None]
                total = sum(present) if present or not values else None
                yield family(prefix + measure.name, measure.kind, measure.help, [((), total)])

    def apart(self, prefix: str, vhosts: frozenset[str] | None = None) -> Parts:
        """Families with a sample for each thing, or for those in some virtual hosts, in parts."""
        labels: list[str] = []
        values: list[float | None] = []  # of one thing after the other: 10,000 tuples would be searched for cycles
        for thing in self.things():
            if vhosts is None or self.vhost is None or self.vhost(thing) in vhosts:
                labels.append(self.labels.written(thing))
                values += self.values(thing)
            yield None
        for number, measure in enumerate(self.measures):
            yield family(prefix + measure.name, measure.kind, measure.help)
            yield from _lines(prefix + measure.name, zip(labels, values[number :: len(self.measures)], strict=True))


def _lines(name: str, samples: Iterator[tuple[str, float | None]]) -> Iterator[str]:
    """Samples as lines, in parts: what their labels are, and their values."""
    while part := list(islice(samples, PART)):
        yield "".join([f"{name}{labels} {value}\n" for labels, value in part if value is not None])


def family(
    name: str,
    kind: str,
    help_: str,
    samples: Iterable[tuple[Sequence[str], float | None]] = (),
    labels: Sequence[str] = (),
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


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
