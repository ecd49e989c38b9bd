"""Publish one message, wait until it is on disk, and get it back."""

import os

import pika

connection = pika.BlockingConnection(
    pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/"))
)
channel = connection.channel()
channel.confirm_delivery()  # basic_publish returns when the message is on disk
channel.queue_declare("hello", durable=True)
channel.basic_publish("", "hello", b"Hello, world", pika.BasicProperties(delivery_mode=2))

method, properties, body = channel.basic_get("hello")
print(body.decode())
channel.basic_ack(method.delivery_tag)
connection.close()
