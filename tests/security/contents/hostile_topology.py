"""Hostile names and values where clients and operators may say something: over AMQP, by HTTP and in an import."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from broker.wire.field_tables import Field, Table
from broker.wire.frames import PROTOCOL_HEADER
from broker.wire.method import Method
from broker.wire.methods import (
    BasicConsume,
    ChannelClose,
    ChannelCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
)
from broker.wire.properties import BasicProperties, encode_header
from harness.brokers.http_broker import ask
from harness.clients.queue_steps import ready
from harness.clients.wire_client import Address, Client
from harness.waiting import eventually
from tests.security.contents.disk_images import Pieces
from tests.security.contents.hostile_texts import BYTES, NAME_BYTES_MAX, Texts, is_text
from tests.security.contents.kept_messages import CLASSIC, QUORUM, STREAM, Place, Sent, publish, shown

HEADER_BYTES_MAX = 60_000
"""Largest field of a header or of arguments: a table has to fit into a frame."""
QUEUE_TYPES = (CLASSIC, CLASSIC, QUORUM, STREAM)
EXCHANGE_TYPES = ("direct", "fanout", "topic", "headers")


HEADERS = {
    *("date", "server", "vary", "cache-control", "allow", "connection", "location", "www-authenticate"),
    *("content-type", "content-length", "content-encoding", "content-disposition", "transfer-encoding"),
    *("content-security-policy", "x-content-type-options", "x-frame-options"),
}
"""Headers of answers: another one would be made of what was asked."""


class Contents:
    """Contents that hostile clients send, drawn by dice."""

    def __init__(self, dice: random.Random, texts: Texts, pieces: Pieces) -> None:
        self.dice = dice
        self.texts = texts
        self.pieces = pieces

    def data(self, size_max: int = HEADER_BYTES_MAX) -> bytes:
        """Bytes: of a text, of another protocol, or of a file of the broker's."""
        chosen = self.dice.randrange(3)
        if chosen == 0:
            return self.dice.choice(BYTES)[:size_max]
        return self.pieces.piece(size_max, changed=chosen == 1)

    def short(self) -> str:
        """A short string: a text, or a piece of a file."""
        if self.dice.random() < 0.6:
            return self.texts.text()
        return self.data(NAME_BYTES_MAX).decode("utf-8", "surrogateescape")

    def table(self) -> Table:
        """Fields whose names and values are hostile, some within others. None means anything to the broker."""
        inner = {"h" + self.short()[:60]: Field("x", self.data(200))}
        return {
            "h" + self.short()[:100]: Field("S", self.data()),
            "harray": Field("A", [Field("S", self.data(300)), Field("F", inner), Field("l", -1), Field("V", None)]),
            "h" + self.texts.text()[:60]: Field("F", inner),
        }

    def message(self, key: str, body: bytes, *, exchange: str = "", user: str | None = None) -> Sent:
        """A persistent message, hostile in every property that may hold a text."""
        properties = BasicProperties(
            content_type=self.short(),
            content_encoding=self.short(),
            headers=self.table() if self.dice.random() < 0.7 else None,
            delivery_mode=2,
            priority=self.dice.randrange(256),
            correlation_id=self.short(),
            reply_to=self.short() or None,
            message_id=self.short(),
            timestamp=self.dice.choice((0, 1, (1 << 64) - 1, 1 << 62)),
            type=self.short(),
            user_id=user,
            app_id=self.short(),
            cluster_id=self.short(),
        )
        return Sent(body, encode_header(len(body), properties), exchange, key)


def without_line_breaks(name: str) -> str:
    """A name as RabbitMQ reads it where it is declared."""
    return name.replace("\r", "").replace("\n", "")


def encoded(text: str) -> bytes:
    """The bytes of a text, or those that stood in it as surrogates."""
    return text.encode("utf-8", "surrogateescape")


class AmqpHostility:
    """Declarations of one client in its virtual host."""

    def __init__(self, client: Client, vhost: str, contents: Contents) -> None:
        self._client = client
        self._vhost = vhost
        self._contents = contents

    def a_queue(self) -> Place | None:
        """A durable queue behind an exchange, all names hostile, with a message in it; None: refused in order."""
        contents, said = self._contents, self._contents.texts.name()
        place = Place(self._vhost, without_line_breaks(said), contents.dice.choice(QUEUE_TYPES))
        arguments: Table = {"x-queue-type": Field("S", place.kind.encode()), **contents.table()}
        if place.kind != STREAM:
            arguments["x-dead-letter-exchange"] = Field("S", encoded(contents.short()))
            arguments["x-dead-letter-routing-key"] = Field("S", encoded(contents.short()))
        exchange, key = without_line_breaks(contents.texts.name()), contents.short()
        kind = contents.dice.choice(EXCHANGE_TYPES)
        steps: list[Method] = [
            QueueDeclare(said, False, True, False, False, False, arguments),
            ExchangeDeclare(exchange, kind, False, True, False, False, False, contents.table()),
            QueueBind(place.queue, exchange, key, False, {} if kind == "headers" else contents.table()),
        ]
        if not all(self._taken(step) for step in steps):
            return None
        if kind == "topic":  # a key that has wildcards does not match itself
            sent = contents.message(place.queue, contents.data())
        else:
            sent = contents.message(contents.short() if kind == "headers" else key, contents.data(), exchange=exchange)
        publish(self._client, place, [sent])
        return place

    def dead_letters(self) -> list[Place]:
        """A queue in which every message dies at once, and the queue of its dead letters; all names hostile."""
        contents, texts = self._contents, self._contents.texts
        dying, dead_letters = (Place(self._vhost, without_line_breaks(texts.name())) for _ in range(2))
        exchange, key = without_line_breaks(texts.name()), contents.short()
        arguments: Table = {
            "x-message-ttl": Field("I", 0),
            "x-dead-letter-exchange": Field("S", encoded(exchange)),
            "x-dead-letter-routing-key": Field("S", encoded(key)),
        }
        steps: list[Method] = [
            ExchangeDeclare(exchange, "direct", False, True, False, False, False, {}),
            QueueDeclare(dead_letters.queue, False, True, False, False, False, {}),
            QueueBind(dead_letters.queue, exchange, key, False, {}),
            QueueDeclare(dying.queue, False, True, False, False, False, arguments),
        ]
        if not all(self._taken(step) for step in steps):
            return []
        sent = [contents.message(dying.queue, contents.data()) for _ in range(3)]
        publish(self._client, dying, sent)
        dying.taken(len(sent))
        eventually(lambda: ready(self._client, dead_letters.queue) == len(sent), "the dead letters to come")
        dead_letters.confirmed([each._replace(exchange=exchange, key=key) for each in sent])
        publish(
            self._client,
            dead_letters,
            [contents.message(dead_letters.queue, b"behind the dead letters, which are on disk then")],
        )
        return [dying, dead_letters]

    def a_consumer(self, place: Place) -> None:
        """A consumer with a hostile tag, the last that is said here: it is given what is in the queue, and keeps it."""
        tag = self._contents.texts.name()
        self._taken(BasicConsume(place.queue, tag, False, False, False, False, self._contents.table()))
        place.delivered, place.kept_out = len(place.held), True

    def _taken(self, method: Method) -> bool:
        """Say something. False when it is refused, as a client may be: the channel is closed with a code."""
        self._client.send(method)
        answer = self._client.receive()
        if isinstance(answer, ChannelClose):
            assert 400 <= answer.reply_code < 500, answer
            self._client.send(ChannelCloseOk())
            self._client.open_channel()
            return False
        assert getattr(answer, "NAME", "") == f"{method.NAME}-ok", f"{method} was answered with {answer}"
        return True


def hostile_connection(address: Address, vhost: str, user: str, password: str, contents: Contents) -> Client:
    """A connection whose client says hostile things of itself."""
    client = Client(address)
    client.send_raw(PROTOCOL_HEADER)
    client.peer.server_start = client.expect(ConnectionStart, channel=0)
    properties: Table = {
        "product": Field("S", contents.data(2000)),
        "version": Field("S", encoded(contents.texts.text())),
        "connection_name": Field("S", encoded(contents.texts.text())),
        "capabilities": Field("F", {}),
        "information": Field("F", {"h" + contents.short()[:100]: Field("S", contents.data(300))}),
    }
    response = f"\0{user}\0{password}".encode()
    client.send(ConnectionStartOk(properties, "PLAIN", response, "en_US"), channel=0)
    client.tune()
    client.send(ConnectionOpen(vhost), channel=0)
    client.expect(ConnectionOpenOk, channel=0)
    client.open_channel()
    return client


def failed_login(address: Address, contents: Contents) -> None:
    """Somebody with a hostile name whom nobody knows: it is logged, and the connection is closed."""
    client = Client(address)
    client.start(response=b"\0".join((b"", encoded(contents.short()), encoded(contents.short()))))
    client.expect_gone()
    client.close()


class HttpHostility:
    """Requests of an administrator by HTTP. Each answer must be one that HTTP knows, and no 5xx."""

    def __init__(self, address: Address, vhost: str, contents: Contents) -> None:
        self._address = address
        self._vhost = vhost
        self._contents = contents
        self.problems: list[str] = []

    def everything(self) -> list[Place]:
        """One of each kind of thing that can be made; the queues, with what was published into them."""
        texts, vhost = self._contents.texts, quote(self._vhost, safe="")
        made: list[Place] = []
        name = texts.readable_name()
        if self._put(f"/api/queues/{vhost}/{quote(name, safe='')}", {"durable": True, "arguments": self._values()}):
            made.append(self._published(Place(self._vhost, without_line_breaks(name))))
        exchange = {"type": "topic", "durable": True, "arguments": self._values()}
        self._put(f"/api/exchanges/{vhost}/{quote(texts.readable_name(), safe='')}", exchange)
        policy = {
            "pattern": "^never$",
            "definition": {"dead-letter-exchange": texts.readable_name()},
            "apply-to": "all",
        }
        self._put(f"/api/policies/{vhost}/{quote(texts.readable_name(), safe='')}", policy)
        self._put(f"/api/global-parameters/{quote(texts.readable_name(), safe='')}", {"value": self._values()})
        self._put(f"/api/vhosts/{quote(texts.readable_name(), safe='')}", {"description": texts.readable_name()})
        user = quote(texts.readable_name(), safe="")
        if self._put(f"/api/users/{user}", {"password": texts.readable_name(), "tags": "none"}):
            self._put(f"/api/permissions/{vhost}/{user}", {"configure": "^x$", "write": "^\\Q\n\\x1b", "read": "^$"})
        self._ask("GET", f"/api/queues/{vhost}/{quote(texts.readable_name(), safe='')}")
        self._ask("GET", f"/api/queues?page=1&name={quote(texts.readable_name())}&use_regex=true")
        self._ask("GET", f"/api/definitions?columns=users&download={quote(texts.readable_name())}")
        self._ask("DELETE", f"/api/connections/{quote(texts.readable_name(), safe='')}", {}, X_Reason="\x1b[31m\t\x7f")
        return made

    def an_import(self) -> list[Place]:
        """Definitions with hostile names in every section; the queues that are there afterwards."""
        texts = self._contents.texts
        vhost, user, exchange, queue = (texts.readable_name() for _ in range(4))
        definitions = {
            "vhosts": [{"name": vhost, "description": texts.readable_name()}],
            "users": [{"name": user, "password": texts.readable_name(), "tags": [texts.readable_name()]}],
            "permissions": [
                {"user": each, "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"}
                for each in (user, "guest")
            ],
            "topic_permissions": [{"user": user, "vhost": vhost, "exchange": exchange, "write": "^$", "read": "^$"}],
            "queues": [_durable(queue, vhost, self._values())],
            "exchanges": [{**_durable(exchange, vhost, self._values()), "type": "direct", "internal": False}],
            "bindings": [
                {
                    "source": exchange,
                    "vhost": vhost,
                    "destination": queue,
                    "destination_type": "queue",
                    "routing_key": texts.readable_name(),
                    "arguments": self._values(),
                }
            ],
            "policies": [
                {
                    "name": texts.readable_name(),
                    "vhost": vhost,
                    "pattern": "^never$",
                    "definition": {"dead-letter-routing-key": texts.readable_name()},
                    "apply-to": "queues",
                    "priority": 0,
                }
            ],
            "global_parameters": [{"name": texts.readable_name(), "value": self._values()}],
        }
        return [Place(vhost, queue)] if self._ask("POST", "/api/definitions", definitions) else []

    def _values(self) -> dict[str, Any]:
        texts = self._contents.texts
        return {"h" + texts.readable_name()[:100]: texts.readable_name(), "hlist": [texts.readable_name(), -1, True]}

    def _published(self, place: Place) -> Place:
        body = self._contents.data()
        message = {
            "properties": {
                "delivery_mode": 2,
                "app_id": self._contents.texts.readable_name(),
                "headers": self._values(),
            },
            "routing_key": place.queue,
            "payload": b64encode(body).decode(),
            "payload_encoding": "base64",
        }
        path = f"/api/exchanges/{quote(place.vhost, safe='')}/amq.default/publish"
        if self._ask("POST", path, message):
            place.confirmed([Sent(body, b"", "", place.queue)])
        return place

    def _put(self, path: str, body: dict[str, Any]) -> bool:
        return self._ask("PUT", path, body)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None, **headers: str) -> bool:
        """Ask for something: was it done? An answer that is none, or says that the broker is at fault, is a problem."""
        sent = None if body is None else json.dumps(body).encode()
        try:
            reply = ask(self._address, path, method=method, body=sent, **headers)
        except (HTTPException, ValueError, OSError) as error:
            self.problems.append(f"{method} {path[:200]}: {type(error).__name__}: {error}")
            return False
        if reply.status >= 500:
            self.problems.append(f"{method} {path[:200]}: {reply.status} {shown(reply.body)}")
        if not reply.headers.keys() <= HEADERS or not all(map(str.isprintable, reply.headers.values())):
            self.problems.append(f"{method} {path[:200]}: headers {reply.headers!a}")
        return reply.status < 300


def _durable(name: str, vhost: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "vhost": vhost, "durable": True, "auto_delete": False, "arguments": arguments}


def readable(place: Place) -> bool:
    """True if HTTP can name the queue and its virtual host."""
    return is_text(place.queue) and is_text(place.vhost)
