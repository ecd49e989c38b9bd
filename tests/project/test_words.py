"""Plain English where a reader looks first: docstrings, texts on attributes, comments, names of classes."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from harness.project import ROOT

TREES = (
    *("leveret", "pytest_leveret", "broker", "storage", "migrations", "pipeline", "leveret_spark", "leveret_events"),
    *("tools", "harness", "tests", "bench", "examples"),
)
RELATIVE_CLAUSE = re.compile(r"(What|Of|That|Where|Whether|How|Which|So|Who|Whoever|Whose|When)\b")
"""Beginnings that keep the reader waiting for the noun, the rule or the number."""
WORDS = {
    "a limit is a number": re.compile(r"\bso (many|much|long)\b", re.IGNORECASE),
    "again, median, closed": re.compile(r"\b(anew|half below|sent away)\b", re.IGNORECASE),
    "a letter is a dead letter": re.compile(r"(?<!dead )(?<!dead-)\bletters?\b", re.IGNORECASE),
}
COMMENT_LINE = re.compile("#.*")
CLASS = re.compile(r"^ *class (\w+)\b[:(\[]", re.MULTILINE)


class Text(NamedTuple):
    """A docstring, a text on an attribute, or a comment: its words with one space between."""

    place: str
    words: str
    is_comment: bool = False


def texts_in(source: str) -> Iterator[Text]:
    """Every text of a module; as its place the line."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        for child in statements_in(waiting.pop()):
            match child:
                case ast.Expr(value=ast.Constant(value=str() as text)):
                    yield Text(str(child.lineno), " ".join(text.split()))
                case _:
                    waiting.append(child)
    yield from comments_in(source)


def statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """Statements, cases and handlers right below a node: texts are nowhere else, and expressions are many."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, name, ())
        yield from inner if isinstance(inner, list) else ()


def comments_in(source: str) -> Iterator[Text]:
    """Comments with a word that is not plain; only for these the file is read token by token."""
    if not any(word.search(line) for line in COMMENT_LINE.findall(source) for word in WORDS.values()):
        return
    lines = iter(source.splitlines(keepends=True))
    for token in tokenize.generate_tokens(lambda: next(lines, "")):
        if token.type == tokenize.COMMENT:
            yield Text(str(token.start[0]), token.string, is_comment=True)


@pytest.fixture(scope="module")
def texts() -> list[Text]:
    """Texts of every tree; their places are file and line."""
    found = []
    for path in sorted(path for tree in TREES for path in (ROOT / tree).rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        found += [text._replace(place=f"{place}:{text.place}") for text in texts_in(path.read_text("utf-8"))]
    return found


def begins_late(text: Text) -> bool:
    return not text.is_comment and RELATIVE_CLAUSE.match(text.words) is not None


def test_a_docstring_begins_with_its_subject_or_a_verb(texts: list[Text]) -> None:
    assert [text for text in texts if begins_late(text)] == []


@pytest.mark.parametrize("meaning", WORDS)
def test_texts_use_the_field_s_words(texts: list[Text], meaning: str) -> None:
    assert [text for text in texts if WORDS[meaning].search(text.words)] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('"""What is kept."""', 1),
        ('def f():\n    """Of a queue."""', 1),
        ('a = 1\n"""So many stay."""', 2),
        ("a = 1  # begins anew", 1),
        ('"""A letter waits."""', 1),
        ('"""The dead letter waits, and dead-letters wait. Whatever is left ends."""', 0),
        ('a = "What # so many letters"', 0),
    ],
)
def test_a_text_that_is_not_plain_is_noticed(source: str, found: int) -> None:
    texts = list(texts_in(source))
    said = sum(word.search(text.words) is not None for text in texts for word in WORDS.values())
    assert said + sum(map(begins_late, texts)) == found


def test_a_class_name_means_one_class() -> None:
    """An editor and a traceback show the name alone."""
    files = defaultdict[str, set[str]](set)
    for path in (path for tree in ("broker", "storage") for path in (ROOT / tree).rglob("*.py")):
        for name in CLASS.findall(path.read_text(encoding="utf-8")):
            files[name].add(path.relative_to(ROOT).as_posix())
    assert {name: sorted(places) for name, places in files.items() if len(places) > 1} == {}
