"""A worker that sends mails: what fails is tried again after a minute, an hour and a day, then put aside.

`mail` is the queue of what is to be sent. Each wait is a queue without consumers, whose messages go back to `mail`
when their time is over.
"""

import os
import threading
from collections.abc import Callable

import pika
from pika.exceptions import AMQPError, NackError

MINUTE, HOUR, DAY = 60, 3600, 86400
WAITS = (MINUTE, HOUR, DAY)
FAILED = "mail.failed"


def declare(channel) -> None:
    """Make the queues."""
    for name in ("mail", FAILED):
        channel.queue_declare(name, durable=True)
    for seconds in WAITS:
        back = {"x-message-ttl": seconds * 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "mail"}
        channel.queue_declare(f"mail.wait.{seconds}", durable=True, arguments=back)


def put(channel, queue: str, mail: bytes, number: str, failures: int = 0) -> None:
    """Have a mail in a queue, on disk: it is published again until the broker confirms it."""
    properties = pika.BasicProperties(delivery_mode=2, message_id=number, headers={"failures": failures})
    while True:
        try:
            return channel.basic_publish("", queue, mail, properties, mandatory=True)
        except NackError:
            continue


def opened(url: str):
    """A channel with confirms, the queues declared."""
    channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=1)
    declare(channel)
    return channel


class Mailer:
    """Sends what is in `mail`, by `send`, until `stop` is set. It connects again when the connection is lost."""

    def __init__(self, url: str, send: Callable[[bytes], None], stop: threading.Event) -> None:
        self.url, self.send, self.stop = url, send, stop
        self.sent: set[str] = set()

    def run(self) -> None:
        """Work."""
        while not self.stop.is_set():
            try:
                self.work(opened(self.url))
            except (AMQPError, OSError):
                self.stop.wait(0.05)

    def work(self, channel) -> None:
        """Work with one connection."""
        for method, properties, mail in channel.consume("mail", inactivity_timeout=0.05):
            if self.stop.is_set():
                channel.connection.close()
                return
            if method is not None:
                self.handle(channel, properties, mail)
                channel.basic_ack(method.delivery_tag)

    def handle(self, channel, properties, mail: bytes) -> None:
        """Send a mail that was not sent yet. After this it is sent, waits, or is put aside."""
        if properties.message_id in self.sent:
            return  # it came again, because the ack was lost
        try:
            self.send(mail)
            self.sent.add(properties.message_id)
        except OSError:
            failures = properties.headers["failures"]
            queue = f"mail.wait.{WAITS[failures]}" if failures < len(WAITS) else FAILED
            put(channel, queue, mail, properties.message_id, failures + 1)


if __name__ == "__main__":
    Mailer(os.environ["AMQP_URL"], print, threading.Event()).run()
