"""Regular expressions of permissions and policies: PCRE2's dialect and texts, and an end in bounded steps."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from broker.entities.arguments import pcre2_library
from broker.entities.arguments.name_patterns import PATTERN_BYTES_MAX, InvalidPattern, NamePattern, PatternError
from broker.entities.arguments.policy_matching import SHORT_STEPS

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


LONG = "a" * 250 + "!xbz"
"""A name that no pattern is found in which wants nothing but many `a` before its end."""


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)\1+$",
        "(a|aa)+$",
        "(a|aa)+z",
        "(.*)*x$",
        "((a{0,5}){0,5}){0,5}b",
        "(a{1,60}){1,60}z",
        "(a|aa)" * 30 + "b",
        "(?:a|aa)" * 30 + "b$",
        "(((a{1,1000}){1,1000}))z",
        "(a|aa)+" + "(?:b*+c*+){1000}" + "z",
        "()" * 1000 + "(a|aa)+z",
        "(?x)(a|aa)+z # and what stands here is no pattern",
        r"(a|aa)+z\Q",
        "(*COMMIT)(a|aa)+z",
        "(?:(a|aa)+|(?R))z",
    ],
)
def test_a_search_is_given_up_whatever_its_steps_are_spent_on(pattern: str) -> None:
    """On one place of a name, or on all of them; on ways, on choices in a row, on copies of a group, on groups."""
    with pytest.raises(PatternError, match=r"(match|heap) limit exceeded"):
        NamePattern(pattern).search(LONG)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^amq\.",
        r"^(?!amq\.).*",
        r"^[a-z]+\.[a-z]+$",
        r"[a-z.-]+-dlq$",
        r".*\.dlq$",
        r"^orders\..*\.(eu|us)\.[0-9]+$",
        SLOW,
        r"(?i)^team-(a|b|c)-.+-(retry|dead)$",
        "^(?=.*eu)(?=.*orders).*$",
        "(foo|bar|qux).*[0-9]+$",
        r"(retry|dead|dlq)[.-]?\d*s?",
        "^(?:" + "|".join(rf"queue{number}[0-9]*\.x" for number in range(20)) + ")$",
        "^(" + "|".join(f"queue-{number}" for number in range(600)) + ")$",
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        "orders.new.eu.17",
        "team-a.orders.created-dlq",
        "celery@worker-12.example.org.celery.pidbox",
        "amq.gen-JzTY20BRgKO-HjmUJj0wLg",
        "prod.eu-west-1.payments.invoice-created.v2.retry.30s.dlq",
        "a" * 255,
        "x." * 127,
    ],
)
def test_what_people_write_takes_few_steps(pattern: str, name: str) -> None:
    NamePattern(pattern).search(name, SHORT_STEPS)


WORDS = ("a", "b", ".", "[ab]", "[^a]", r"\b", "^", "$", "(?i)", "(?=b)", "(?<=a)", "(?!a)", r"\.", " ")
PATTERNS = st.recursive(
    st.sampled_from(WORDS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        inner.map("({})".format),
        inner.map("(?:{})".format),
        inner.map(r"({})\1".format),
        st.tuples(inner, st.sampled_from(("*", "+", "?", "{1,2}", "*?", "+?"))).map(
            lambda both: "(?:{}){}".format(*both)
        ),
    ),
    max_leaves=6,
)


@given(PATTERNS, st.text("abA.\n ", max_size=6))
def test_a_pattern_is_found_where_another_engine_finds_it(pattern: str, name: str) -> None:
    """The pattern itself passes over everything before the match, which changes nothing of what it says."""
    assume("(?i)" not in pattern[1:] and r"\1" not in pattern.replace(r"\1", "", 1))
    try:
        expected = re.compile(pattern.encode()).search(name.encode()) is not None
    except re.error:
        return
    assume(not pattern.count(r"\1") or pattern.count("(") - pattern.count("(?") == 1)
    assert NamePattern(pattern).search(name) is expected


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("b(*COMMIT)c|a", "bda", False),
        ("a(?R)?b", "xaabb", True),
        ("(?x)b # )", "ab", True),
        (r"b\Q)", "ab)", True),
        ("(*UTF)^..$", "éa", True),
        ("a|^b", "ab", True),
        (r"(?|(a)|(b))\1$", "abb", True),
        (r"\Gb", "ab", False),
        (r"(?<=a)b\K", "ab", True),
    ],
)
def test_what_begins_at_every_place_by_itself(pattern: str, name: str, *, found: bool) -> None:
    assert NamePattern(pattern).search(name) is found


@pytest.mark.parametrize(
    "pattern",
    [
        "a" * (PATTERN_BYTES_MAX + 1),
        "é" * (PATTERN_BYTES_MAX // 2) + "a",
        "(?:(?:ab){1,1000}){1,1000}",
        "(?:()|b){200}" * 50,
    ],
    ids=["bytes", "more bytes than characters", "copies", "many copies"],
)
def test_what_is_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern, match="regular expression is too large"):
        NamePattern(pattern)
    assert NamePattern("a" * PATTERN_BYTES_MAX).search("a") is False


@pytest.mark.parametrize(
    ("pattern", "reason", "positions"),
    [
        ("(a+", "missing closing parenthesis", {3}),
        ("[", "missing terminating ] for character class", {1}),
        ("a**", "quantifier does not follow a repeatable item", {2, 3}),  # PCRE2 10.42, and 10.48
        ("(*LIMIT_MATCH=9)x+", "limits are the broker's to set", {0}),
    ],
)
def test_what_is_no_expression_is_said_with_its_place(pattern: str, reason: str, positions: set[int]) -> None:
    with pytest.raises(InvalidPattern) as caught:
        NamePattern(pattern)
    assert caught.value.reason == reason
    assert caught.value.position in positions


@pytest.fixture
def _none_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A system without PCRE2."""
    monkeypatch.setattr(pcre2_library, "NAMES", ("libpcre2-8.so.none",))
    pcre2_library.pcre2.cache_clear()
    yield
    pcre2_library.pcre2.cache_clear()


@pytest.mark.usefixtures("_none_installed")
def test_without_the_library_what_needs_it_is_refused_with_its_packages() -> None:
    assert NamePattern("^orders.*").search("orders.new")
    with pytest.raises(
        InvalidPattern, match=r"is not installed \(Debian: libpcre2-8-0; Alpine, Fedora, Arch, Homebrew: pcre2\)"
    ):
        NamePattern("[a-z]+")
