"""The validation of policies, as in the RabbitMQ of a personality.

The texts are its own. PCRE2, the successor of RabbitMQ's engine, reports faults of regular expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from broker.admin.json_terms import binary_pairs, binary_term
from broker.admin.protocol import ValidationFailed
from broker.entities.arguments.name_patterns import InvalidPattern, NamePattern
from broker.entities.arguments.personality import Personality
from broker.entities.arguments.policies import APPLY_TO, Policy
from broker.entities.arguments.stream_arguments import SEGMENT_BYTES_MAX
from broker.entities.rehearsal.rehearsal_rules import POLICY
from broker.entities.rehearsal.rehearsal_watch import RehearsalWatch

Check = Callable[[Any], bool]

_AGE = re.compile(r"0*[1-9][0-9]*[YMDhms]")


def checked(
    name: str,
    pattern: object,
    apply_to: str,
    definition: Mapping[str, Any],
    priority: Any,
    personality: Personality,
    *,
    operator: bool,
) -> Policy:
    """Return the policy of these parts. Raises ValidationFailed with all their problems."""
    problems = []
    problem = _problem_of_definition(definition, personality, operator=operator)
    if problem:
        problems.append(problem)
    if apply_to not in APPLY_TO:
        words = _WORDS_OF_4 if personality.policy_rules.words_of_4 else _listed(APPLY_TO)
        problems.append(f"apply-to '{apply_to}' unrecognised; should be {words}")
    if not isinstance(pattern, str):
        problems.append(f"pattern should be a binary but was {binary_term(pattern)}")
    try:
        read = NamePattern(pattern if isinstance(pattern, str) else "")
    except InvalidPattern as error:
        why = f'{{"{error.reason}",{error.position}}}'
        problems.append(f"pattern should be regular expression but is invalid: {why}")
    if not isinstance(priority, int) or isinstance(priority, bool) or abs(priority) >= 1 << 63:
        problems.append(f"priority should be a number, actually was {binary_term(priority)}")
    if problems:
        raise ValidationFailed(problems)
    return Policy(name, read, apply_to, definition, priority)


def rehearse(
    watch: RehearsalWatch | None,
    vhost: str,
    name: str,
    apply_to: str,
    definition: Mapping[str, Any],
    *,
    operator: bool,
    client: str = "administration",
) -> bool:
    """Note a policy that a later series refuses; return whether one does."""
    if watch is None:
        return False
    for personality in watch.later:
        try:
            checked(name, "", apply_to, definition, 0, personality, operator=operator)
        except ValidationFailed as failed:
            kind = "operator policy" if operator else "policy"
            text = " ".join(str(failed).split())
            watch.note(POLICY, vhost, (kind, name), client, text, since=personality.series_name)
            return True
    return False


_WORDS_OF_4 = (
    "one of: 'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'"  # two blanks, as there
)


def _listed(words: Mapping[str, object]) -> str:
    *first, last = (f"'{word}'" for word in words)
    return f"{', '.join(first)} or {last}"


def _problem_of_definition(definition: Mapping[str, Any], personality: Personality, *, operator: bool) -> str:
    if not definition:
        return "no policy provided"
    if "queue-master-locator" in definition and not personality.master_locator:
        return "use of deprecated queue-master-locator argument is not permitted"
    rules = personality.policy_rules
    known = rules.of_operators if operator else _KEYS.keys() - rules.unknown
    for key in sorted(known & definition.keys()):
        accepts, what = _KEYS[key]
        if key == "delivery-limit" and rules.no_delivery_limit:
            accepts = _integer
        if not accepts(definition[key]):
            return what.format(binary_term(definition[key]))
    unknown = {key: value for key, value in sorted(definition.items()) if key not in known}
    if unknown:
        return f"{binary_pairs(unknown)} are not recognised policy settings"
    return _problem_of_mirrors(definition) or _problem_of_retries(definition)


def _problem_of_retries(definition: Mapping[str, Any]) -> str:
    kind, least, most = (definition.get(f"delayed-retry-{part}") for part in ("type", "min", "max"))
    if kind not in (None, "disabled") and least is None:
        return f"delayed-retry-min is required when delayed-retry-type is {kind}"
    if least is not None and most is not None and most < least:
        return f"delayed-retry-max ({most}) must not be smaller than delayed-retry-min ({least})"
    return ""


def _problem_of_mirrors(definition: Mapping[str, Any]) -> str:
    """Return what RabbitMQ refuses; there is one node, so nothing is mirrored."""
    mode, parameters = definition.get("ha-mode"), definition.get("ha-params")
    if mode is None:
        if any(key.startswith("ha-") for key in definition):
            return "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
        return ""
    given = "none" if parameters is None else binary_term(parameters)
    if mode == "all" and parameters is not None:
        return 'ha-mode="all" does not take parameters'
    if mode == "exactly" and not _from(1)(parameters):
        return f'ha-mode="exactly" takes an integer, {given} given'
    if mode == "nodes" and not isinstance(parameters, list):
        return f'ha-mode="nodes" takes a list, {given} given'
    if mode == "nodes" and not parameters:
        return 'ha-mode="nodes" list must be non-empty'
    if mode == "nodes" and not all(map(_text, parameters or ())):
        wrong = [node for node in parameters or () if not _text(node)]
        return f'ha-mode="nodes" takes a list of strings, {binary_term(wrong)} was not a string'
    return ""


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _from(lowest: int, highest: int | None = None) -> Check:
    def accepts(value: Any) -> bool:
        return _integer(value) and lowest <= value and (highest is None or value <= highest)

    return accepts


def _one_of(*choices: str | int) -> Check:
    return lambda value: not isinstance(value, bool) and value in choices


def _age(value: Any) -> bool:
    return isinstance(value, str) and _AGE.fullmatch(value) is not None


_KEYS: dict[str, tuple[Check, str]] = {
    "alternate-exchange": (_text, "{} is not a valid alternate exchange name"),
    "consumer-disconnected-timeout": (_from(0), "{} is not a valid consumer disconnected timeout"),
    "consumer-timeout": (_from(0), "{} is not a valid consumer timeout"),  # since 3.11.15
    "dead-letter-exchange": (_text, "{} is not a valid dead letter exchange name"),
    "dead-letter-routing-key": (_text, "{} is not a valid dead letter routing key"),
    "dead-letter-strategy": (_one_of("at-most-once", "at-least-once"), "{} is not a valid dead letter strategy"),
    "delayed-retry-max": (_from(1), "{} is not a valid delayed retry maximum delay. Must be a positive integer"),
    "delayed-retry-min": (_from(1), "{} is not a valid delayed retry minimum delay. Must be a positive integer"),
    "delayed-retry-type": (
        _one_of("all", "failed", "returned", "disabled"),
        "{} is not a valid delayed retry type. Must be one of: all, failed, returned, disabled",
    ),
    "delivery-limit": (_from(0), "{} is not a valid delivery limit"),
    "expires": (_from(1), "{} is not a valid queue expiry"),
    "ha-mode": (_one_of("all", "exactly", "nodes"), "{} is not a valid ha-mode value"),
    "ha-params": (lambda value: True, ""),
    "ha-promote-on-failure": (
        _one_of("always", "when-synced"),
        'ha-promote-on-failure must be "always" or "when-synced", got {}',
    ),
    "ha-promote-on-shutdown": (
        _one_of("always", "when-synced"),
        'ha-promote-on-shutdown must be "always" or "when-synced", got {}',
    ),
    "ha-sync-batch-size": (_from(1), "ha-sync-batch-size takes an integer greater than 0, {} given"),
    "ha-sync-mode": (_one_of("manual", "automatic"), 'ha-sync-mode must be "manual" or "automatic", got {}'),
    "initial-cluster-size": (_from(0), "{} is not a valid cluster size"),
    "max-age": (_age, "{} is not a valid max age"),
    "max-in-memory-bytes": (_from(0), "{} is not a valid maximum memory in bytes"),
    "max-in-memory-length": (_from(0), "{} is not a valid maximum memory in bytes"),
    "max-length": (_from(0), "{} is not a valid maximum length"),
    "max-length-bytes": (_from(0), "{} is not a valid maximum length in bytes"),
    "message-ttl": (_from(0), "{} is not a valid message TTL"),
    "overflow": (_one_of("drop-head", "reject-publish", "reject-publish-dlx"), "{} is not a valid overflow value"),
    "queue-leader-locator": (
        _one_of("client-local", "balanced", "random", "least-leaders"),
        "{} is not a valid queue leader locator value",
    ),
    "queue-master-locator": (
        _one_of("min-masters", "client-local", "random"),
        "{} invalid queue-master-locator value",
    ),
    "queue-mode": (_one_of("default", "lazy"), "{} is not a valid queue-mode value"),
    "queue-version": (_one_of(1, 2), "{} is not a valid queue-version value"),
    "stream-filter-size-bytes": (_from(16, 255), "{} is not a valid filter size. Valid range is 16-255"),
    "stream-max-segment-size-bytes": (_from(0, SEGMENT_BYTES_MAX), "{} is not a valid segment size"),
    "target-group-size": (_from(1), "{} is not a valid qq target count value"),
}
"""The values that each key may have, and the problem with any other value."""
