"""The house rules that a machine can hold: layers, sizes, names, words."""

from __future__ import annotations

import ast
import gc
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.project import ROOT

PACKAGES = (
    "leveret",
    "pytest_leveret",
    "broker",
    "storage",
    "migrations",
    "pipeline",
    "leveret_spark",
    "leveret_events",
)
TREES = (*PACKAGES, "tools", "harness", "tests", "bench")
"""All folders with Python."""
GENERATED = {"broker/wire/methods.py", "broker/wire/constants.py"}

FUNCTION_LINES_MAX = 60
CLASS_METHODS_MAX = 20
FOLDER_MODULES_MAX = 16

GIVEN_NAMES = {"__init__", "__main__", "conftest", "sitecustomize"}
"""Files that Python or pytest looks for by name, wherever they are."""

BANNED_NAMES = re.compile("utils?|helpers?|managers?|misc|common|base|service|tools")

# Libraries that belong to one place: whoever reads this knows where to look for a bug of that kind.
HOMES = {
    "trio": (
        "broker.server",
        "broker.testing",
        "broker.management",
        "broker.admin",
        "broker.client",
        "broker.shovel",
        "broker.migration",
        "broker.settled_future",
        "broker.__main__",
    ),
    "asyncio": ("storage.definitions.definition_store", "storage.ship.targets"),
    "asyncssh": ("storage.ship.targets.sftp_target",),
    "obstore": ("storage.ship.targets.s3_target",),
    "aiosqlite": ("storage.definitions.definition_store",),
    "sqlite3": ("storage", "migrations.apply"),
    "lmdb": ("storage",),
    "click": ("broker.cli", "broker.rabbitmq"),
    "h11": ("broker.server.http",),
    "starlette": ("broker.management",),
    "prometheus_client": ("broker.management.prometheus",),
    "pika": ("leveret_spark",),
    "pyarrow": ("leveret_spark", "pipeline"),
    "pyspark": ("leveret_spark", "pipeline"),
    "jinja2": ("pipeline.report.page",),
    "matplotlib": ("pipeline.report.charts",),
}


class Function(NamedTuple):
    """A function or method, where it stands and how long it is."""

    place: str
    lines: int


@cache
def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def sources(*packages: str) -> tuple[Path, ...]:
    return tuple(sorted(path for package in packages for path in (ROOT / package).rglob("*.py")))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Everything in a file, from the outside inwards."""
    return tuple(ast.walk(parsed(path)))


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    """Millions of nodes are nothing that later tests should have in memory, and the garbage collector go through."""
    gc.disable()
    yield
    gc.enable()
    for remembered in (parsed, nodes, imports, sources, name_of):
        remembered.cache_clear()


def within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def dotted(expression: ast.expr) -> str:
    """`name` or `name.attribute`; nothing for whatever else is written."""
    if isinstance(expression, ast.Attribute) and isinstance(expression.value, ast.Name):
        return f"{expression.value.id}.{expression.attr}"
    return expression.id if isinstance(expression, ast.Name) else ""


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Modules that a file imports anywhere; `from broker import __version__` counts as `broker`."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{shown(path)}: imports are absolute"
            module = node.module or ""
            for alias in node.names:
                file = ROOT.joinpath(*module.split("."), alias.name)
                yield f"{module}.{alias.name}" if file.is_dir() or file.with_suffix(".py").exists() else module


KNOT_FILES_MAX = 4


@pytest.mark.parametrize("package", PACKAGES)
def test_few_files_know_each_other(package: str) -> None:
    """Files that lead back to themselves can only be read together, also where they lead by annotations alone."""
    files = {name_of(path): path for path in sources(*PACKAGES) if within(name_of(path), (package,))}
    known = {name: {other for other in imports(path) if other in files} for name, path in files.items()}
    reached = {name: _reached(name, known) for name in files}
    knots = {name: sorted(other for other in reached[name] if name in reached[other]) for name in files}
    assert [knot for knot in knots.values() if len(knot) > KNOT_FILES_MAX] == []


def _reached(start: str, known: dict[str, set[str]]) -> set[str]:
    """The files that one leads to, over others, too."""
    found, waiting = set[str](), [start]
    while waiting:
        further = known[waiting.pop()] - found
        found |= further
        waiting += further
    return found


def functions(*packages: str) -> Iterator[Function]:
    for path in sources(*packages):
        if shown(path) in GENERATED:
            continue
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                yield Function(f"{shown(path)}:{node.name}", node.end_lineno - node.lineno + 1)


@pytest.mark.parametrize("library", HOMES)
def test_a_library_has_one_home(library: str) -> None:
    users = {name_of(path) for path in sources(*PACKAGES) if any(within(name, (library,)) for name in imports(path))}
    assert {user for user in users if not within(user, HOMES[library])} == set()


def test_only_the_server_may_await() -> None:
    """Bytes in, bytes out: what is synchronous can be tested and read without an event loop."""
    awaiting = {
        shown(path)
        for path in sources("broker")
        for node in nodes(path)
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
    }
    names = ("server", "testing", "management", "admin", "client", "shovel", "migration")
    homes = (*(f"broker/{name}/" for name in names), "broker/settled_future.py")
    assert {place for place in awaiting if not place.startswith(homes)} == set()


def test_no_function_outgrows_the_screen() -> None:
    long = [function.place for function in functions(*TREES) if function.lines > FUNCTION_LINES_MAX]
    assert long == []


def test_most_functions_are_short() -> None:
    assert statistics.median(function.lines for function in functions(*PACKAGES)) < 10


def methods(node: ast.ClassDef) -> list[str]:
    """Verbs of a class: properties are its nouns, and what begins with __ belongs to the language."""
    found = [item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
    verbs = [item.name for item in found if "property" not in map(dotted, item.decorator_list)]
    return [name for name in verbs if not name.startswith("__")]


def test_no_class_knows_everything() -> None:
    classes = {
        f"{shown(path)}:{node.name}": len(methods(node))
        for path in sources(*PACKAGES)
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
    }
    assert {place: count for place, count in classes.items() if count > CLASS_METHODS_MAX} == {}


def test_files_are_named_after_what_they_know() -> None:
    assert [shown(path) for path in sources(*TREES) if BANNED_NAMES.fullmatch(path.stem)] == []


def test_no_folder_outgrows_a_glance() -> None:
    modules = Counter(path.parent for path in sources(*TREES) if path.stem != "__init__")
    assert {shown(folder): count for folder, count in modules.items() if count > FOLDER_MODULES_MAX} == {}


def test_a_name_means_one_file() -> None:
    stems = Counter(path.stem for path in sources(*TREES) if path.stem not in GIVEN_NAMES)
    assert [shown(path) for path in sources(*TREES) if stems[path.stem] > 1] == []


DOCSTRING = re.compile(r'(#.*\n)*r?"""\s*[^\s"]')
"""Beginning of a module with a docstring: perhaps with a comment or two."""


def test_every_module_says_what_it_is_for() -> None:
    texts = {shown(path): path.read_text(encoding="utf-8") for path in sources(*TREES)}
    bare = {place for place, text in texts.items() if not DOCSTRING.match(text)}
    assert {place for place in bare if not place.endswith("/__init__.py") or texts[place].strip()} == set()


def test_every_public_class_and_function_of_a_package_is_described() -> None:
    """Methods of the protocol are described by the specification, names that begin with _ by their callers."""
    bare = []
    for path in sources(*PACKAGES):
        if shown(path) in GENERATED:
            continue
        for node in parsed(path).body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if not node.name.startswith("_") and not ast.get_docstring(node):
                bare.append(f"{shown(path)}:{node.name}")
    assert bare == []


TEXTS = ("*.py", "*.md", "*.toml", "*.sql", "*.c", "*.js", "Makefile", "Dockerfile")
WORDS = {
    "unfinished": re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"),
    "a path of somebody's machine": re.compile(r"/home/\w|/root/"),
}


@pytest.mark.parametrize("meaning", WORDS)
def test_no_file_says_what_it_should_not(meaning: str) -> None:
    roots = [ROOT / name for name in (*TREES, "docs", "spec")]
    files = {path for root in roots if root.is_dir() for pattern in TEXTS for path in root.rglob(pattern)}
    files |= {path for pattern in TEXTS for path in ROOT.glob(pattern)}
    files.discard(Path(__file__))
    told = [path for path in sorted(files) if "node_modules" not in path.parts]
    assert [shown(path) for path in told if WORDS[meaning].search(path.read_text(encoding="utf-8"))] == []


def test_tests_replace_no_object_of_ours_by_a_mock() -> None:
    named = [path for path in sources("tests") if "mock" in path.read_text(encoding="utf-8")]
    mocking = {shown(path) for path in named for name in imports(path) if within(name, ("unittest.mock",))}
    assert mocking == set()


SLEEPS = ("time.sleep", "sleep", "trio.sleep", "asyncio.sleep")
SLOW_DISKS = {ROOT / "tests/planted/settlement_mistakes.py"}
"""Modules that sleep to play a slow disk in a process under test."""


def test_no_test_just_sleeps() -> None:
    """A test waits for what it wants to see; `sleep` stands only in loops that look again."""
    sleeping = set()
    named = {path for path in sources("tests") if "sleep" in path.read_text(encoding="utf-8")}
    for path in named - SLOW_DISKS:
        sleeps = [node for node in nodes(path) if isinstance(node, ast.Call) and dotted(node.func) in SLEEPS]
        loops = [node for node in nodes(path) if sleeps and isinstance(node, ast.While | ast.For)]
        looped = {id(inner) for loop in loops for inner in ast.walk(loop)}
        sleeping |= {f"{shown(path)}:{node.lineno}" for node in sleeps if id(node) not in looped}
    assert sleeping == set()


ATTRIBUTE_SETTERS = ("setattr", "delattr", "vars", "object.__setattr__", "object.__delattr__")


def test_no_method_is_replaced_at_run_time() -> None:
    """A class's source is what runs: mypy refuses to have methods assigned, and nothing gets round it."""
    ours = [path for path in sources("broker", "storage") if shown(path) not in GENERATED]
    assert [shown(path) for path in ours if _sets_attributes_by_name(path)] == []


def _sets_attributes_by_name(path: Path) -> bool:
    calls = (node.func for node in nodes(path) if isinstance(node, ast.Call))
    named = any(dotted(called) in ATTRIBUTE_SETTERS for called in calls)
    text = path.read_text(encoding="utf-8")
    # The command line's decorators give a function the options of another in its __dict__, as click does.
    by_dict = ".__dict__" in text and not shown(path).startswith("broker/cli/")
    return named or by_dict or "method-assign" in text
