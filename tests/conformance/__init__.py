"""RabbitMQ's behaviour on the wire, and that which clients' libraries expect.

What a test here expects was seen of RabbitMQ 3.10.8 on the wire, unless its docstring names another source: the
specification, a page of RabbitMQ's documentation, another version.
"""

from collections.abc import Callable

from harness.clients.wire_client import Client

Made = Callable[..., str]
"""Returns a name: `name` one that no other test has; `declare`, `new_queue` and `new_exchange` that of the thing
declared."""
Connect = Callable[..., Client]
