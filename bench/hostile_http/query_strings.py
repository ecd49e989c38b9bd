"""The longest query strings that a request may have, asked of lists of 10,000 queues: the longest turns they take."""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from bench.load import generator
from bench.load.measured_broker import MemoryWatch, Wanted, mib, own_broker, report, target_of
from bench.rows.turns import longest, watched
from harness.brokers.http_broker import basic, web_address
from harness.clients.shorthand import queue_declare
from harness.process_figures import own_memory

QUEUES = 10_000
QUERY_BYTES = 7900
"""Longest query string in a header of 8 KiB."""
PATHS = ("/api/queues", "/api/exchanges", "/api/bindings", "/api/definitions", "/api/overview", "/api/nodes")


def query_strings(wanted: Wanted) -> None:
    """A line for each list and query: status, seconds, longest turn, memory."""
    with tempfile.TemporaryDirectory(prefix="leveret-turns-") as directory:
        turns = Path(directory) / "turns"
        with own_broker(serves_http=True, **watched(turns)) as broker:
            target, where = target_of(broker), web_address(broker)
            client = generator.connect(target)
            for number in range(wanted.sized(QUEUES)):
                client.send(queue_declare(f"bench.queries.{number}", no_wait=True))
            generator.declare(client, "bench.queries.last")
            connection = http.client.HTTPConnection(*where, timeout=120)
            for path in PATHS:
                for name, query in queries().items():
                    longest(target, turns)
                    before, began = own_memory(target.pid), time.monotonic()
                    with MemoryWatch(target.pid, 0.01) as memory:
                        connection.request("GET", f"{path}?{query[:QUERY_BYTES]}", headers=basic())
                        answer = connection.getresponse()
                        size = len(answer.read())
                    seconds = time.monotonic() - began
                    found = longest(target, turns)["longest"]
                    report(
                        f"{path}, {name}",
                        status=answer.status,
                        kib=size >> 10,
                        seconds=round(seconds, 2),
                        longest_turn=json.dumps(found[0]) if found else "",
                        mib_more=round(mib(memory.highest) - mib(before), 1),
                    )
            client.close()


def queries() -> dict[str, str]:
    """Return query strings, by what is hostile of them."""
    inner = ",".join(f"arguments.a{number}" for number in range(1000))
    return {
        "nothing": "",
        "many columns": "columns=" + "a," * (QUERY_BYTES // 2),
        "many columns within columns": "columns=" + inner,
        "the same column within others": "columns=" + "message_stats.publish_details.rate,name," * 200,
        "a deep column": "columns=" + "arguments" + ".a" * (QUERY_BYTES // 2),
        "a deep sort": "sort=" + "arguments" + ".a" * (QUERY_BYTES // 2),
        "a sort by statistics": "sort=message_stats.publish_details.rate&sort_reverse=true",
        "many parameters": "&".join(f"p{number}=1" for number in range(1000)),
        "a long name": "page=1&name=" + "a" * QUERY_BYTES,
        "escapes": "page=1&name=" + quote("é") * (QUERY_BYTES // 6),
        "the last page": "page=20&page_size=500",
        "samples": "lengths_age=500&lengths_incr=1&msg_rates_age=500&msg_rates_incr=1&page=1&page_size=500",
    }
