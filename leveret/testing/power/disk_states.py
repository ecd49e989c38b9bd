"""The disk states that a power failure may leave.

The model is stricter than any one file system. What is certain: data written to a file before an fsync or fdatasync
of it, or through an O_DSYNC descriptor; a directory's names after an fsync of the directory. Nothing else is: of the
later writes any subset may be there, each torn at any 512-byte sector, and of a directory's later changes of names any
prefix, whatever became of the files' data. A rename is one change, also one from a directory into another: both have
it, or neither. A sync of a file does not make its name certain.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from leveret.testing.power.disk_record import Event

SECTOR = 512

Write = tuple[int, bytes | None]
"""An offset and the data written there; or a size and None: the file was truncated or allocated to this size."""

IGNORED = ("lock.mdb", "-shm")
"""Files that are changed through mmap, which is not recorded. LMDB and SQLite create them again at a start."""


PAGE = 4096


class Content:
    """A file's bytes. Pages that were never written are not kept: a store's ballast is megabytes of zeros.

    `digest` is equal for equal bytes. It is the sum of the digests of pages, so that a write costs only its pages.
    """

    __slots__ = ("data", "digest", "size")

    def __init__(self, data: bytearray | None = None, size: int = 0, digest: int = 0) -> None:
        self.data = bytearray() if data is None else data
        self.size = size
        self.digest = digest

    def copy(self) -> Content:
        """Return an independent copy."""
        return Content(bytearray(self.data), self.size, self.digest)

    def apply(self, write: Write) -> None:
        """Apply a write."""
        at, written = write
        if written is None:
            self._cut(at)
            return
        start, end = min(at, len(self.data)), at + len(written)
        self.digest ^= self._digest_of(start, end)
        if len(self.data) < at:
            self.data.extend(bytes(at - len(self.data)))
        self.data[at:end] = written
        self.digest ^= self._digest_of(start, end)
        self.size = max(self.size, end)

    def _cut(self, at: int) -> None:
        if at < len(self.data):
            self.digest ^= self._digest_of(at, len(self.data))
            del self.data[at:]
            self.digest ^= self._digest_of(at, at + 1)
        self.size = at

    def _digest_of(self, start: int, end: int) -> int:
        """Return the sum of the digests of the pages of some bytes; a page that was never written counts 0."""
        digest = 0
        for at in range(start - start % PAGE, min(end, len(self.data)), PAGE):
            page = blake2b(self.data[at : at + PAGE], digest_size=8, salt=at.to_bytes(8, "little"))
            digest ^= int.from_bytes(page.digest(), "little")
        return digest


class File:
    """A file's certain content, and its uncertain writes."""

    def __init__(self) -> None:
        self.certain = Content()
        self.later: list[tuple[Write, bool]] = []  # a write, and whether it is certain although one before is not
        self.size = 0

    def write(self, write: Write, *, certain: bool) -> None:
        """Add a write; `certain` if it is synced at once."""
        at, written = write
        self.size = at if written is None else max(self.size, at + len(written))
        self.later.append((write, certain))
        self._settle()

    def end_write(self) -> None:
        """Make the last write certain, though those before it are not."""
        self.later[-1] = self.later[-1][0], True
        self._settle()

    def sync(self) -> None:
        """Make all writes certain."""
        self.later = [(write, True) for write, _certain in self.later]
        self._settle()

    def _settle(self) -> None:
        done = 0
        for write, certain in self.later:
            if not certain:
                break
            self.certain.apply(write)
            done += 1
        del self.later[:done]

    @property
    def uncertain(self) -> int:
        """Number of uncertain writes."""
        return sum(not certain for _write, certain in self.later)

    def after(self, choose: Callable[[Write], Iterable[Write]]) -> Content:
        """Return the content after a crash. `choose` returns the parts that are left of an uncertain write."""
        content = self.certain.copy()
        for write, certain in self.later:
            for piece in (write,) if certain else choose(write):
                content.apply(piece)
        return content


Change = tuple[str, str, "File | Directory | None"]
"""('link', name, node), ('unlink', name, None) or ('rename old name', new name, None)."""


class Move(NamedTuple):
    """A rename from one directory into another, when it is the last change of both so far."""

    source: Directory
    target: Directory


class Directory:
    """A directory's certain names, and its uncertain changes.

    `moves`: the changes that another directory shares, each with the number of changes up to it.
    """

    def __init__(self) -> None:
        self.certain: dict[str, File | Directory] = {}
        self.now: dict[str, File | Directory] = {}
        self.later: list[Change] = []
        self.moves: list[tuple[Move, int]] = []

    def change(self, change: Change) -> None:
        """Add a change: a name is created, removed or renamed."""
        self.later.append(change)
        rename(self.now, change)

    def sync(self) -> None:
        """Make all changes certain."""
        self._settle(len(self.later))

    def move(self, name: str, target: Directory, new_name: str) -> None:
        """Rename a file or directory into another directory."""
        move = Move(self, target)
        target.change(("link", new_name, self.now[name]))
        self.change(("unlink", name, None))
        for directory in move:
            directory.moves.append((move, len(directory.later)))

    def _settle(self, changes: int) -> None:
        """Make the first `changes` uncertain changes certain, and moves among them in the other directory as well."""
        for change in self.later[:changes]:
            rename(self.certain, change)
        del self.later[:changes]
        done = [move for move, at in self.moves if at <= changes]
        self.moves = [(move, at - changes) for move, at in self.moves if at > changes]
        for move in done:
            for directory in move:
                for other, at in list(directory.moves):
                    if other is move:
                        directory._settle(at)

    def after(self, changes: int) -> dict[str, File | Directory]:
        """Return the names after a crash that kept the first `changes` uncertain changes."""
        names = dict(self.certain)
        for change in self.later[:changes]:
            rename(names, change)
        return names


def rename(names: dict[str, File | Directory], change: Change) -> None:
    """Apply a change to names."""
    what, name, node = change
    if what == "link" and node is not None:
        names[name] = node
    elif what == "unlink":
        names.pop(name, None)
    else:
        names[name] = names.pop(what)


class Disk:
    """Follows a record, and makes the disk states that a crash at this point may leave."""

    def __init__(self, root: Path) -> None:
        self._root_path = str(root.resolve())
        self._root = Directory()
        self._open: dict[int, File | Directory] = {}
        self._begun: File | None = None

    @classmethod
    def found(cls, root: Path) -> Disk:
        """Return a disk with the present files below a directory, all certain."""
        disk = cls(root)
        _take_in(disk._root, root)
        return disk

    # Following the record

    def begin(self, event: Event) -> None:
        """Apply the next event, a write that is synced at once, as one that has not ended: it is uncertain."""
        node = self._open[event.handle]
        if isinstance(node, File):
            node.write((event.number, event.payload), certain=False)
            self._begun = node

    def follow(self, event: Event) -> None:
        """Apply the next event."""
        if self._begun is not None:
            self._begun.end_write()
            self._begun = None
            return
        if event.kind == "o":
            self._opened(event)
        elif event.kind in "whtaf":
            self._on_handle(event)
        elif event.kind == "d":
            parent, name = self._find(event.path)
            parent.change(("link", name, Directory()))
        elif event.kind == "u":
            parent, name = self._find(event.path)
            parent.change(("unlink", name, None))
        elif event.kind == "n":
            old, new = os.fsdecode(event.payload).split("\0")
            self._renamed(old, new)

    def _opened(self, event: Event) -> None:
        if event.path == self._root_path:
            self._open[event.handle] = self._root
            return
        parent, name = self._find(event.path)
        node = parent.now.get(name)
        if node is None:
            node = File()
            parent.change(("link", name, node))
        if event.flags & 2 and isinstance(node, File):
            node.write((0, None), certain=False)
        self._open[event.handle] = node

    def _on_handle(self, event: Event) -> None:
        node = self._open[event.handle]
        if event.kind == "f":
            node.sync()
        elif isinstance(node, File):
            if event.kind == "w":
                node.write((event.number, event.payload), certain=bool(event.flags & 1))
            elif event.kind == "h":  # as zeros, which a crash may find there or not, within the file as it is
                end = min(event.number + int.from_bytes(event.payload, "little"), node.size)
                node.write((event.number, bytes(max(0, end - event.number))), certain=False)
            elif event.kind == "t" or event.number > node.size:
                node.write((event.number, None), certain=False)

    def _find(self, path: str) -> tuple[Directory, str]:
        assert path.startswith(self._root_path + "/"), path
        *parents, name = [part for part in path[len(self._root_path) :].split("/") if part]
        node: File | Directory = self._root
        for part in parents:
            assert isinstance(node, Directory)
            node = node.now[part]
        assert isinstance(node, Directory)
        return node, name

    def _renamed(self, old: str, new: str) -> None:
        (source, old_name), (target, new_name) = self._find(old), self._find(new)
        if source is target:
            source.change((old_name, new_name, None))
        else:
            source.move(old_name, target, new_name)

    # Crashing

    def nodes(self) -> Iterator[File | Directory]:
        """Yield every file and directory that has a name now, or may have one after a crash."""
        waiting: list[File | Directory] = [self._root]
        seen: set[int] = set()
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            yield node
            if isinstance(node, Directory):
                waiting += [*node.now.values(), *node.certain.values()]
                waiting += [linked for _what, _name, linked in node.later if linked is not None]

    @property
    def uncertain(self) -> int:
        """Number of uncertain writes and changes of names."""
        return sum(node.uncertain if isinstance(node, File) else len(node.later) for node in self.nodes())

    def crash(self, chance: Chance) -> Remains:
        """Return one of the disk states that may be left."""
        remains: Remains = {}
        self._collect(self._root, "", chance, remains, {})
        return remains

    def _collect(
        self, directory: Directory, path: str, chance: Chance, remains: Remains, moved: dict[int, bool]
    ) -> None:
        """Add the files left below a directory. `moved`: the moves that other directories have kept, by identity."""
        changes = chance.changes(len(directory.later))
        for move, at in directory.moves:
            if id(move) in moved:
                changes = max(changes, at) if moved[id(move)] else min(changes, at - 1)
        for move, at in directory.moves:
            moved.setdefault(id(move), at <= changes)
        for name, node in directory.after(changes).items():
            if name.endswith(IGNORED):
                continue
            if isinstance(node, Directory):
                remains[path + name] = None
                self._collect(node, f"{path}{name}/", chance, remains, moved)
            else:
                remains[path + name] = node.after(chance.write)


def _take_in(directory: Directory, path: Path) -> None:
    for entry in sorted(path.iterdir()):
        node: File | Directory | None = None
        if entry.is_dir():
            node = Directory()
            _take_in(node, entry)
        elif entry.is_file():
            node = File()
            node.write((0, entry.read_bytes()), certain=True)
        if node is not None:
            directory.change(("link", entry.name, node))
    directory.sync()


Remains = dict[str, Content | None]
"""The files after a crash: relative paths, parents first, with their content; None for a directory."""


def fingerprint(remains: Remains) -> str:
    """Return a digest that is equal for equal disk states, in every process."""
    parts = [
        f"{path}\0" if content is None else f"{path}\0{content.size}\0{content.digest}"
        for path, content in remains.items()
    ]
    return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def write_out(remains: Remains, target: Path) -> None:
    """Write a disk state into a directory."""
    target.mkdir(exist_ok=True)
    for path, content in remains.items():
        if content is None:
            (target / path).mkdir()
            continue
        with (target / path).open("wb") as file:
            file.write(content.data)
            file.truncate(content.size)


class Chance:
    """Chooses which uncertain writes and changes one crash leaves."""

    KINDS = ("everything", "nothing", "first few", "some", "some, torn", "most", "most, torn")

    def __init__(self, kind: str, choose: random.Random, uncertain: int) -> None:
        self._choose = choose
        self._share = {"everything": 1.0, "nothing": 0.0, "first few": 1.0}.get(kind, 0.5)
        if kind.startswith("most"):
            self._share = 0.9
        self._torn = 0.5 if kind.endswith("torn") else 0.0
        self._left = choose.randrange(uncertain + 1) if kind == "first few" else 1 << 30
        self._names_all = kind == "everything"
        self._names_none = kind == "nothing"

    def changes(self, count: int) -> int:
        """Return how many of a directory's changes are kept."""
        if self._names_all or self._names_none:
            return count if self._names_all else 0
        return self._choose.randrange(count + 1)

    def write(self, write: Write) -> Iterable[Write]:
        """Return the parts that are left of a write."""
        if self._left <= 0 or self._choose.random() >= self._share:
            return ()
        self._left -= 1
        last = self._left == 0
        return self._tear(write) if self._choose.random() < (0.5 if last else self._torn) else (write,)

    def _tear(self, write: Write) -> Iterable[Write]:
        """Return whole sectors of a write: a prefix of them, or any."""
        at, data = write
        if data is None:
            return ()
        first = SECTOR - at % SECTOR
        cuts = [0, *range(first, len(data), SECTOR), len(data)]
        pieces = [(at + start, data[start:end]) for start, end in pairwise(cuts)]
        if self._choose.random() < 0.5:
            return pieces[: self._choose.randrange(len(pieces) + 1)]
        return [piece for piece in pieces if self._choose.random() < 0.5]
