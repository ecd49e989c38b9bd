"""A lone client that declares its topology: the time of each change of definitions, and of a commit, by pika."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import pika

from bench.load.measured_broker import Wanted, chosen, report

TIMES = 300
ROUNDS = 3
NAME = "bench.waiting"
BESIDE = "DEFINITIONS_BESIDE"
"""Environment: HOST:PORT,... of other brokers that are measured in turn with this one, with user guest."""

Times = dict[str, list[float]]


def definitions(wanted: Wanted) -> None:
    """p50 and p90 of a lone client's requests, each of which waits for the answer to the one before."""
    with chosen(wanted) as target:
        brokers = {"this broker": target.address}
        for other in filter(None, os.environ.get(BESIDE, "").split(",")):
            host, _, port = other.rpartition(":")
            brokers[other] = host, int(port)
        times: dict[str, Times] = {name: {} for name in brokers}
        for _ in range(ROUNDS):
            for name, address in brokers.items():
                _measure(address, wanted.sized(TIMES) // ROUNDS, times[name])
    for name, found in times.items():
        for row, seconds in found.items():
            report(f"{row}, {name}", p50_ms=_milliseconds(seconds, 50), p90_ms=_milliseconds(seconds, 90))


def _milliseconds(seconds: list[float], percent: int) -> float:
    return round(statistics.quantiles(seconds, n=100)[percent - 1] * 1000, 3)


def _measure(address: tuple[str, int], count: int, times: Times) -> None:
    host, port = address
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, port))
    for row, requests in _rows(connection):
        times.setdefault(row, []).extend(_seconds(requests, count))
    connection.channel().queue_delete(NAME)
    connection.close()


def _seconds(request: Callable[[int], Any], count: int) -> Iterator[float]:
    for number in range(count):
        began = time.perf_counter()
        request(number)
        yield time.perf_counter() - began


def _rows(connection: Any) -> Iterator[tuple[str, Callable[[int], Any]]]:
    """Yield each row's name and request, in an order in which what a request needs is there."""
    channel, name = connection.channel(), f"{NAME}.%d"
    yield "exchange declare", lambda number: channel.exchange_declare(name % number, "topic", durable=True)
    yield "durable declare", lambda number: channel.queue_declare(name % number, durable=True)
    yield "bind", lambda number: channel.queue_bind(name % number, name % number, "k")
    yield "unbind", lambda number: channel.queue_unbind(name % number, name % number, "k")
    yield "queue delete", lambda number: channel.queue_delete(name % number)
    yield "exchange delete", lambda number: channel.exchange_delete(name % number)
    channel.queue_declare(NAME, durable=True)
    persistent = pika.BasicProperties(delivery_mode=2)
    confirming, committing = connection.channel(), connection.channel()
    confirming.confirm_delivery()
    yield "publish + confirm", lambda _number: confirming.basic_publish("", NAME, b"x", persistent)
    committing.tx_select()

    def commit(_number: int) -> None:
        committing.basic_publish("", NAME, b"x", persistent)
        committing.tx_commit()

    yield "tx publish + commit", commit
