"""One round of the campaign, drawn from its seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

MEBIBYTE = 1 << 20
MEMORY_BYTES = 192 * MEBIBYTE
"""The broker's memory: limited by a control group if one can be made, and measured in any case. It takes 30 idle."""
DESCRIPTORS = 160
"""Open files that it may have; the broker keeps 64 of them to itself."""
WATERMARK = 1 / 3
"""The part of it from which on publishers wait; their clients may have sent much before they notice."""
HOGS = 24
"""Clients that together take enough memory to make publishers wait; two mebibytes of each lie in the broker."""
PUBLISHERS = 50
"""Clients that publish on although they are blocked; a mebibyte of each is taken."""
TTL_SECONDS = 2.0
OUTAGES_SECONDS = (0.0, 0.5, 2 * TTL_SECONDS)
SLOW_MILLISECONDS = (50, 200, 1000, 3000, 10_000)
LEFT_BYTES = (0, 1 * MEBIBYTE, 6 * MEBIBYTE)
"""Bytes left on the disk by whoever fills it."""
FREE_LIMITS_BYTES = (0, 8 * MEBIBYTE)
"""Limits of the disk alarm: none, so that commits find the disk full, and one above what is left."""

TROUBLES = {"fill": 4, "pause": 2, "slow": 2, "flood": 2, "hog": 2, "publishers": 2, "nothing": 2}
"""Troubles, and the relative frequency of each. `Troubles` has a method for each."""
ENDS = {"fill": "free", "pause": "go on", "slow": "quick"}
"""The end of a trouble that has one. It happens sooner or later, or all are ended together."""
END_WEIGHT = 5
ONCE = frozenset(("hog", "publishers"))
"""Troubles that happen at most once in a life, so that both together fit into the memory, however late the alarm is."""


class Size(NamedTuple):
    """The size of a round."""

    disk_bytes: int
    backlog_messages: int
    """A message has 60,000 bytes on average."""
    troubles: tuple[int, int]
    seconds_max: float
    """Longest time from a trouble to the next thing."""
    slow_milliseconds_max: int
    clients: int


SMALL = Size(384 * MEBIBYTE, 1000, (2, 4), 0.6, 200, 1)
LARGE = Size(2048 * MEBIBYTE, 12_000, (4, 9), 5.0, 10_000, 3)


class Trouble(NamedTuple):
    """One thing that happens; `amount` is in the unit of its kind; then nothing more does for `seconds`."""

    kind: str
    amount: int
    seconds: float

    def __str__(self) -> str:
        amount = f" {self.amount}" if self.amount else ""
        return f"{self.kind}{amount} ({self.seconds:.1f} s)"


@dataclass(frozen=True)
class Plan:
    """A round: two lives of the broker, the first of which may end with all its troubles unmended, and a third."""

    seed: int
    size: Size
    file_system: str
    control_group: bool
    scenarios: tuple[int, ...]
    lives: tuple[tuple[Trouble, ...], ...]
    outages: tuple[float, ...]
    stops: bool
    """The last life ends in order."""
    free_limit_bytes: int

    def __str__(self) -> str:
        lives = " | killed, and ".join(", ".join(map(str, life)) for life in self.lives)
        memory = "control group" if self.control_group else "memory limit set"
        return (
            f"round {self.seed} on {self.file_system}, {memory}, disk alarm at {self.free_limit_bytes >> 20} MiB, "
            f"scenarios {self.scenarios}: {lives} | "
            f"mended, and {'stopped' if self.stops else 'killed'}; away for {self.outages} s"
        )

    @classmethod
    def drawn(cls, seed: int, size: Size) -> Plan:
        """The round of a seed."""
        dice = random.Random(seed)
        lives = tuple(tuple(_troubles(dice, size)) for _ in range(dice.choice((1, 2))))
        # Files in a file system in memory count in a control group.
        file_system, control_group = dice.choice((("tmpfs", False), ("ext4", False), ("ext4", True)))
        return cls(
            seed=seed,
            size=size,
            file_system=file_system,
            control_group=control_group,
            scenarios=tuple(sorted(dice.sample(range(5), size.clients))),
            lives=lives,
            outages=tuple(dice.choice(OUTAGES_SECONDS) for _ in lives),
            stops=dice.random() < 0.3,
            free_limit_bytes=dice.choice(FREE_LIMITS_BYTES),
        )


def _troubles(dice: random.Random, size: Size) -> list[Trouble]:
    """A while without trouble, in which backlogs grow; then one after the other, in one another's midst."""
    troubles = [Trouble("nothing", 0, dice.uniform(size.seconds_max / 2, size.seconds_max))]
    going_on = set[str]()
    for _ in range(dice.randint(*size.troubles)):
        weights = {kind: weight for kind, weight in TROUBLES.items() if kind not in going_on or kind == "fill"}
        weights |= {ENDS[kind]: END_WEIGHT for kind in sorted(going_on - ONCE)}
        kind = dice.choices(list(weights), list(weights.values()))[0]
        going_on = (going_on | ({kind} & (ENDS.keys() | ONCE))) - {begun for begun, end in ENDS.items() if end == kind}
        troubles.append(Trouble(kind, _amount(dice, kind, size), dice.uniform(0.1, size.seconds_max)))
    return troubles


def _amount(dice: random.Random, kind: str, size: Size) -> int:
    if kind == "slow":
        return dice.choice([one for one in SLOW_MILLISECONDS if one <= size.slow_milliseconds_max])
    return {"fill": dice.choice(LEFT_BYTES), "hog": HOGS, "publishers": PUBLISHERS, "flood": 2 * DESCRIPTORS}.get(
        kind, 0
    )
