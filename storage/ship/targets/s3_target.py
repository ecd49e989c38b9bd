"""A target in a bucket of S3, or of another server that speaks its protocol.

A piece is an object. It is written with `If-None-Match: *`, by which the server refuses to replace one.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar, final

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from storage.ship.targets.overwriting import refuse_overwriting
from storage.ship.targets.ship_target import PieceExists, TargetError

if TYPE_CHECKING:
    from obstore.store import S3Config

SECONDS = timedelta(seconds=60)
"""Time in which a request ends, with those that are made again."""
CONNECT_SECONDS = timedelta(seconds=10)

_CODE = re.compile(r"<Code>(.*?)</Code>")
_MESSAGE = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_CAUSE = re.compile(r'\b(?:message|error): "([^"]+)"')

Result = TypeVar("Result")


class S3Place(NamedTuple):
    """A bucket and the beginning of the objects' names. Empty endpoint, region: as the environment says, else AWS's."""

    bucket: str
    prefix: str
    endpoint: str = ""
    region: str = ""

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


@final
class S3Target:
    """The bucket; see `ShipTarget`. Credentials are those of the environment, or of the machine at AWS."""

    def __init__(self, place: S3Place) -> None:
        """Raises TargetError if the environment has a setting of S3 that cannot be used."""
        self._place = place
        self._store = self._asked(lambda: _opened(place))
        self._keeps = False
        """True once the server was seen not to overwrite."""

    def __str__(self) -> str:
        return str(self._place)

    def begin(self, chain: str) -> None:
        """Raise TargetError without the bucket, or if the server overwrites objects: a chain needs no place."""
        if not self._keeps:
            refuse_overwriting(lambda name: self._created(name, b""))
            self._keeps = True

    def put(self, chain: str, name: str, parts: tuple[bytes, ...]) -> None:
        """Write a piece. One that is there already with these contents is left. Raises PieceExists."""
        data = b"".join(parts)
        if not self._created(f"{chain}/{name}", data) and self.get(chain, name) != data:
            raise PieceExists(f"{self}/{chain}/{name} is there already, with other contents: ship to another place")

    def chains(self) -> list[str]:
        """Return the names of what may be chains, in the order of the alphabet."""
        return sorted(self._asked(lambda: obstore.list_with_delimiter(self._store))["common_prefixes"])

    def names(self, chain: str) -> list[str]:
        """Return the names of what may be pieces of a chain, in the order of the alphabet; none without the chain."""
        found = self._asked(lambda: obstore.list_with_delimiter(self._store, chain))["objects"]
        # Some servers list an empty object for a folder, with the name of the folder.
        return sorted(each["path"].rpartition("/")[2] for each in found if each["path"] != chain)

    def get(self, chain: str, name: str) -> bytes:
        """Read a piece. Raises FileNotFoundError if there is none."""
        try:
            return self._asked(lambda: bytes(obstore.get(self._store, f"{chain}/{name}").bytes()))
        except NoObject:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self}/{chain}/{name}") from None

    def remove(self, chain: str, name: str) -> None:
        """Remove a piece, if it is there. A chain without pieces is none."""
        self._asked(lambda: obstore.delete(self._store, f"{chain}/{name}"))

    def close(self) -> None:
        """Do nothing: idle connections end by themselves."""

    def _created(self, path: str, data: bytes) -> bool:
        """Write an object. False if there is one of this name."""
        try:
            self._asked(lambda: obstore.put(self._store, path, data, mode="create", use_multipart=False))
        except AlreadyExistsError:
            return False
        return True

    def _asked(self, request: Callable[[], Result]) -> Result:
        """Return the answer to a request. Raises AlreadyExistsError, NoObject, TargetError."""
        try:
            return request()
        except AlreadyExistsError:
            raise
        except (BaseError, OSError) as error:
            text = str(error)
            if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in text:
                raise NoObject(_sentence(text)) from error
            raise TargetError(_sentence(text)) from error


def _opened(place: S3Place) -> S3Store:
    config: S3Config = {}
    if place.endpoint:
        config["endpoint"] = place.endpoint
    if place.region:
        config["region"] = place.region
    return S3Store(
        place.bucket,
        prefix=place.prefix or None,
        config=config,
        client_options={"timeout": SECONDS, "connect_timeout": CONNECT_SECONDS, "allow_http": True},
        retry_config={"max_retries": 2, "retry_timeout": SECONDS},
    )


class NoObject(TargetError):
    """There is no object of this name, in a bucket that is there."""


def _sentence(text: str) -> str:
    """Return the reason in an error: the server's, if it gave one. It is the same for the same reason."""
    code, message = _CODE.search(text), _MESSAGE.search(text)
    if code is not None:
        return f"{code[1]}: {message[1] if message else 'the server says no more'}"
    head, _, source = text.partition("\n\nDebug source")
    reason, cause = " ".join(head.rpartition(" - ")[2].split()), _CAUSE.search(source)
    return reason if cause is None else f"{reason} ({cause[1]})"
