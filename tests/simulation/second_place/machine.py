"""A machine with a data directory: it runs a broker that ships, or a standby, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from random import Random
from typing import final

from broker.server.commits.commit_thread import CatchUp
from broker.server.commits.held_confirms import HeldConfirms
from broker.server.shipping import ship_thread
from broker.server.shipping.ship_thread import ShipRules, ShipThread
from broker.server.standby.follower import Follower
from storage.ship.place_owner import Fenced, PlaceOwner, refuse_fenced
from storage.ship.retention import ShipRetention
from storage.ship.ship_buffer import ShipBuffer
from storage.ship.standby.follow_note import refuse_following
from storage.storage_errors import StoreError
from tests.simulation.second_place.place import Place, PlaceOfMachine
from tests.simulation.second_place.turn_taking import Turn, TurnThreads, this_turn
from tests.simulation.world.disk import Disk
from tests.simulation.world.memory import Memory
from tests.simulation.world.process import Process
from tests.simulation.world.virtual_time import Agenda

PLACE = "the place"
RULES = ShipRules(1.0, 1 << 20, 20.0, 2000, 0, ShipRetention(15.0, 1))
BUFFER_BYTES = (1 << 20, 4000)
CATCH_UP_STEP = 1
DROPPED = "were not shipped"
"""Words on records that the buffer had no room for: their confirms wait for the next base."""


class Stage(Enum):
    """The thing that a machine does."""

    DOWN = "down"
    STARTS = "starts"
    SERVES = "serves"
    FOLLOWS = "follows"


@final
class Machine:
    """One machine. `tell` is given what happens, `on_promotion` is called when its standby has become the broker's."""

    def __init__(
        self,
        name: str,
        directory: Path,
        agenda: Agenda,
        place: Place,
        chance: Random,
        tell: Callable[[str], None],
        on_promotion: Callable[[Machine], None],
    ) -> None:
        self.name = name
        self.stage = Stage.DOWN
        self.refusal = ""
        """Why its broker did not start, or stopped."""
        self.target = PlaceOfMachine(place)
        self.process: Process | None = None
        self.promoting = False
        self._directory = directory
        self._agenda = agenda
        self._chance = chance
        self._tell = tell
        self._on_promotion = on_promotion
        self._disk = Disk(Random(chance.random()), directory)
        self._turn: Turn | None = None
        self._follower: Follower | None = None
        self._paused_until = 0
        self._starts = 0
        self._was_fenced = False

    # A broker

    def start(self) -> None:
        """Start a broker, if the place and the directory let it."""
        self.stage, self.refusal = Stage.STARTS, ""
        self._turn = Turn(self._agenda, self._claim, self._held_for)

    def _claim(self) -> None:
        owner = PlaceOwner(self.target, PLACE, self._directory)
        try:
            refuse_following(self._directory)
            refuse_fenced(self._directory)
            owner.claim()
        except StoreError as error:
            self.stage, self.refusal = Stage.DOWN, str(error)
            self._was_fenced |= isinstance(error, Fenced)
            return
        except OSError:
            pass  # it serves, and the place is asked again
        self._agenda.after(0, lambda: self._serve(owner) if self.stage is Stage.STARTS else None)

    def _serve(self, owner: PlaceOwner) -> None:
        assert not self._was_fenced, f"{self.name} was fenced, and serves again"
        self._starts += 1
        self._directory.mkdir(exist_ok=True)
        seed = f"{self._chance.random()} {self._starts}"
        process = self.process = Process(self._directory, self._agenda, self._disk, Memory(), seed, self.kill)
        messages, definitions = process.stores.messages, process.stores.definitions
        assert messages.journal.numbers_all
        buffer = ShipBuffer(
            self._chance.choice(BUFFER_BYTES), lambda: thread.abort_base(), lambda: self._tell_safe(process)
        )
        process.committer.held_confirms = HeldConfirms(buffer, self._agenda.times.monotonic)
        messages.journal.on_durable, definitions.on_durable = buffer.batch, buffer.definitions
        setattr(ship_thread, "threading", TurnThreads(self._agenda, self._ships, self._held_for))  # noqa: B010
        thread = ShipThread(messages, definitions, self.target, RULES, buffer, self._directory, self._catch_up)
        thread.start(owner, lambda error: self._agenda.after(0, lambda: self._fenced(error)))
        self.stage = Stage.SERVES
        self._tell(f"{self.name} serves, epoch {owner.epoch}")

    def _ships(self, turn: Turn) -> None:
        self._turn = turn

    def _tell_safe(self, process: Process) -> None:
        self._agenda.after(0, lambda: process.when_running(process.committer.shipped))

    def _catch_up(self) -> None:
        done: list[object] = []
        assert self.process is not None
        self.process.writer.hand_over(CatchUp(done.append))
        while not done:
            this_turn().pause(CATCH_UP_STEP)

    def _fenced(self, error: Fenced) -> None:
        """Stop in order, as the server does."""
        if self.stage is Stage.SERVES and self.process is not None:
            self._tell(f"{self.name} is fenced")
            self.refusal, self._was_fenced = str(error), True
            self.process.paused = False
            self.process.stop()
            self.process, self.stage = None, Stage.DOWN

    # A standby

    def follow(self) -> None:
        """Run a standby."""
        self.stage = Stage.FOLLOWS
        self._directory.mkdir(exist_ok=True)
        self._turn = Turn(self._agenda, self._follow, self._held_for)

    def _follow(self) -> None:
        follower = self._follower = Follower(self.target, PLACE, self._directory, lambda: None, lambda: None)
        follower.stores.open()
        while not (self.promoting and self._promoted(follower)):
            if not follower.step():
                this_turn().pause(round(follower.poll * 1000))

    def _promoted(self, follower: Follower) -> bool:
        self.promoting = False
        try:
            promotion = follower.promote(without_place=False)
        except (StoreError, OSError) as error:
            self._tell(f"{self.name} is not promoted: {error}")
            return False
        unforeseen = [problem for problem in promotion.problems if DROPPED not in problem]
        assert not unforeseen, unforeseen
        self._tell(f"{self.name} is promoted, up to position {promotion.note.position}")
        self._follower = None
        self._agenda.after(0, lambda: self._on_promotion(self))
        return True

    # Mishaps

    def pause(self, milliseconds: int) -> None:
        """The process does nothing for this time."""
        self._paused_until = max(self._paused_until, self._agenda.times.now + milliseconds)
        process = self.process
        if process is not None and not process.paused:
            process.paused = True
            self._agenda.after(milliseconds, lambda: process.go_on() if process.alive and process.paused else None)

    def _held_for(self) -> int:
        return max(0, self._paused_until - self._agenda.times.now)

    def kill(self) -> None:
        """The process is gone."""
        if self.stage is not Stage.DOWN:
            self._tell(f"{self.name} is killed while it {self.stage.value}")
        self.stage, self.promoting = Stage.DOWN, False
        if self._turn is not None:
            self._turn.kill()
        if self.process is not None:
            self.process.kill()
        if self._follower is not None and self._follower.stores.store is not None:
            self._follower.stores.store.close()  # what was not committed is gone
        self.process = self._turn = self._follower = None
