"""Commands and tests of README, and of pages, taken from their text as a reader copies them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")


class Readme(NamedTuple):
    """README's commands, the output that it shows, and its two programs."""

    run: str
    ready: str
    install: str
    serve: str
    program: str
    """The command's name in a checkout."""
    first_message: list[str]
    first_output: str
    install_pika: str
    with_pika: str
    install_celery: str
    with_celery: str
    worker: str
    ask_worker: str


def read(page: Path) -> Readme:
    """Find all of it by its beginnings. Raises LookupError, which names what is not there."""
    text = page.read_text(encoding="utf-8")
    blocks, codes = BLOCK.findall(text), CODE.findall(BLOCK.sub("", text))
    return Readme(
        run=_lines(_first(blocks, "make run"))[0],
        ready=_first(blocks, "leveret ready:"),
        install=_first(codes, "pip install ."),
        serve=_first(codes, "leveret serve"),
        program=_first(codes, ".venv/bin/leveret"),
        first_message=_lines(_first(blocks, "leveret publish")),
        first_output=_first(blocks, "1 message"),
        install_pika=_first(codes, "pip install pika"),
        with_pika=_first(blocks, "import pika\n\nconnection"),
        install_celery=_first(codes, "pip install celery"),
        with_celery=_first(blocks, "from celery"),
        worker=_first(codes, "celery --app"),
        ask_worker=_first(codes, "python -c"),
    )


def green_lines(page: Path) -> dict[str, str]:
    """Return the lines to a green test by language: paragraphs of one block, each with a comment that names it."""
    (block,) = (block for block in _blocks(page) if block.startswith("# Python"))
    paragraphs = block.strip().split("\n\n")
    return {re.split(r"\W+", paragraph)[1]: f"{paragraph}\n" for paragraph in paragraphs}


def test_of(page: Path, text: str) -> str:
    """Return the first block of a page that has a text."""
    return next(block for block in _blocks(page) if text in block)


def _blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def _first(texts: Iterable[str], beginning: str) -> str:
    for text in texts:
        if text.startswith(beginning):
            return text
    raise LookupError(f"nothing begins with {beginning!r}")


def _lines(block: str) -> list[str]:
    """Commands without their comments."""
    return [line.partition("#")[0].strip() for line in block.splitlines()]
