"""Execution of commands: lists and questions at once, changes one at a time and logged."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from broker.admin.administration import Administration
from broker.admin.commands.admin_command import AdminChange, AdminCommand, ListCommand, LongQuestion, Question
from broker.admin.protocol import AdministrationError, invalid
from broker.admin.views.listing import Row, Selection, rows
from broker.entities.exchanges.event_exchange import CLI
from broker.wire.amqp_errors import AmqpError
from storage.storage_errors import StoreError

log = logging.getLogger("leveret.administration")


def rows_of(administration: Administration, command: ListCommand) -> Iterator[Row]:
    """Return the rows of a list, each computed when it is asked for. Raises AdministrationError at once."""
    selection = Selection(command.owner(), command.columns or (), bool(command.typed), bool(command.lenient))
    return rows(command.view(), administration, selection)


async def carry_out(administration: Administration, command: AdminCommand) -> object:
    """Carry out a command. Returns its answer, as JSON can hold it. Raises AdministrationError."""
    try:
        match command:
            case ListCommand():
                return list(rows_of(administration, command))
            case Question():
                return command.answer(administration)
            case LongQuestion():
                return await command.answer(administration)
            case AdminChange():
                refuse_on_standby(administration, command)
                async with administration.turns:
                    answer = await command.apply(administration)
                _log(command, administration.by)
                return answer
        raise invalid("there is no such command")  # OpenAmqp is for the socket alone
    except (AmqpError, StoreError) as error:
        raise AdministrationError("failed", str(error)) from error
    except OSError as error:
        raise AdministrationError("failed", f"{error.filename}: {error.strerror}") from error
    finally:
        administration.end_turn()


def refuse_on_standby(administration: Administration, command: AdminCommand) -> None:
    """Raise AdministrationError for a command that changes what a standby only follows."""
    standby = administration.standby
    if standby is not None and not (isinstance(command, AdminChange) and command.of_process):
        raise AdministrationError("refused", standby.read_only)


def _log(command: AdminChange, by: str) -> None:
    """Log what was done, and which user did it."""
    actor, user = ("the command line", None) if by == CLI else (f"user '{by}'", by)
    log.info("%s, by %s", command.log_line(), actor, extra={"user": user, **command.log_fields()})
