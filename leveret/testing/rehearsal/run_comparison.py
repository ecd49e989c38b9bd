"""The differences between runs with several personalities; the first one is the run to compare with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from leveret.testing.rehearsal.rehearsal_runs import Json, Run

SAME, FAILED, DIFFERENT = 0, 1, 3
"""Exit codes: nothing differs; the command failed with the first personality already; something differs."""
VERDICTS = {SAME: "nothing differs", FAILED: "the first run failed", DIFFERENT: "something differs"}
_LIMITS = ("global-qos", "global-qos-flag")
_KEY = ("rule", "vhost", "kind", "name", "connection")


class Comparison(NamedTuple):
    """The differences between runs. All parts are lists of JSON objects, as the report has them."""

    command: Sequence[str]
    """The command that was run, or the files that were looked at."""
    series: Sequence[str]
    runs: Sequence[Run]
    """None where nothing was run."""
    findings: list[Json]
    """The rules of later series that the application met, each with the personalities whose run has seen it."""
    tests: list[Json]
    """Tests whose result is not the same in all runs."""
    refusals: list[Json]
    """Errors by which the broker closed channels and connections, not in all runs."""
    messages: list[Json]
    """Ends of messages that are not the same in all runs."""

    @property
    def code(self) -> int:
        """The exit code."""
        if any(run.exit_code != 0 or run.problem for run in self.runs[:1]):
            return FAILED
        weighty = [finding for finding in self.findings if finding["level"] != "deprecated"]
        ends = len({run.exit_code for run in self.runs}) > 1
        return DIFFERENT if weighty or self.tests or self.refusals or self.messages or ends else SAME

    def shown(self) -> Json:
        """Return the report as JSON."""
        return {
            "command": list(self.command),
            "verdict": VERDICTS[self.code],
            "exit_code": self.code,
            "series": list(self.series),
            "runs": [_shown(run) for run in self.runs],
            "findings": self.findings,
            "tests": self.tests,
            "refusals": self.refusals,
            "messages": self.messages,
        }


def compare(command: Sequence[str], runs: Sequence[Run]) -> Comparison:
    """Compare runs, the first of which is the baseline."""
    parts = _findings(runs), _tests(runs), _refusals(runs), _messages(runs)
    return Comparison(command, [run.personality for run in runs], runs, *map(list, parts))


def findings_alone(files: Sequence[str], series: Sequence[str], findings: list[Json]) -> Comparison:
    """Return the report of files, for which nothing was run."""
    return Comparison(files, series, (), findings, [], [], [])


def _shown(run: Run) -> Json:
    counted = {"personality": run.personality, "exit_code": run.exit_code, "seconds": round(run.seconds, 1)}
    return {**counted, "tests": len(run.tests), "findings_missed": run.missed, "problem": run.problem}


def _findings(runs: Sequence[Run]) -> Iterator[Json]:
    """Yield the findings of all runs, each once. The flag of a limit is not said again where the limit differs."""
    found: dict[tuple[str, ...], Json] = {}
    for run in runs:
        for finding in run.findings:
            there = found.setdefault(tuple(finding[name] for name in _KEY), {**finding, "count": 0, "seen_with": []})
            if run.personality not in there["seen_with"]:
                there["seen_with"].append(run.personality)
            if run.personality == there["seen_with"][0]:
                there["count"] += finding["count"]
    limited = {finding["connection"] for finding in found.values() if finding["rule"] == "global-qos"}
    for finding in found.values():
        if finding["rule"] == "global-qos":
            yield _unless_adapted(finding, runs[-1])
        elif finding["rule"] != "global-qos-flag" or finding["connection"] not in limited:
            yield finding


def _unless_adapted(finding: Json, last: Run) -> Json:
    """Return a limit of a channel, at a lower level if the client does not ask the last series for it: kombu 5.7 looks
    at the version."""
    asked = any(each["connection"] == finding["connection"] for each in last.findings if each["rule"] in _LIMITS)
    if asked or last.exit_code != 0 or last.problem:
        return finding
    adapted = f"{finding['detail']}; the client does not ask {last.personality} for it"
    return {**finding, "level": "deprecated", "detail": adapted}


def _tests(runs: Sequence[Run]) -> Iterator[Json]:
    for name in dict.fromkeys(name for run in runs for name in run.tests):
        results = {run.personality: run.tests.get(name, "not run") for run in runs}
        if len(set(results.values())) > 1:
            yield {"test": name, "results": results}


def _refusals(runs: Sequence[Run]) -> Iterator[Json]:
    """Yield errors that some runs have and others do not."""
    counts: dict[tuple[str, int, str], dict[str, int]] = {}
    for run in runs:
        for closure in run.closures:
            key = closure["connection"], closure["code"], closure["text"]
            of_runs = counts.setdefault(key, {run.personality: 0 for run in runs})
            of_runs[run.personality] += closure["count"]
    for (connection, code, text), of_runs in counts.items():
        if not all(of_runs.values()):
            yield {"connection": connection, "code": code, "text": text, "counts": of_runs}


def _messages(runs: Sequence[Run]) -> Iterator[Json]:
    """Yield ends of messages that some runs have and others do not: their numbers depend on the moment."""
    places = dict.fromkeys(place for run in runs for place in run.messages)
    for vhost, name, end in places:
        counts: dict[str, Any] = {run.personality: run.messages[vhost, name, end] for run in runs}
        if not all(counts.values()):
            yield {"vhost": vhost, "name": name, "end": end, "counts": counts}
