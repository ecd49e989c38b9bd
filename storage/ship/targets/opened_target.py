"""Opens the target that a place names: a directory, `sftp://[USER@]HOST[:PORT]/PATH`, or `s3://BUCKET[/PREFIX]`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from storage.ship.targets.directory_target import DirectoryTarget
from storage.ship.targets.ship_target import ShipTarget
from storage.storage_errors import StoreError

EXPECTED = "a directory, sftp://USER@HOST/PATH or s3://BUCKET/PREFIX"

ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
"""Variables that name the server of S3; the first non-empty one counts."""


class PlaceUnusable(StoreError):
    """A place that cannot be opened as it is written: another setting or another installation is needed."""


class TargetAccess(NamedTuple):
    """Settings of servers. Files of SSH, the endpoint and region of S3; empty: as the library finds them."""

    sftp_key: str = ""
    sftp_known_hosts: str = ""
    s3_endpoint: str = ""
    s3_region: str = ""


AS_FOUND = TargetAccess()
"""Nothing is set."""


def open_target(place: str, access: TargetAccess = AS_FOUND) -> ShipTarget:
    """Return the target of a place, which is not looked at yet. Whoever opens it closes it. Raises PlaceUnusable."""
    scheme, separator, _ = place.partition("://")
    if not separator:
        return DirectoryTarget(Path(place))
    if scheme not in ("sftp", "s3"):
        raise PlaceUnusable(f"expected {EXPECTED}, not {scheme}://")
    try:
        parts = urlsplit(place)
        return _sftp(parts, access) if scheme == "sftp" else _s3(parts, access)
    except ValueError as error:
        raise PlaceUnusable(f"expected {EXPECTED}: {error}") from error
    except ImportError as error:
        from leveret.extras import how_to_install  # not at each start, which loads this module

        library = str(error.name).partition(".")[0]
        raise PlaceUnusable(f"{library} is missing: `{how_to_install(scheme)}` brings it") from error


def _sftp(parts: SplitResult, access: TargetAccess) -> ShipTarget:
    if parts.password is not None:
        raise ValueError("a password would be in each log and listing: use a key of SSH")
    if not parts.hostname or len(parts.path) < 2 or parts.query or parts.fragment:
        raise ValueError("the host, or the directory on it, is missing, or there is more than that")
    # Imported here, as S3's is: few ship there, and both take time to load.
    from storage.ship.targets.sftp_target import SftpPlace, SftpTarget

    path = unquote(parts.path)
    path = path.removeprefix("/~/") if path.startswith("/~/") else path
    files = map(os.path.expanduser, (access.sftp_key, access.sftp_known_hosts))
    return SftpTarget(SftpPlace(unquote(parts.username or ""), parts.hostname, parts.port or 0, path, *files))


def _s3(parts: SplitResult, access: TargetAccess) -> ShipTarget:
    if "@" in parts.netloc:
        raise ValueError("credentials would be in each log and listing: put them into the environment")
    if not parts.netloc or parts.query or parts.fragment:
        raise ValueError("the bucket is missing, or there is more than bucket and prefix")
    endpoint = access.s3_endpoint or next(filter(None, map(os.environ.get, ENDPOINTS)), "")
    if endpoint and not (endpoint.startswith(("http://", "https://")) and urlsplit(endpoint).hostname):
        raise ValueError(f"the endpoint has to be http://HOST:PORT or https://HOST, not {endpoint}")
    from storage.ship.targets.s3_target import S3Place, S3Target

    return S3Target(S3Place(parts.netloc, unquote(parts.path).strip("/"), endpoint, access.s3_region))
