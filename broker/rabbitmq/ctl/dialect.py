"""Dialects: what the command lines of RabbitMQ's series say and do differently.

Measured on 3.10.8 and 4.3.6; 4.2 is from its sources (v4.2.9). Which verbs there are is in the catalogue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.rabbitmq.ctl.outcomes import DATA, UNAVAILABLE, VerbRefusal


class Absent(NamedTuple):
    """The refusal for an object that does not exist."""

    code: int = UNAVAILABLE
    text: str = "not_found"
    headed: bool = True

    def refusal(self) -> VerbRefusal:
        """Return it, to be raised."""
        return VerbRefusal(self.code, self.text, headed=self.headed)


class Dialect(NamedTuple):
    """A series' own words and rules. The default of each field is that of 3.x."""

    bold_headings: bool = True
    """Headings of help are bold, wherever they are written to."""
    absent: Absent = Absent()
    """The refusal for a queue or a stream that does not exist."""
    absent_queue: str = "Queue not found"
    """The text of `delete_queue`."""
    absent_users: bool = True
    """The deletion of a user who does not exist is refused."""
    protected_vhost: str = "{}"
    """The text of `delete_vhost` for one that is protected; {} is the broker's own."""
    wrong_json: str = "JSON decoding error. Reason: badarg"
    """The text about an argument that is not JSON; {} is the argument."""
    types_checked: bool = False
    """Default queue types are checked with the arguments."""
    vhost_columns: tuple[str, ...] = ()
    """Columns of virtual hosts that 3.x has not got."""
    import_notice: str = ""
    """A sentence behind the notice of an import."""
    quoted: str = "'{}'"
    """A list of characters, as errors show one."""
    keys_option: str = "routing-keys"
    """The option of `add_super_stream` that names its keys, in its errors."""
    partitions_named: bool = False
    """Errors of `add_super_stream` name the streams, not the super stream."""
    stream_columns: tuple[str, ...] = ()
    """Columns of `stream_status` that 3.x has not got."""
    no_replicas: str = "Cannot add replicas to a {} queue"
    shovel_columns: tuple[str, ...] = ()
    """All columns of `shovel_status`; otherwise those that some shovel has, by name."""
    absent_shovel: str = "Shovel with the given name was not found on the target node '{}' and / or virtual host '{}'"
    """The text of `delete_shovel`; of `restart_shovel` with each series."""
    health_checked: bool = True
    """`node_health_check` looks at the alarms."""
    local_alarms: bool = True
    """`check_local_alarms` looks at the alarms."""
    mirrors_checked: bool = True
    """`check_if_node_is_mirror_sync_critical` says why it does not apply."""

    def wrong_partitions(self, name: str, streams: Sequence[str], *, unfit: bool, repeated: bool) -> str | None:
        """Return the refusal of a super stream with an unfit name or with repeated streams; None for neither."""
        if not unfit and not repeated:
            return None
        if self.partitions_named:
            found = f"Duplicate partition names found {''.join(streams)}"
            text = self.quoted.format(f"{''.join(streams)} is not a correct partition names" if unfit else found)
            return f"{{:validation_failed, {{{text}}}}}"
        if unfit:
            return f"{{:validation_failed, '{name} is not a correct name for a super stream'}}"
        return "reference_already_exists"


_OF_4_2 = Dialect(
    bold_headings=False,
    absent=Absent(DATA, "Object (queue, stream, exchange, etc) was not found", headed=False),
    absent_queue="No such queue was found",
    absent_users=False,
    protected_vhost=(
        "Cannot delete this virtual host: it is protected from deletion. "
        "To lift the protection, inspect and update its metadata"
    ),
    wrong_json="Could not parse JSON document: {{error,{{failed_to_decode_json,{}}}}}",
    types_checked=True,
    vhost_columns=("protected_from_deletion", "metadata"),
    import_notice=" Watch target node logs for completion.",
    quoted='~c"{}"',
    keys_option="--binding-keys",
    partitions_named=True,
    stream_columns=("epoch", "committed_chunk_id"),
    no_replicas="Cannot add replicas to {} queues",
    shovel_columns=(
        "name",
        "type",
        "state",
        "source",
        "destination",
        "vhost",
        "termination_reason",
        "last_changed",
    ),
    absent_shovel=(
        "Shovel with the given name was not found on the target node '{}' and/or virtual host '{}'. "
        "It may be failing to connect and report its state, will delete its runtime parameter..."
    ),
    health_checked=False,
    mirrors_checked=False,
)

DIALECTS = {"3.10": Dialect(), "3.13": Dialect(), "4.2": _OF_4_2, "4.3": _OF_4_2._replace(local_alarms=False)}
"""By the series of a personality."""
