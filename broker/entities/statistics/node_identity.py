"""What this node is called, and what stands for an Erlang process id of it."""

from __future__ import annotations

from typing import NamedTuple


class NodeIdentity(NamedTuple):
    """The node's name, `rabbit@host`, and which of its boots this is."""

    name: str
    boot: int

    def pid(self, number: int, channel: int = 0) -> str:
        """What stands for an Erlang process id where RabbitMQ shows one: a text of that form, of one thing for good.

        `number` is that of a connection, with the number of a channel on it, or a queue's id.
        """
        return f"<{self.name}.{self.boot}.{number}.{channel}>"
