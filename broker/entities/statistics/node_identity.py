"""The node's name, and the pids shown in place of Erlang's process ids."""

from __future__ import annotations

from typing import NamedTuple


class NodeIdentity(NamedTuple):
    """The node's name, `rabbit@host`, and its boot number."""

    name: str
    boot: int

    def pid(self, number: int, channel: int = 0) -> str:
        """Return a text in the form of an Erlang process id, permanently unique.

        `number`: a connection's number, with the number of a channel on it, or a queue's id.
        """
        return f"<{self.name}.{self.boot}.{number}.{channel}>"
