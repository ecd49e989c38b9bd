"""A directory in any file system that pyarrow knows: where exports, archives and results of jobs go.

A file is written under a hidden name, synced where that is up to us, and renamed: readers see it whole or not at all.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from storage.synced_files import sync_directory, sync_file


class ManifestError(Exception):
    """A file that lists others, and that this release cannot read."""


class Target:
    """A directory, which is made. `where` is a path or a URI such as s3://bucket/prefix.

    Raises OSError and ValueError.
    """

    def __init__(self, where: str) -> None:
        if "://" in where:
            self._files, self._root = fs.FileSystem.from_uri(where)
        else:
            self._files, self._root = fs.LocalFileSystem(), str(Path(where.removeprefix("file:")).absolute())
        self._files.create_dir(self._root, recursive=True)

    def __str__(self) -> str:
        return str(self._root)

    def names(self, directory: str = "") -> list[str]:
        """List the names in it, or in a directory of it; empty if that does not exist."""
        where = fs.FileSelector(self._path(directory), allow_not_found=True)
        return sorted(info.base_name for info in self._files.get_file_info(where))

    def size(self, name: str) -> int | None:
        """Bytes of a file; None if there is none."""
        info = self._files.get_file_info(self._path(name))
        return info.size if info.type is fs.FileType.File else None

    def get(self, name: str) -> bytes:
        """Read a whole file. Raises OSError."""
        with self._files.open_input_stream(self._path(name), compression=None) as stream:
            return bytes(stream.read())

    def open(self, name: str) -> pa.NativeFile:
        """Open a file for reading in pieces. Raises OSError."""
        return self._files.open_input_file(self._path(name))

    def table(self, directory: str, wanted: pc.Expression | None = None) -> pa.Table:
        """Read the Parquet files of a directory as one table, or the rows of it that are wanted."""
        return pq.read_table(self._path(directory), filesystem=self._files, filters=wanted)

    def put(self, name: str, content: Any) -> None:
        """Write a file, replacing one of this name: completely or not at all. Raises OSError, which names it."""
        directory, _, file = name.rpartition("/")
        hidden = f"{directory}/_tmp.{file}".removeprefix("/")
        try:
            self._put(self._path(directory), self._path(hidden), self._path(name), content)
        except OSError as error:
            self.remove(hidden)
            raise OSError(f"{self._path(name)}: {error}") from error

    def put_table(self, name: str, rows: pa.Table) -> None:
        """Write rows as a Parquet file. Raises OSError."""
        # A dictionary of numbers that are hardly ever the same takes half of the time, and of the file.
        texts = [field.name for field in rows.schema if pa.types.is_string(field.type)]
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="zstd", use_dictionary=texts)
        self.put(name, sink.getvalue())

    def remove(self, name: str) -> None:
        """Delete a file, or a directory with its contents. An error is ignored."""
        try:
            if self.size(name) is None:
                self._files.delete_dir(self._path(name))
            else:
                self._files.delete_file(self._path(name))
        except OSError:  # it was not there, or will be found beside those that are listed
            pass

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _put(self, directory: str, hidden: str, final: str, content: Any) -> None:
        self._files.create_dir(directory, recursive=True)
        with self._files.open_output_stream(hidden, compression=None) as stream:
            stream.write(content)
        if isinstance(self._files, fs.LocalFileSystem):
            sync_file(Path(hidden))
        self._files.move(hidden, final)
        if isinstance(self._files, fs.LocalFileSystem):
            sync_directory(Path(directory))


def listed(target: Target, name: str, form: int) -> list[dict[str, Any]]:
    """Read the entries of a manifest of format `form`; empty if there is none. Raises ManifestError and OSError."""
    if target.size(name) is None:
        return []
    where = f"{target}/{name}"
    try:
        manifest = json.loads(target.get(name))
        if manifest["format"] != form:
            raise ManifestError(f"{where}: format {manifest['format']}, this release reads format {form}")
        return list(manifest["files"])
    except (ValueError, LookupError, TypeError) as error:
        raise ManifestError(f"{where}: is not a manifest, or is damaged: {error!r}") from error
