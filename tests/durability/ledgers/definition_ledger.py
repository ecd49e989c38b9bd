"""Definitions that a broker owes after its end, by requests and answers.

A fact is a queue, an exchange, a binding, a user, a permission, a virtual host, a policy or a group's committed offset
in a stream, with a value; None is: not there. From the request on the new value may be there; from its answer on no
older one may.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from broker.session.login.passwords import verify
from broker.wire import methods
from tests.durability.ledgers.conversation import Request

Fact = tuple[str, ...]
Facts = dict[Fact, Any]

USERS = "user"
"""Facts of this kind are a password's hash when they are found, and the password where they are promised."""


class DefinitionLedger:
    """Possible values of each fact, the certain first; later ones have been asked for and not been answered."""

    def __init__(self) -> None:
        self._possible: dict[Fact, list[tuple[int, Any]]] = {}
        self._serials = count(1)

    def ask(self, what: Any) -> Callable[[], None]:
        """Something is asked for: what to do when it is answered."""
        serial = next(self._serials)
        changes = self._changes(what)
        for fact, value in changes.items():
            self._possible.setdefault(fact, [(0, None)]).append((serial, value))

        def answered() -> None:
            for fact in changes:
                self._possible[fact] = [known for known in self._possible[fact] if known[0] >= serial]

        return answered

    def _changes(self, what: Any) -> Facts:
        if isinstance(what, Request):
            return _REQUESTS[what.command](self, what.arguments)
        changes = _METHODS.get(type(what))
        return changes(self, what) if changes else {}

    def _gone(self, kind: str, **fields: str) -> Facts:
        """Every fact of a kind that has these fields, as one that is not there. Fields are `at0`, `at1`, ..."""
        wanted = {int(name[2:]): value for name, value in fields.items()}
        return {
            fact: None
            for fact in self._possible
            if fact[0] == kind and all(fact[1 + at] == value for at, value in wanted.items())
        }

    def must_be_there(self, fact: Fact) -> bool:
        """True if a fact has been answered, and nobody has asked since for it to be gone."""
        return all(value is not None for _serial, value in self._possible.get(fact, [(0, None)]))

    def problems(self, facts: Mapping[Fact, Any]) -> list[str]:
        """Return problems of the definitions found."""
        found = []
        for fact, possible in self._possible.items():
            value = facts.get(fact)
            if not any(_agree(fact, value, promised) for _serial, promised in possible):
                found.append(f"{' '.join(fact)} is {value}, not {[promised for _serial, promised in possible]}")
        return found


def _agree(fact: Fact, found: Any, promised: Any) -> bool:
    if fact[0] != USERS or found is None or promised is None:
        return bool(found == promised)
    password_hash, tags = found
    password, promised_tags = promised
    return verify(password.encode(), password_hash) and tags == promised_tags


def _binding(method: methods.QueueBind | methods.QueueUnbind | methods.ExchangeBind | methods.ExchangeUnbind) -> Fact:
    if isinstance(method, methods.QueueBind | methods.QueueUnbind):
        return ("binding", method.exchange, "queue", method.queue, method.routing_key)
    return ("binding", method.source, "exchange", method.destination, method.routing_key)


def _queue_deleted(ledger: DefinitionLedger, method: methods.QueueDelete) -> Facts:
    bindings, offsets = ledger._gone("binding", at1="queue", at2=method.queue), ledger._gone("offset", at0=method.queue)
    return {("queue", method.queue): None, **bindings, **offsets}


def _exchange_deleted(ledger: DefinitionLedger, method: methods.ExchangeDelete) -> Facts:
    from_it = ledger._gone("binding", at0=method.exchange)
    to_it = ledger._gone("binding", at1="exchange", at2=method.exchange)
    return {("exchange", method.exchange): None, **from_it, **to_it}


def _policy(arguments: Mapping[str, Any]) -> tuple[str, Any, int]:
    return arguments["pattern"], arguments["definition"], arguments["priority"]


_METHODS: dict[type, Callable[[DefinitionLedger, Any], Facts]] = {
    methods.QueueDeclare: lambda ledger, method: {("queue", method.queue): True},
    methods.QueueDelete: _queue_deleted,
    methods.ExchangeDeclare: lambda ledger, method: {("exchange", method.exchange): method.type},
    methods.ExchangeDelete: _exchange_deleted,
    methods.QueueBind: lambda ledger, method: {_binding(method): True},
    methods.QueueUnbind: lambda ledger, method: {_binding(method): None},
    methods.ExchangeBind: lambda ledger, method: {_binding(method): True},
    methods.ExchangeUnbind: lambda ledger, method: {_binding(method): None},
}

_REQUESTS: dict[str, Callable[[DefinitionLedger, Mapping[str, Any]], Facts]] = {
    "status": lambda ledger, given: {},
    "add_user": lambda ledger, given: {(USERS, given["name"]): (given["password"], tuple(given["tags"]))},
    "delete_user": lambda ledger, given: {
        (USERS, given["name"]): None,
        **ledger._gone("permission", at1=given["name"]),
    },
    "add_vhost": lambda ledger, given: {("vhost", given["name"]): given["description"]},
    "delete_vhost": lambda ledger, given: {
        ("vhost", given["name"]): None,
        **ledger._gone("permission", at0=given["name"]),
        **ledger._gone("policy", at0=given["name"]),
    },
    "set_permissions": lambda ledger, given: {
        ("permission", given["vhost"], given["user"]): (given["configure"], given["write"], given["read"])
    },
    "clear_permissions": lambda ledger, given: {("permission", given["vhost"], given["user"]): None},
    "set_policy": lambda ledger, given: {("policy", given["vhost"], given["name"]): _policy(given)},
    "commit_offsets": lambda ledger, given: {
        ("offset", stream, given["group"]): offset for stream, offset in given["offsets"].items()
    },
    "forget_offsets": lambda ledger, given: ledger._gone("offset", at1=given["group"]),
    "clear_policy": lambda ledger, given: {("policy", given["vhost"], given["name"]): None},
}
