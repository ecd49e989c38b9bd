"""The firehose on and off: `broker/session/channel/firehose.py` says what it publishes."""

from __future__ import annotations

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.entities.vhosts.vhost import VHost
from broker.session.channel import firehose


async def trace_on(administration: Administration, arguments: Arguments) -> None:
    """Publish a copy of everything published or delivered in a virtual host to amq.rabbitmq.trace, until the end."""
    switch(administration.vhost(arguments.text("vhost")), on=True)


async def trace_off(administration: Administration, arguments: Arguments) -> None:
    """End that; no harm where it was not on."""
    switch(administration.vhost(arguments.text("vhost")), on=False)


def switch(vhost: VHost, *, on: bool) -> None:
    """Trace a virtual host from now on, or no longer."""
    if vhost.traced != on:
        (firehose.start if on else firehose.stop)(vhost)
