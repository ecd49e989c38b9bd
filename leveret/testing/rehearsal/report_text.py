"""The report of a rehearsal as text: one page of plain findings."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from textwrap import fill, shorten

from leveret.testing.rehearsal.rehearsal_runs import Json, Run
from leveret.testing.rehearsal.run_comparison import VERDICTS, Comparison

WIDTH = 118


def text(comparison: Comparison) -> str:
    """Return the report."""
    return "\n".join(lines(comparison)) + "\n"


def lines(comparison: Comparison) -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"Rehearsal with {', '.join(comparison.series)}: {VERDICTS[comparison.code]}"
    if comparison.command:
        yield f"  {shown_command(comparison)}"
    for run in comparison.runs:
        yield f"  {run.personality:6} {ending(run)}"
    yield from _part("Tests with another result", (_test(each) for each in comparison.tests))
    yield from _part("Findings", finding_lines(comparison.findings))
    yield from _part("Errors from the broker, not in all runs", (_refusal(each) for each in comparison.refusals))
    yield from _part("Ends of messages, not in all runs", (_message(each) for each in comparison.messages))


def shown_command(comparison: Comparison) -> str:
    """Return the command on one line."""
    return shorten(shlex.join(comparison.command), WIDTH)


def ending(run: Run) -> str:
    """Return how a run ended."""
    end = "did not end in time" if run.exit_code is None else f"exit code {run.exit_code}"
    tests = f", {len(run.tests)} tests" if run.tests else ""
    problem = f"; its broker was gone: {run.problem}" if run.problem else ""
    return f"{end}, {run.seconds:.1f} s{tests}{problem}"


def finding_lines(findings: Iterable[Json]) -> Iterator[str]:
    """Yield the lines of findings: where and how often, the rule, the remedy."""
    for finding in findings:
        times = f"{finding['count']} time{'s' if finding['count'] > 1 else ''}"
        seen = f", seen with {', '.join(finding['seen_with'])}" if finding.get("seen_with") else ""
        yield f"  {place(finding)}: {finding['rule']}, {finding['level']} since {finding['since']}, {times}{seen}"
        detail = f" ({finding['detail']})" if finding["detail"] else ""
        yield _indented(f"{finding['text']}{detail}")
        yield _indented(f"remedy: {finding['remedy']}")
        yield f"      docs/{finding['documentation']}"


def place(finding: Json) -> str:
    """Return the object of a finding, and its client."""
    vhost = f" of vhost '{finding['vhost']}'" if finding["vhost"] else ""
    client = f", connection '{finding['connection']}'" if finding["connection"] else ""
    return f"{finding['kind']} '{finding['name']}'{vhost}{client}"


def counts(found: Json) -> str:
    """Return the number of each run."""
    return ", ".join(f"{number} with {personality}" for personality, number in found["counts"].items())


def error(refusal: Json) -> str:
    """Return an error of the broker on one line; a cancelled consumer has no code."""
    return " ".join(f"{refusal['code'] or ''} {refusal['text']}".split())


def _part(title: str, body: Iterable[str]) -> Iterator[str]:
    found = list(body)
    if found:
        yield ""
        yield title
        yield from found


def _test(test: Json) -> str:
    return f"  {test['test']}: {', '.join(f'{said} with {name}' for name, said in test['results'].items())}"


def _refusal(refusal: Json) -> str:
    return f"  connection '{refusal['connection']}': {counts(refusal)}\n" + _indented(error(refusal))


def _message(message: Json) -> str:
    return f"  '{message['name']}' of vhost '{message['vhost']}': {message['end']}: {counts(message)}"


def _indented(said: str) -> str:
    return fill(said, WIDTH, initial_indent="      ", subsequent_indent="      ", break_long_words=False)
