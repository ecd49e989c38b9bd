"""Definitions: everything that is declared, exported to and imported from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from broker.admin.commands.admin_command import AdminChange, LongQuestion, Text

if TYPE_CHECKING:
    from broker.admin.administration import Administration


class ExportDefinitions(LongQuestion):
    """Export everything that is not exclusive to a connection, users with the hashes of their passwords."""

    async def answer(self, administration: Administration) -> dict[str, Any]:
        from broker.admin.definitions.definitions_export import export_definitions

        return await export_definitions(administration)


class ImportDefinitions(AdminChange):
    """Import definitions: all, or into a `vhost` what belongs there. Answers with the number of changes by kind.

    They are JSON as it was read; or a DefinitionsFile, moved into the virtual host already, which is emptied.
    """

    log_words: ClassVar[str] = "definitions are imported"
    definitions: object
    vhost: Text | None = None

    async def apply(self, administration: Administration) -> dict[str, int]:
        from broker.admin.definitions.definitions_import import import_definitions

        return await import_definitions(administration, self.definitions, self.vhost)
