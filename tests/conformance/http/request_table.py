"""Tables of HTTP requests, and what a RabbitMQ 3.10.8 and a 4.3.6 answered to them.

    PUT queues/v%2F1/q1 {"durable":true} -> 201
    lim: GET queues/v%2F1/none -> 404 {"error":"Object Not Found","reason":"Not Found"}
        4.3 404 {"error":"not_found","reason":"Not Found"}

A request is sent below /api/, as guest or as the user before the colon, whose password is its name. Of the answer are
compared: the status, a header that is named after it (`allow: GET, OPTIONS`), and JSON as a value. A text that ends in
`...` stands for any that begins so; `"...":"..."` in an object allows further keys. Indented lines have other answers:
`4.3` that of 4.3.6 where it differs, `leveret` and `leveret 4.3` those of Leveret where they differ on purpose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from harness.brokers.http_broker import Reply

ANY = "..."
REQUEST = re.compile(r"(?:(?P<user>\w*): )?(?P<method>[A-Z]+) (?P<path>\S+)(?: (?P<body>.+))?")
ANSWER = re.compile(
    r"(?P<status>\d{3})(?: (?P<header>[a-z-]+): (?P<value>.+?)(?= [\[{\"]|$))?(?: (?P<body>[\[{\"].*))?"
)


class Answer(NamedTuple):
    """The expected answer; `header` and `body` are compared where a table gives them."""

    status: int
    header: str | None
    value: str | None
    body: Any

    def differs(self, reply: Reply) -> bool:
        """A reply is another one."""
        if reply.status != self.status or (self.header and reply.headers.get(self.header) != self.value):
            return True
        if self.body is None:
            return self.status not in (200, 405) and reply.body != b""
        return not reply.body or not alike(self.body, json.loads(reply.body))


BASE, LEVERET = "3.10", "leveret"
OTHERS = re.compile(r"    (leveret 4\.3|leveret|4\.3) (.+)")


class Request(NamedTuple):
    """A request, and the answers to it: that of 3.10, and those that differ by the word before them."""

    line: int
    user: str
    method: str
    path: str
    body: bytes | None
    answers: dict[str, Answer]

    def answer(self, series: str, *, reference: bool) -> Answer:
        """Return the answer of RabbitMQ or of Leveret, as a series."""
        own = [] if series == BASE else [series]
        names = own if reference else [f"{LEVERET} {series}", *own, LEVERET]
        return next((self.answers[name] for name in names if name in self.answers), self.answers[BASE])


Send = Callable[[Request], Reply]


def sections(table: str) -> dict[str, list[Request]]:
    """The requests of a table by the titles above them, `== title`."""
    found: dict[str, list[Request]] = {}
    for number, line in enumerate(table.splitlines(), 1):
        other = OTHERS.fullmatch(line)
        if line.startswith("== "):
            title = line[3:]
            found[title] = []
        elif other:
            found[title][-1].answers[other[1]] = _answer(other[2])
        elif line and not line.startswith("#"):
            asked, _, answered = line.partition(" -> ")
            found[title].append(_request(number, asked, answered))
    return found


def _request(number: int, line: str, answered: str) -> Request:
    asked = REQUEST.fullmatch(line)
    assert asked, f"line {number} is no request: {line}"
    body = None if asked["body"] is None else asked["body"].encode()
    user = "guest" if asked["user"] is None else asked["user"]
    return Request(number, user, asked["method"], asked["path"], body, {BASE: _answer(answered)})


def _answer(text: str) -> Answer:
    found = ANSWER.fullmatch(text)
    assert found, f"no answer: {text}"
    body = None if found["body"] is None else json.loads(found["body"])
    return Answer(int(found["status"]), found["header"], found["value"], body)


def alike(expected: Any, found: Any) -> bool:
    """A value is the one that was expected, or one of those."""
    if isinstance(expected, str) and expected.endswith(ANY):
        return expected == ANY or (isinstance(found, str) and found.startswith(expected.removesuffix(ANY)))
    if isinstance(expected, dict) and isinstance(found, dict):
        if ANY not in expected and expected.keys() != found.keys():
            return False
        return all(key in found and alike(value, found[key]) for key, value in expected.items() if key != ANY)
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(alike, expected, found))
    return bool(expected == found) and isinstance(expected, bool) == isinstance(found, bool)


def differences(requests: list[Request], send: Send, series: str, *, reference: bool) -> list[str]:
    """Return differences between answers and the table."""
    found = []
    for request in requests:
        reply = send(request)
        if request.answer(series, reference=reference).differs(reply):
            body = reply.body.decode(errors="replace")
            found.append(f"line {request.line}: {request.method} {request.path}: {reply.status} {body}")
    return found
