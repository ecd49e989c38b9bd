"""Regular expressions of permissions and policies: PCRE2's dialect and texts, and an end in bounded steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.entities.arguments import pcre2_library
from broker.entities.arguments.name_patterns import InvalidPattern, NamePattern, PatternError

SLOW = "^([a-z0-9]+[._-]?)+$"


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("^a.*z$", "abz", True),
        ("", "any", True),
        ("^(?!amq\\.).*", "amq.topic", False),
        ("^(?!amq\\.).*", "mine", True),
        ("(?i)^q[0-9]{2,}$", "Q12", True),
        ("(.)(.)\\2\\1", "abba", True),
        ("^[[:alpha:]]+$", "é", False),
        ("a\x00+b", "a\x00\x00b", True),
        ("^.{2}$", "é", True),
        ("\udcff+", "x\udcff", True),
        (SLOW, "a.b", True),
    ],
)
def test_a_pattern_is_searched_for_as_bytes(pattern: str, name: str, *, found: bool) -> None:
    assert NamePattern(pattern).search(name) is found


def test_a_search_is_given_up_and_the_next_one_is_not() -> None:
    slow = NamePattern(SLOW)
    with pytest.raises(PatternError, match="match limit exceeded"):
        slow.search("a" * 60 + "!")
    assert slow.search("a" * 60)


@pytest.mark.parametrize(
    ("pattern", "reason", "position"),
    [
        ("(a+", "missing closing parenthesis", 3),
        ("[", "missing terminating ] for character class", 1),
        ("a**", "quantifier does not follow a repeatable item", 2),
        ("(*LIMIT_MATCH=9)x+", "limits are the broker's to set", 0),
    ],
)
def test_what_is_no_expression_is_said_with_its_place(pattern: str, reason: str, position: int) -> None:
    with pytest.raises(InvalidPattern) as caught:
        NamePattern(pattern)
    assert (caught.value.reason, caught.value.position) == (reason, position)


@pytest.fixture
def _none_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A system without PCRE2."""
    monkeypatch.setattr(pcre2_library, "LIBRARY", "libpcre2-8.so.none")
    pcre2_library.engine.cache_clear()
    yield
    pcre2_library.engine.cache_clear()


@pytest.mark.usefixtures("_none_installed")
def test_without_the_library_what_needs_it_is_refused_with_its_packages() -> None:
    assert NamePattern("^orders.*").search("orders.new")
    with pytest.raises(InvalidPattern, match=r"is not installed \(Debian: libpcre2-8-0; Alpine, Fedora, Arch: pcre2\)"):
        NamePattern("[a-z]+")
