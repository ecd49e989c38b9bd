"""The watch of the rehearsal: counts what a later series of RabbitMQ would do differently for the applications.

The places of a difference ask the watch, where there is one. None of them is passed by a usual publish, delivery or
acknowledgement: they are declarations, subscriptions, returned messages, and publishes that the general path handles.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from broker.entities.arguments.personality import Personality
from broker.entities.rehearsal.rehearsal_rules import RULES, Rule
from broker.wire.amqp_errors import AmqpError

log = logging.getLogger("leveret.rehearsal")

FINDINGS_MAX: Final = 1000
"""Findings and closures that are kept, each; later ones are only counted."""
_GENERATED = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32}|(?<=amq\.gen-)[\w-]{22}")
"""Parts of names that are new for each process: UUIDs, and names that the broker generates."""


class Finding:
    """A rule, an object and a client, and how often they met. `first`: milliseconds since the epoch."""

    __slots__ = ("client", "count", "detail", "first", "kind", "name", "rule", "since", "vhost")

    def __init__(self, rule: Rule, since: str, vhost: str, subject: tuple[str, str], client: str, first: int) -> None:
        self.rule = rule
        self.since = since
        self.vhost = vhost
        self.kind, self.name = subject
        self.client = client
        self.first = first
        self.count = 0
        self.detail = ""

    def shown(self) -> dict[str, Any]:
        """Return it as the API shows it."""
        return {
            "rule": self.rule.name,
            "since": self.since,
            "level": self.rule.level,
            "vhost": self.vhost,
            "kind": self.kind,
            "name": self.name,
            "connection": self.client,
            "count": self.count,
            "first": self.first,
            "text": self.rule.text,
            "detail": self.detail,
            "remedy": self.rule.remedy,
            "documentation": self.rule.documentation,
        }


class RehearsalWatch:
    """The findings since the start, between the broker's own series and the `target`.

    `message_bytes_max`: the target's limit on a message; 0 where it is not smaller than the broker's own.
    """

    def __init__(
        self,
        own: Personality,
        later: tuple[Personality, ...],
        now: Callable[[], int],
        message_bytes_max: int = 0,
        tell: Callable[[Finding], None] | None = None,
    ) -> None:
        """`later`: the series above the broker's own one, up to the target; none where they are the same. `tell` is
        called at the first sight of each finding; the default writes it to the log."""
        self.own = own
        self.later = later
        self.target = later[-1] if later else own
        self.message_bytes_max = message_bytes_max
        self._now = now
        self._tell = tell or _log
        self._findings: dict[tuple[str, ...], Finding] = {}
        self._closures: dict[tuple[str, int, str], int] = {}
        self.missed = 0
        """Occurrences beyond the limits."""

    def note(
        self,
        rule: Rule,
        vhost: str,
        subject: tuple[str, str],
        client: str,
        detail: str = "",
        *,
        since: str = "",
        count: int = 1,
    ) -> None:
        """Count an occurrence. `subject`: kind and name, ("queue", "orders"); `client`: the connection's name.

        Logs one line at the first one of each rule, object and client.
        """
        subject = (subject[0], shown_name(subject[1]))
        client = shown_name(client)
        key = (rule.name, vhost, *subject, client)
        finding = self._findings.get(key)
        if finding is None:
            if len(self._findings) >= FINDINGS_MAX:
                self.missed += count
                return
            finding = Finding(rule, since or rule.since, vhost, subject, client, self._now())
            self._findings[key] = finding
            finding.detail = shown_name(detail)
            self._tell(finding)
        finding.count += count

    def refused(self, check: Callable[[Personality], object]) -> tuple[str, str]:
        """Return the first later series whose check raises AmqpError, with its text; empty texts if none does."""
        for personality in self.later:
            try:
                check(personality)
            except AmqpError as error:
                return personality.series_name, error.text
        return "", ""

    def closed(self, client: str, code: int, text: str) -> None:
        """Count a connection or channel that the broker has closed with an error, or a consumer cancelled: code 0."""
        key = (shown_name(client), code, shown_name(text))
        if key not in self._closures and len(self._closures) >= FINDINGS_MAX:
            self.missed += 1
        else:
            self._closures[key] = self._closures.get(key, 0) + 1

    def findings(self) -> list[Finding]:
        """Return the findings, in the order of the rules."""
        order = list(RULES)
        return sorted(self._findings.values(), key=lambda finding: order.index(finding.rule.name))

    def closures(self) -> Iterator[dict[str, Any]]:
        """Yield the closures as the API shows them."""
        for (client, code, text), count in self._closures.items():
            yield {"connection": client, "code": code, "text": text, "count": count}

    def clear(self) -> None:
        """Delete everything that was noted."""
        self._findings.clear()
        self._closures.clear()
        self.missed = 0


def shown_name(name: str) -> str:
    """Return a name with `*` for the parts that are new for each process, so that findings of all are one."""
    return _GENERATED.sub("*", name)


def _log(finding: Finding) -> None:
    detail = f" ({finding.detail})" if finding.detail else ""
    log.warning(
        "rehearsal: %s '%s' of vhost '%s', connection '%s': with %s: %s%s: docs/%s",
        finding.kind,
        finding.name,
        finding.vhost,
        finding.client,
        finding.since,
        finding.rule.text,
        detail,
        finding.rule.documentation,
        extra={"vhost": finding.vhost, "connection": finding.client, "rule": finding.rule.name},
    )
