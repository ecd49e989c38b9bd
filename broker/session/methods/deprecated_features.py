"""Features that RabbitMQ 4 does not permit any more: refused with its texts, as internal errors."""

from __future__ import annotations

from broker.entities.arguments.personality import Personality
from broker.entities.arguments.queue_types import CLASSIC, type_of
from broker.wire.amqp_errors import ConnectionException, precondition_failed
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import INTEGER_KINDS, Table


class NotPermitted(ConnectionException):
    """An internal error whose text is sent to the client."""

    def __init__(self, feature: str) -> None:
        text = (
            f"Feature `{feature}` is deprecated.\n"
            "By default, this feature is not permitted anymore.\n"
            "The feature will be removed from a future major RabbitMQ version, regardless of the configuration; "
            "actual version to be determined.\n"
            "To continue using this feature when it is not permitted by default, set the following parameter in "
            f'your configuration:\n    "deprecated_features.permit.{feature} = true"'
        )
        super().__init__(ReplyCode.INTERNAL_ERROR, text)
        self.told = True


def check_new_queue(
    personality: Personality, queue: str, vhost: str, arguments: Table, *, durable: bool, exclusive: bool
) -> None:
    """Refuse a queue that uses a removed feature. Raises ConnectionException 541 or ChannelException 406."""
    classic = type_of(arguments) is CLASSIC
    version = arguments.get("x-queue-version") if classic and not personality.queue_version_1 else None
    if version is not None and version.kind in INTEGER_KINDS and version.value != 2:
        where = f"for queue '{queue}' in vhost '{vhost}'"
        raise precondition_failed(
            f"invalid arg 'x-queue-version' {where}: \"unsupported queue version '{version.value}'\""
        )
    if not (durable or exclusive or personality.transient_queues):
        raise NotPermitted("transient_nonexcl_queues")
    if classic and not personality.master_locator and "x-queue-master-locator" in arguments:
        raise NotPermitted("queue_master_locator")
