"""The report of a rehearsal as one HTML page without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from leveret.testing.rehearsal.rehearsal_runs import Json
from leveret.testing.rehearsal.report_text import counts, ending, error, place, shown_command
from leveret.testing.rehearsal.run_comparison import VERDICTS, Comparison

_STYLE = """body{font:15px/1.45 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b}
table{border-collapse:collapse;margin:.5rem 0 1.5rem;width:100%}td,th{border:1px solid #ccc;padding:.35rem .6rem;
text-align:left;vertical-align:top;overflow-wrap:anywhere}th{background:#f3f3f3}.refused{color:#a40000;font-weight:600}
.changed{color:#8a5a00;font-weight:600}.deprecated{color:#555}small{color:#555}"""


def page(comparison: Comparison) -> str:
    """Return the page."""
    title = escape(f"Rehearsal with {', '.join(comparison.series)}: {VERDICTS[comparison.code]}")
    command = f"<p><code>{escape(shown_command(comparison))}</code></p>" if comparison.command else ""
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    return f"{head}<h1>{title}</h1>{command}{''.join(_parts(comparison))}</html>\n"


def _parts(comparison: Comparison) -> Iterator[str]:
    names = [run.personality for run in comparison.runs]
    yield _table(
        "Runs", ("personality", "end"), ([escape(run.personality), escape(ending(run))] for run in comparison.runs)
    )
    tests = ([escape(each["test"]), *(escape(each["results"][name]) for name in names)] for each in comparison.tests)
    yield _table("Tests with another result", ("test", *names), tests)
    columns = ("object", "rule", "difference and remedy", "times")
    yield _table("Findings", columns, map(_finding, comparison.findings))
    refusals = ([escape(each["connection"]), escape(error(each)), escape(counts(each))] for each in comparison.refusals)
    yield _table("Errors from the broker, not in all runs", ("connection", "error", "times"), refusals)
    messages = (
        [escape(each["name"]), escape(each["vhost"]), escape(each["end"]), escape(counts(each))]
        for each in comparison.messages
    )
    yield _table("Ends of messages, not in all runs", ("queue", "virtual host", "end", "messages"), messages)


def _finding(finding: Json) -> list[str]:
    detail = f" <small>({escape(finding['detail'])})</small>" if finding["detail"] else ""
    level = f'<span class="{finding["level"]}">{finding["level"]} since {escape(finding["since"])}</span>'
    seen = f"<br><small>seen with {escape(', '.join(finding['seen_with']))}</small>" if finding.get("seen_with") else ""
    words = f"{escape(finding['text'])}{detail}<br>Remedy: {escape(finding['remedy'])}"
    return [escape(place(finding)), f"{escape(finding['rule'])}<br>{level}", words, f"{finding['count']}{seen}"]


def _table(title: str, columns: Sequence[str], rows: Iterable[list[str]]) -> str:
    """Return a titled table; nothing without rows. Cells are HTML."""
    found = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    if not found:
        return ""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{row}</tr>" for row in found)
    return f"<h2>{escape(title)}</h2><table><tr>{head}</tr>{body}</table>"
