"""An entry of a definitions file: its form, and the changes that take it in.

Keys that are not known are passed over, as RabbitMQ does: files of many versions hold what only plugins know.
Messages name the place in the file, never the value there: it may be a password.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from broker.admin.protocol import invalid
from broker.entities.node.broker import Broker
from storage.definitions.definition_rows import Delete, Put

T = TypeVar("T")
Name = Annotated[str, Meta(min_length=1, max_length=255)]
FieldTable = dict[Name, Any] | list[Any]
"""Arguments. Some versions of RabbitMQ write an empty table as an empty list."""


class DefinitionEntry(msgspec.Struct, frozen=True):
    """One entry. Its names of virtual hosts and users are checked by the import, against what there will be."""

    def check(self, broker: Broker) -> None:
        """Raise AdministrationError, AmqpError, ValueError, TypeError or OverflowError for what cannot be taken in."""

    def changes(self, broker: Broker) -> Iterable[Put | Delete]:
        """Return the changes that take the entry in; none for exchanges, queues and bindings, which are declared."""
        return ()


def converted(value: object, kind: type[T], place: str = "") -> T:
    """Return a decoded value as the Struct of a kind. `place` is its place in the file, empty for the whole file.

    Raises AdministrationError `invalid` with the place of the first thing that does not fit.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text = str(error)
        if place and "`$" not in text:  # about the value itself msgspec does not say where it is
            text += " - at `$`"
        raise invalid(f"definitions: {text.replace('`$', f'`{place}').replace('`.', '`')}") from None
    except UnicodeEncodeError:  # where only certain words may stand; elsewhere such texts are welcome
        raise invalid("definitions: a key, or a type of destination, is not UTF-8") from None
