"""Features that RabbitMQ 4 does not permit any more: refused with its texts, as internal errors."""

from __future__ import annotations

from broker.entities.arguments.personality import Personality
from broker.entities.arguments.queue_types import CLASSIC, type_of
from broker.wire.amqp_errors import ConnectionException
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import Table


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


def check_new_queue(personality: Personality, arguments: Table, *, durable: bool, exclusive: bool) -> None:
    """Refuse a queue that uses a feature that is not permitted. Raises ConnectionException 541."""
    if not (durable or exclusive or personality.transient_queues):
        raise NotPermitted("transient_nonexcl_queues")
    if type_of(arguments) is CLASSIC and not personality.master_locator and "x-queue-master-locator" in arguments:
        raise NotPermitted("queue_master_locator")
