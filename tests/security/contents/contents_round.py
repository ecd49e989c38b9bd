"""One round: a broker that is told hostile contents in each of its lives, and looked at after each end of one."""

from __future__ import annotations

import random
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from harness.brokers.http_broker import web_address
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from storage.offline.verify_messages import verify
from tests.durability.kills.cycle import BrokenPromiseError
from tests.security.contents import shown_outputs as outputs
from tests.security.contents.disk_images import (
    BODY_BYTES_MAX,
    PAGE_BYTES,
    Pieces,
    covering,
    tiled,
    without_journal,
)
from tests.security.contents.forged_records import Forger
from tests.security.contents.hostile_texts import BYTES, Texts
from tests.security.contents.hostile_topology import (
    AmqpHostility,
    Contents,
    HttpHostility,
    failed_login,
    hostile_connection,
)
from tests.security.contents.kept_messages import (
    CLASSIC,
    QUORUM,
    STREAM,
    Place,
    Sent,
    persistent,
    publish,
    publish_unanswered,
    read,
    take,
)
from tests.security.contents.told_broker import ToldBroker

PASSWORD = "Mallory's"
BOX = "box"
OTHER = "other"
KILL_CHANCE = 0.5
LISTED = "queues", "exchanges", "bindings", "connections", "consumers", "vhosts", "users", "permissions"
IN_VHOSTS = "queues", "exchanges", "bindings", "consumers", "permissions"
CTL_FORMS = "table", "pretty_table", "json", "csv", "erlang"
ADMIN_FORMS = "table", "tsv", "long", "kvp", "pretty_json"
ADMIN_STYLES = "modern", "borderless", "psql", "ascii"
"""Formats of rabbitmqadmin: of version 1, and styles of version 2."""


class Scale(NamedTuple):
    """Amounts of contents in each life."""

    lives: int
    messages: int
    """To each queue of the others."""
    forgeries: int
    """Bodies full of forged records, 0.5 to 1 MiB each: before other contents, and behind them."""
    bodies: int
    """Others in the box."""
    queues: int
    """With hostile names."""
    audited: bool
    """Also audit the event log in the end, which takes some seconds."""


SMALL = Scale(2, 5, 3, 8, 3, audited=False)
LARGE = Scale(6, 12, 7, 24, 8, audited=True)


class Round:
    """A broker on a data directory of its own. Everything that is said and done follows from the seed."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        scale: Scale,
        *,
        of_the_journal: bool = True,
        form: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`of_the_journal`: pieces of it and forged records are among the contents, too. `form`: of the log."""
        options = "" if of_the_journal else " --without-journal"
        size = " --small" if scale == SMALL else ""
        again = f"python -m tests.security.contents --seed {seed} --rounds 1{size}{options}"
        self.told = ToldBroker(directory, seed, again, form=form, environment=environment)
        self.scale = scale
        self.said = Counter[str]()
        self._of_the_journal = of_the_journal
        self._texts = Texts(self.told.dice("texts"))
        self.hostile_vhost = self._texts.readable_name()
        self.mallory = self._texts.readable_name().replace("\0", "")
        """A user without tags, who may do nothing but publish into one queue and read it."""
        self.victims = [
            Place("/", "classic"),
            Place("/", "quorum", QUORUM),
            Place("/", "stream", STREAM),
            Place(OTHER, "classic"),
        ]
        self.box = Place(self.hostile_vhost, BOX)
        self.made: list[Place] = []
        """Queues with hostile names."""
        self._consumed: Place | None = None
        self.uuid = b""
        self._definitions: dict[str, list[str]] = {}

    @property
    def places(self) -> list[Place]:
        """All queues there are."""
        return [*self.victims, self.box, *self.made]

    def go_through(self) -> None:
        """All lives of the broker, and a look at what it has left. Raises BrokenPromiseError."""
        try:
            self._go_through()
        except BrokenPromiseError:
            raise
        except (AssertionError, EOFError, OSError) as error:  # a client was not answered as it must be
            raise self.told.broken(["".join(traceback.format_exception(error))]) from error

    def _go_through(self) -> None:
        self.begin()
        for _ in range(self.scale.lives):
            self.live()
            self.end_life(killed=self.told.dice("end").random() < KILL_CHANCE)
            self.told.start()
            self.look()
        self.finish()

    def begin(self) -> None:
        """Start for the first time; queues of the victims come first, so their ids are the first ones."""
        self.told.start()
        for vhost in (OTHER, self.hostile_vhost):
            self.told.process.tell("add_vhost", name=vhost, description="", tags=[], default_queue_type="")
            self.told.allow(vhost, "guest", ".*", ".*", ".*")
        self.told.process.tell("add_user", name=self.mallory, password=PASSWORD, tags=[])
        self.told.allow(self.hostile_vhost, self.mallory, "^$", "^amq\\.default$", f"^{BOX}$")
        for place in (*self.victims, self.box):
            with self.told.guest(place.vhost) as client:
                client.ask(queue_declare(place.queue, durable=True, arguments={"x-queue-type": place.kind}))
        self.uuid = self.told.uuid()

    def live(self) -> None:
        """Everybody says something, and what is shown of it is looked at while all are connected."""
        self.victims_publish()
        self._forge("early")
        self._fill_box()
        address = self.told.process.address
        hostile = hostile_connection(address, self.hostile_vhost, "guest", "guest", self._contents("connection"))
        with closing(hostile):
            self._say_by_amqp(hostile)
            self._say_by_http()
            failed_login(address, self._contents("login"))
            self.told.expect_none(
                *outputs.metric_problems(self.told.process, self.places),
                *outputs.api_problems(self.told.process, self.places),
                *self._listed_problems(self.told.dice("list")),
            )
        self._forge("late")

    def _forge(self, when: str) -> None:
        """Mallory publishes bodies with forged records at every place of a page, and then little ones."""
        if not self._of_the_journal:
            return
        forger, dice = Forger(self.uuid, range(1, len(self.victims) + 2)), self.told.dice(f"forged {when}")
        for _ in range(self.scale.forgeries):
            if self.told.real and dice.random() < 0.3:
                forged = forger.from_real(dice.choice(self.told.real), dice)
            else:
                forged = forger.from_nothing(self.told.boot, dice)
            self.publish_as_mallory(covering(forged, dice), b"little")
            self.said["forged records"] += 1

    def end_life(self, *, killed: bool) -> None:
        """The broker is killed with publishes in flight, or stopped. Its files are kept."""
        self._definitions = outputs.definitions(self.told.process)
        if killed:
            self._publish_in_flight()
            self.told.process.kill()
            self.said["kills"] += 1
        else:
            self.told.stop()
            self.said["stops"] += 1
        self.told.keep_a_copy()
        self.said["real records"] += len(self.told.real)

    def look(self) -> None:
        """Every queue holds what was sent, definitions are what they were, and the log's lines are its own."""
        problems: list[str] = []
        for place in self.places:
            with self.told.guest(place.vhost) as client:
                problems += read(client, place)
            self.said["messages read"] += len(place.held)
        problems += outputs.definition_problems(self._definitions, outputs.definitions(self.told.process))
        problems += outputs.log_problems(self.told.process.log(), self.told.form)
        self.told.expect_none(*problems)

    def finish(self) -> None:
        """Stop, and read what is left with the commands for stopped brokers."""
        self.told.stop()
        data = self.told.process.data_dir
        report = verify(data / "messages")
        self.told.expect_none(
            *(f"the store: {problem}" for problem in report.problems),
            *([f"{report.set_aside} records were set aside"] if report.set_aside else []),
            *outputs.event_problems(self.told.process, self.places),
            *outputs.printed_problems(data, "check"),
            *outputs.printed_problems(data, "inspect", "--bodies", "--limit", "1000"),
            *outputs.inspected_problems(data, self.places),
            *(outputs.report_problems(data, self.told.directory / "audit") if self.scale.audited else []),
        )

    def _listed_problems(self, dice: random.Random) -> list[str]:
        """By our commands, and by RabbitMQ's on a terminal."""
        listed, data, vhost = dice.choice(LISTED), self.told.process.data_dir, self.hostile_vhost
        ctl = ("rabbitmqctl", f"list_{listed}", *(("-p", vhost) if listed in IN_VHOSTS and "\0" not in vhost else ()))
        port = str(web_address(self.told.process)[1])
        return [
            *outputs.printed_problems(data, "list", listed),
            *outputs.printed_problems(data, "report"),
            *outputs.terminal_problems(data, *ctl, "--formatter", dice.choice(CTL_FORMS)),
            *outputs.terminal_problems(
                data, "rabbitmqadmin", "-P", port, "list", listed, "-f", dice.choice(ADMIN_FORMS)
            ),
            *outputs.terminal_problems(
                data, "rabbitmqadmin", "-P", port, "--table-style", dice.choice(ADMIN_STYLES), "list", listed
            ),
            *self._peek_problems(dice),
        ]

    def _peek_problems(self, dice: random.Random) -> list[str]:
        named = [place for place in self.places if "\0" not in place.vhost + place.queue and place.held]
        if not named:
            return []
        place = dice.choice(named)
        data = self.told.process.data_dir
        return outputs.terminal_problems(data, "peek", "-p", place.vhost, "--count", "1000", "--", place.queue)

    # What is said

    def _contents(self, subject: str) -> Contents:
        dice = self.told.dice(subject)
        files = self.told.files(dice)
        pieces = Pieces(files if self._of_the_journal else without_journal(files), self.told.dice(f"{subject} pieces"))
        return Contents(dice, self._texts, pieces)

    def victims_publish(self) -> None:
        dice = self.told.dice("victims")
        for place in self.victims:
            with self.told.guest(place.vhost) as client:
                first = place.published
                publish(client, place, [_numbered(place, first + at) for at in range(self.scale.messages)])
                if place.kind != STREAM:
                    take(client, place, dice.randrange(1 + len(place.held) // 2))

    def _fill_box(self) -> None:
        with self.told.guest(self.hostile_vhost) as client:
            take(client, self.box, len(self.box.held))
        contents = self._contents("box")
        self.publish_as_mallory(*(_body(contents) for _ in range(self.scale.bodies)))
        sent = [contents.message(BOX, contents.data(), user=self.mallory) for _ in range(self.scale.bodies)]
        self.publish_as_mallory(*sent)
        self.said["hostile messages"] += len(sent)

    def publish_as_mallory(self, *contents: bytes | Sent) -> None:
        with closing(
            Client.connect(self.told.process.address, vhost=self.hostile_vhost, user=self.mallory, password=PASSWORD)
        ) as client:
            sent = [each if isinstance(each, Sent) else persistent(each, BOX) for each in contents]
            publish(client, self.box, sent)
        self.said["hostile bodies"] += len(contents)

    def _say_by_amqp(self, client: Client) -> None:
        hostility = AmqpHostility(client, self.hostile_vhost, self._contents("queues"))
        made = [place for _ in range(self.scale.queues) if (place := hostility.a_queue()) is not None]
        self._consumed = next((place for place in made if place.kind == CLASSIC), self._consumed)
        made += hostility.dead_letters()
        self.made += made
        self.said["hostile queues"] += len(made)
        if self._consumed is not None:
            hostility.a_consumer(self._consumed)

    def _say_by_http(self) -> None:
        hostility = HttpHostility(web_address(self.told.process), self.hostile_vhost, self._contents("http"))
        made = [*hostility.everything(), *hostility.an_import()]
        self.made += made
        self.said["hostile queues"] += len(made)
        self.told.expect_none(*hostility.problems)

    def _publish_in_flight(self) -> None:
        for place in self.victims:
            if place.kind != STREAM:
                client = Client.connect(self.told.process.address, vhost=place.vhost)
                count = place.published
                publish_unanswered(client, place, [_numbered(place, count + at) for at in range(self.scale.messages)])
                client.close()


def _body(contents: Contents) -> bytes:
    """Something of another protocol, a short piece of a file at many places, or a piece behind zeros."""
    chosen = contents.dice.randrange(4)
    if chosen == 0:
        return contents.dice.choice(BYTES)
    begin = contents.dice.randrange(PAGE_BYTES)
    if chosen == 1:
        return tiled(contents.pieces.piece(255), contents.dice.randrange(BODY_BYTES_MAX), begin)
    return bytes(begin) + contents.pieces.piece(changed=chosen == 2)


def _numbered(place: Place, number: int) -> Sent:
    return persistent(b"%d of the victim's" % number + b"." * (number % 7 * 100), place.queue, message_id=str(number))


@contextmanager
def prepared(directory: Path, seed: int, scale: Scale, **options: Any) -> Iterator[Round]:
    """A round whose broker is let go in the end."""
    one = Round(directory, seed, scale, **options)
    try:
        yield one
    finally:
        one.told.abandon()
