"""Backups in the directory that the settings name: the page lists them, and makes one."""

from __future__ import annotations

from functools import partial

import trio
from starlette.responses import Response

from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.resources import Resource, resource
from broker.management.responses import Problem, in_json
from storage.storage_errors import StoreError


async def list_backups(call: ApiCall) -> Response:
    """List the backups, newest first."""
    backups = call.api.administration.process.backups
    try:
        rows = await trio.to_thread.run_sync(backups.rows) if backups.directory else []
    except OSError as error:
        raise Problem(500, "failed", str(error)) from None
    return in_json({"directory": backups.directory, "keep": backups.keep, "backups": rows})


async def make_backup(call: ApiCall) -> Response:
    """Make a backup, and delete the oldest ones beyond those to be kept."""
    administration = call.api.administration
    backups = administration.process.backups
    if not backups.directory:
        raise Problem(400, "bad_request", "backup.directory is not set in the settings")
    path = backups.next()
    try:
        await administration.copy_stores(path)
        deleted = await trio.to_thread.run_sync(partial(backups.keep_newest, path))
    except (StoreError, OSError) as error:
        raise Problem(500, "failed", str(error)) from None
    return in_json({"name": path.name, "deleted": deleted})


RESOURCES: list[Resource] = [
    resource(
        "/api/leveret/backups",
        waits=True,
        GET=(Tag.ADMINISTRATOR, list_backups),
        POST=(Tag.ADMINISTRATOR, make_backup),
    )
]
