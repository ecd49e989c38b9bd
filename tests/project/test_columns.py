"""Each column of what is shown has one definition, whichever of the HTTP API and the command line shows it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from harness.project import ROOT

FOLDERS = ("broker/admin", "broker/management")
OBJECT_OR_NAME = ("consumer", "queue")
"""The queue of a consumer: RabbitMQ's HTTP API shows its name and virtual host, the command line its name."""


class Defined(NamedTuple):
    """A column in a table of columns: the kind of thing, which is what the table's lambdas call it, and its name."""

    kind: str
    column: str


def defined(path: Path) -> Iterator[Defined]:
    """The columns that a file defines itself; a table of columns is a dict with lambdas among its values."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Dict):
            continue
        kinds = {value.args.args[0].arg for value in node.values if isinstance(value, ast.Lambda) and value.args.args}
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and len(kinds) == 1 and not _derived(value, key):
                yield Defined(kinds.copy().pop(), str(key.value))


def _derived(value: ast.expr, column: ast.Constant) -> bool:
    """Return True for what is made of the same column in another table: `shared["leader"]`."""
    subscripts = (node.slice for node in ast.walk(value) if isinstance(node, ast.Subscript))
    return any(isinstance(key, ast.Constant) and key.value == column.value for key in subscripts)


def test_no_column_is_defined_twice() -> None:
    found = Counter(each for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") for each in defined(path))
    assert len(found) > 100, "tables of columns have another form now"
    assert {each: count for each, count in found.items() if count > 1} == {OBJECT_OR_NAME: 2}
