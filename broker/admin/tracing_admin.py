"""The firehose on and off: `broker/session/channel/firehose.py` says what it publishes."""

from __future__ import annotations

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.session.channel import firehose


async def trace_on(administration: Administration, arguments: Arguments) -> None:
    """Publish a copy of everything published or delivered in a virtual host to amq.rabbitmq.trace, until the end."""
    vhost = administration.vhost(arguments.text("vhost"))
    if not vhost.traced:
        firehose.start(vhost)


async def trace_off(administration: Administration, arguments: Arguments) -> None:
    """End that; no harm where it was not on."""
    vhost = administration.vhost(arguments.text("vhost"))
    if vhost.traced:
        firehose.stop(vhost)
