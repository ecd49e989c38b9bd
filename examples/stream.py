"""A stream keeps what is read: each reader starts where it likes."""

import os

import pika

connection = pika.BlockingConnection(
    pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/"))
)
channel = connection.channel()
channel.confirm_delivery()
channel.queue_declare("readings", durable=True, arguments={"x-queue-type": "stream", "x-max-age": "1D"})
for number in range(5):
    channel.basic_publish("", "readings", b"reading %d" % number)

channel.basic_qos(prefetch_count=10)  # streams need one
for offset in ("first", 3):
    for method, properties, body in channel.consume("readings", arguments={"x-stream-offset": offset}):
        print(f"from {offset}: {body.decode()} at offset {properties.headers['x-stream-offset']}")
        channel.basic_ack(method.delivery_tag)
        if properties.headers["x-stream-offset"] == 4:
            break
    channel.cancel()
connection.close()
