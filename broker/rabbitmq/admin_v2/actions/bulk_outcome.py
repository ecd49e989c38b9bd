"""The outcome of a change of many objects."""

from __future__ import annotations

from broker.cli.table_output import echo
from broker.rabbitmq.admin_v2.command_call import CommandCall


class BulkOutcome:
    """Counts of a change of many objects."""

    def __init__(self, call: CommandCall, total: int) -> None:
        self.failed = 0
        self._call, self._total = call, total

    def finish(self) -> None:
        """Say how it ended, if there was something to do, unless less output is wanted."""
        settings, total, failed = self._call.settings, self._total, self.failed
        if settings.quiet or not total:
            return
        if settings.non_interactive:
            echo(f"Completed: {total} items processed")
        elif not failed:
            echo(f"✅ Completed: {total} items processed successfully")
        elif failed == total:
            echo(f"❌ Failed: All {total} items failed to process")
        else:
            echo(f"⚠️  Completed with failures: {total - failed} succeeded, {failed} failed out of {total} total")
