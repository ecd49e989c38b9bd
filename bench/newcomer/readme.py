"""README's commands, taken from its text as a reader copies them."""

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


def _first(texts: Iterable[str], beginning: str) -> str:
    for text in texts:
        if text.startswith(beginning):
            return text
    raise LookupError(f"nothing begins with {beginning!r}")


def _lines(block: str) -> list[str]:
    """Commands without their comments."""
    return [line.partition("#")[0].strip() for line in block.splitlines()]
