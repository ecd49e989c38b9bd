"""Definitions as a later series of RabbitMQ would import them: by the checks of the import, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from broker.admin.definitions.definitions_file import DefinitionsFile
from broker.admin.json_tables import table
from broker.admin.kinds import policy_check
from broker.admin.kinds.policy_kind import PolicyEntry
from broker.admin.kinds.topology_entries import QueueEntry
from broker.admin.protocol import AdministrationError
from broker.entities.arguments import queue_arguments, queue_types
from broker.entities.arguments.personality import Personality
from broker.entities.arguments.policies import InForce, effective
from broker.entities.arguments.policy_matching import Policies
from broker.entities.exchanges.topic_trie import check_wildcards
from broker.entities.node.parameters import OPERATOR_POLICY
from broker.entities.rehearsal import rehearsal_rules as rules
from broker.entities.rehearsal.rehearsal_watch import RehearsalWatch
from broker.entities.vhosts.vhost import DEFAULT_EXCHANGES
from broker.session.methods import deprecated_features
from broker.wire.field_tables import Table

CLIENT = "definitions"
NAMED_MAX = 10
"""Names of objects that a finding of many lists."""
LEFT_OUT = "an import leaves the queue out, and says nothing"


class DefinitionsRehearsal:
    """Notes what the target of a watch does differently with the definitions of a file."""

    def __init__(self, watch: RehearsalWatch, file: DefinitionsFile) -> None:
        self._watch = watch
        self._file = file
        self._types = {vhost.name: vhost.queue_type(as_4=False) for vhost in file.vhosts}
        self._policies: dict[str, tuple[Policies, Policies]] = {}
        """The policies of each virtual host, by the rules of now and of then; those refused then are left out."""

    def check(self) -> None:
        """Note everything."""
        for entry, operator in self._policy_entries():
            self._check_policy(entry, operator=operator)
        queues = [(queue, self._arguments(queue)) for queue in self._file.queues]
        for queue, arguments in queues:
            self._check_queue(queue, arguments)
        self._check_limits(queues)
        self._check_scopes(queues)
        self._check_bindings()

    # Policies

    def _policy_entries(self) -> Iterator[tuple[PolicyEntry, bool]]:
        yield from ((policy, False) for policy in self._file.policies)
        for parameter in self._file.parameters:
            if parameter.component == OPERATOR_POLICY:
                yield parameter.operator_policy(), True

    def _check_policy(self, entry: PolicyEntry, *, operator: bool) -> None:
        definition = dict(entry.definition)
        where = entry.vhost, entry.name, entry.apply_to, definition
        if policy_check.rehearse(self._watch, *where, operator=operator, client=CLIENT):
            return
        given = entry.name, entry.pattern, entry.apply_to, definition, entry.priority
        try:
            policy = policy_check.checked(*given, self._watch.target, operator=operator)
        except AdministrationError:
            return  # wrong in all series: the pattern, for example
        now, then = self._policies_of(entry.vhost)
        for policies in now, then:
            policies.kind(operator=operator).put(policy)

    def _policies_of(self, vhost: str) -> tuple[Policies, Policies]:
        own, target = self._watch.own.policy_rules, self._watch.target.policy_rules
        return self._policies.setdefault(vhost, (Policies(vhost, own), Policies(vhost, target)))

    # Queues

    def _arguments(self, queue: QueueEntry) -> Table:
        """Return the arguments of a queue, with the default type of its virtual host."""
        named = queue_types.TYPES.get(str(self._types.get(queue.vhost)))
        default = queue_types.DefaultType(named, self._watch.own.fallback_type)
        properties = {"durable": queue.durable, "exclusive": False, "auto_delete": queue.auto_delete}
        return default.added(table(queue.arguments), **properties)

    def _check_queue(self, queue: QueueEntry, arguments: Table) -> None:
        subject = ("queue", queue.name)
        if not (queue.durable or self._watch.target.transient_queues):
            self._watch.note(rules.TRANSIENT_QUEUE, queue.vhost, subject, CLIENT, LEFT_OUT)
            return
        located, _ = self._watch.refused(_features_of(arguments))
        if located:
            self._watch.note(rules.MASTER_LOCATOR, queue.vhost, subject, CLIENT, LEFT_OUT)
            return
        since, text = self._watch.refused(
            lambda each: queue_arguments.check(queue.name, queue.vhost, arguments, each.argument_rules)
        )
        if since:
            self._watch.note(rules.QUEUE_ARGUMENT, queue.vhost, subject, CLIENT, text, since=since)

    def _check_limits(self, queues: Iterable[tuple[QueueEntry, Table]]) -> None:
        """Note the quorum queues of each virtual host that have no delivery limit."""
        own, then = self._watch.own.delivery_limit, self._watch.target.delivery_limit
        if own is not None or then is None:
            return
        without: dict[str, list[str]] = {}
        lossy: dict[str, list[str]] = {}
        for queue, arguments in queues:
            if queue_types.type_of(arguments) is not queue_types.QUORUM:
                continue
            found = effective(arguments, self._in_force(queue, arguments)[1])
            if found.delivery_limit is None:
                without.setdefault(queue.vhost, []).append(queue.name)
                if found.dead_letter_exchange is None:
                    lossy.setdefault(queue.vhost, []).append(queue.name)
        for vhost, names in without.items():
            lost = f"; without a dead letter exchange: {_listed(lossy[vhost])}" if vhost in lossy else ""
            self._note_many(rules.DEFAULT_LIMIT, vhost, ("queues", _listed(names)), names, f"limit {then}{lost}")

    def _in_force(self, queue: QueueEntry, arguments: Table) -> tuple[InForce, InForce]:
        """Return the policies that apply now and then."""
        kind = queue_types.type_of(arguments).name
        now, then = (policies.match(kind, queue.name) for policies in self._policies_of(queue.vhost))
        return now, then

    def _check_scopes(self, queues: Iterable[tuple[QueueEntry, Table]]) -> None:
        """Note policies that begin or cease to apply to queues: a key that a type does not support excludes it."""
        changed: dict[tuple[str, str], list[str]] = {}
        for queue, arguments in queues:
            now, then = self._in_force(queue, arguments)
            for before, after in zip(now, then, strict=True):
                if before is not after:
                    named = "none" if after is None else f"'{after.name}'"
                    old = "none" if before is None else f"'{before.name}'"
                    changed.setdefault((queue.vhost, f"{old} now, {named} then"), []).append(queue.name)
        for (vhost, what), names in changed.items():
            self._note_many(rules.POLICY_SCOPE, vhost, ("queues", _listed(names)), names, what)

    # Bindings

    def _check_bindings(self) -> None:
        topics = {(exchange.vhost, exchange.name) for exchange in self._file.exchanges if exchange.type == "topic"}
        predeclared = {name for name, type_ in DEFAULT_EXCHANGES.items() if type_ == "topic"}
        for binding in self._file.bindings:
            if binding.source not in predeclared and (binding.vhost, binding.source) not in topics:
                continue
            since, text = self._watch.refused(_wildcards_of(binding.routing_key))
            if since:
                subject = ("exchange", binding.source)
                self._watch.note(rules.TOPIC_WILDCARDS, binding.vhost, subject, CLIENT, text, since=since)

    def _note_many(self, rule: rules.Rule, vhost: str, subject: tuple[str, str], names: list[str], detail: str) -> None:
        self._watch.note(rule, vhost, subject, CLIENT, detail, count=len(names))


def _features_of(arguments: Table) -> Callable[[Personality], None]:
    return lambda each: deprecated_features.check_new_queue(each, arguments, durable=True, exclusive=False)


def _wildcards_of(key: str) -> Callable[[Personality], None]:
    def check(personality: Personality) -> None:
        if personality.topic_wildcards_max:
            check_wildcards(key, personality.topic_wildcards_max)

    return check


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(islice(names, NAMED_MAX)) + more
