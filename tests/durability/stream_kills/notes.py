"""Notes of a run that outlast it: how many of each part were killed, and which numbers were confirmed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

PART = 10_000_000
"""Numbers of one sitting: the next one begins with others, because nobody knows what was confirmed when it ended."""


class Notes:
    """Kept in a file, which is written whenever something was killed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        known = json.loads(file.read_text()) if file.exists() else {"sittings": 0, "killed": {}, "confirmed": {}}
        self._killed = Counter[str](known["killed"])
        self._confirmed: dict[str, dict[str, int]] = known["confirmed"]
        """By labels of brokers: the first number of each sitting, and the one after the last that was confirmed."""
        self._sittings: int = known["sittings"] + 1
        self.first = known["sittings"] * PART
        self._write()

    def add(self, victim: str, confirmed: Mapping[str, int]) -> None:
        """Note a kill, and the numbers that are next, by labels."""
        self._killed[victim] += 1
        self.confirm(confirmed)

    def confirm(self, confirmed: Mapping[str, int]) -> None:
        """Note the numbers that are next, by labels."""
        for label, number in confirmed.items():
            self._confirmed.setdefault(label, {})[str(self.first)] = number
        self._write()

    def numbers(self, label: str) -> set[int]:
        """Every number that a broker has confirmed."""
        return set(chain(*(range(int(first), end) for first, end in self._confirmed[label].items())))

    @property
    def kills(self) -> str:
        """The kills in words."""
        each = ", ".join(f"{count} of the {victim}" for victim, count in sorted(self._killed.items()))
        return f"{self._killed.total()} kills: {each}"

    def _write(self) -> None:
        known = {"sittings": self._sittings, "killed": self._killed, "confirmed": self._confirmed}
        written = self._file.with_suffix(".new")
        written.write_text(json.dumps(known))
        written.replace(self._file)
