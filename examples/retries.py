"""A worker that tries again later, with nothing but queues.

A rejected job goes to the queue `jobs.later`, waits there for its time to live, and comes back to `jobs`. How often it
has been there stands in its header `x-death`. After three attempts it is parked in `jobs.failed`.
"""

import os

import pika

ATTEMPTS, WAIT_MILLISECONDS = 3, 200


def attempts(properties: pika.BasicProperties) -> int:
    """Return the number of earlier tries of a job."""
    deaths = (properties.headers or {}).get("x-death", [])
    return sum(death["count"] for death in deaths if death["queue"] == "jobs")


connection = pika.BlockingConnection(
    pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/"))
)
channel = connection.channel()
channel.confirm_delivery()
later = {"x-message-ttl": WAIT_MILLISECONDS, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "jobs"}
rejected = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "jobs.later"}
channel.queue_declare("jobs", durable=True, arguments=rejected)
channel.queue_declare("jobs.later", durable=True, arguments=later)
channel.queue_declare("jobs.failed", durable=True)
for job in ("easy", "hard"):
    channel.basic_publish("", "jobs", job.encode(), pika.BasicProperties(delivery_mode=2))

left = {"easy", "hard"}
for method, properties, body in channel.consume("jobs"):
    job, attempt = body.decode(), attempts(properties) + 1
    if job == "easy":
        print(f"{job}: done at attempt {attempt}")
        channel.basic_ack(method.delivery_tag)
        left.remove(job)
    elif attempt < ATTEMPTS:
        print(f"{job}: attempt {attempt} failed")
        channel.basic_reject(method.delivery_tag, requeue=False)
    else:
        channel.basic_publish("", "jobs.failed", body, pika.BasicProperties(delivery_mode=2))
        channel.basic_ack(method.delivery_tag)  # after the confirm: a crash in between leaves two copies, never none
        print(f"{job}: parked after {attempt} attempts")
        left.remove(job)
    if not left:
        break
channel.cancel()
connection.close()
