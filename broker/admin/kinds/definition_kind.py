"""A kind of definition: the effect of its changes in memory, and the events that they are.

Kinds know the broker in memory and the rows of the definitions store; they write nothing and wait for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from broker.admin.kinds.change_event import ChangeEvent
from broker.entities.node.broker import Broker
from broker.entities.scheduling.future import Future
from storage.definitions.definition_rows import DefinitionRow


def no_events(broker: Broker, *row: Any, **key: Any) -> Iterator[ChangeEvent]:
    """Return nothing."""
    return iter(())


class DefinitionKind(NamedTuple):
    """The functions of one kind of row.

    `put` takes the broker and the row. `delete` takes the broker, the user who deletes, and by name the fields of the
    row's key. Both return a future where the effect takes several turns. `put_events` and `delete_events` take the
    same without the user, before the change takes effect: only then it shows whether a user is new.
    """

    row: type[DefinitionRow]
    put: Callable[[Broker, Any], Future[None] | None]
    delete: Callable[..., Future[None] | None]
    put_events: Callable[..., Iterator[ChangeEvent]] = no_events
    delete_events: Callable[..., Iterator[ChangeEvent]] = no_events
