"""The user that the image's broker runs as. A container starts as root, to make a mounted volume that user's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

NAME = "rabbitmq"


class ImageUser(NamedTuple):
    """Numbers of a user and its group."""

    uid: int
    gid: int

    def own(self, directory: Path) -> None:
        """Give it a directory with everything in it."""
        for place, directories, files in os.walk(directory):
            for path in (place, *(os.path.join(place, name) for name in (*directories, *files))):  # noqa: PTH118
                if os.lstat(path).st_uid != self.uid:
                    os.lchown(path, self.uid, self.gid)

    def become(self) -> None:
        """Run as it from now on, for good."""
        os.setgroups([])
        os.setgid(self.gid)
        os.setuid(self.uid)


def find_image_user(root: Path) -> ImageUser | None:
    """Return the image's user `rabbitmq`, or None if the process is not root or the user does not exist."""
    passwd = root / "etc" / "passwd"
    if os.geteuid() != 0 or not passwd.exists():
        return None
    for line in passwd.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        name, _, uid, gid, *_ = [*line.split(":"), "", "", ""]
        if name == NAME:
            return ImageUser(int(uid), int(gid))
    return None
