"""Routes of a message, by the words of the documents: https://www.rabbitmq.com/tutorials/amqp-concepts."""

from __future__ import annotations

from collections.abc import Sequence

FANOUT, DELAYED, TOPIC, HEADERS = "fan", "delayed", "topics", "heads"
TOPIC_PATTERNS = ("#", "*", "a.#", "*.b", "#.c.#", "a.*.c", "b")
TOPIC_KEYS = ("", "a", "b", "c", "a.b", "b.b", "a.c", "a.b.c", "b.c.a")
MATCHES: dict[str, dict[str, object]] = {
    "both": {"x-match": "all", "a": 1, "b": 2},
    "either": {"x-match": "any", "a": 1, "b": 3},
    "anything": {"x-match": "all"},
}
"""Arguments of bindings to the headers exchange, by the bindings' keys."""
HEADERS_OF: dict[str, dict[str, int]] = {"none": {}, "a": {"a": 1}, "ab": {"a": 1, "b": 2}, "b": {"b": 3}}
"""Headers of messages to the headers exchange, by their keys."""
BINDING_KEYS = {FANOUT: ("",), TOPIC: TOPIC_PATTERNS, HEADERS: tuple(MATCHES)}


def matches(exchange: str, binding_key: str, key: str) -> bool:
    """A message of this key goes where this binding leads."""
    if exchange == TOPIC:
        return _topic(_words(binding_key), _words(key))
    if exchange == HEADERS:
        wanted = {name: value for name, value in MATCHES[binding_key].items() if name != "x-match"}
        found = [HEADERS_OF[key].get(name) == value for name, value in wanted.items()]
        return all(found) if MATCHES[binding_key]["x-match"] == "all" else any(found)
    return True


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


def _topic(pattern: Sequence[str], words: Sequence[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_topic(pattern[1:], words[skipped:]) for skipped in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _topic(pattern[1:], words[1:])
