"""The forms of a report: text, JSON and HTML."""

from __future__ import annotations

import json
from pathlib import Path

from leveret.testing.rehearsal import report_html, report_text
from leveret.testing.rehearsal.run_comparison import Comparison


def form_of(file: Path) -> str:
    """Return the form of a file by its name: `.json`, `.html`, otherwise text."""
    return {".json": "json", ".html": "html"}.get(file.suffix, "text")


def report(comparison: Comparison, form: str) -> str:
    """Return the report in a form: `text`, `json` or `html`."""
    if form == "json":
        return json.dumps(comparison.shown(), indent=2, ensure_ascii=False) + "\n"
    return report_html.page(comparison) if form == "html" else report_text.text(comparison)
