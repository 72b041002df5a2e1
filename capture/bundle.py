"""A bundle: one captured dispatch in one file.

A ZIP64 file: `manifest.json` and one zstd frame an entry (`NAME.zst`, ZIP method STORED, so that
any unzip lists it and entries are read at random). Contents may be larger than memory: both ways
stream. A file is written whole or not at all; a cut one has no ZIP directory and is refused.

A bundle holds whatever the program's memory held. Files are made with mode 0600.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO

from asmevo.capture.bundle_output import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    Content,
    RegionContent,
    write_bundle,
)
from asmevo.capture.chunk_store import find_stores, read_chunked
from asmevo.capture.entry_stream import decompress_entry
from asmevo.capture.manifest import Entry, Manifest, Region, Storage
from asmevo.errors import BundleError

__all__ = [
    "SUFFIX",
    "Bundle",
    "Content",
    "Moment",
    "RegionContent",
    "open_bundle",
    "write_bundle",
]

SUFFIX = ".aeb"

_MAX_DIRECTORY_BYTES = 4 << 20
_MAX_ENTRIES = 2 * 4096 + 3

# What `zipfile` raises for damaged and foreign files (ValueError: text that is not UTF-8;
# RuntimeError: encrypted entries, and NotImplementedError, its child: odd methods).
_ZIP_ERRORS = (zipfile.BadZipFile, OSError, EOFError, ValueError, RuntimeError, struct.error)


class Moment(StrEnum):
    """When a region's content was taken, relative to the dispatch."""

    BEFORE = "before"
    AFTER = "after"


class Bundle:
    """An open bundle. Reads entries on demand; use as a context manager."""

    def __init__(self, path: Path) -> None:
        """Open and check everything but the contents; see `open_bundle`."""
        self.path = path
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise BundleError(f"{path}: {error.strerror or error}") from error
        try:
            _check_end_record(self._file)
            self._archive = zipfile.ZipFile(self._file)
            self.manifest = self._read_manifest()
            self._check_directory()
        except BundleError as error:
            self._file.close()
            raise BundleError(f"{path}: {error.args[0]}", hint=error.hint) from error
        except _ZIP_ERRORS as error:
            self._file.close()
            raise BundleError(f"{path}: not a readable bundle: {error}") from error

    def __enter__(self) -> Bundle:
        """Return the bundle itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; nothing can be read afterwards."""
        self._archive.close()
        self._file.close()

    def code_object(self) -> bytes:
        """The code object the kernel comes from."""
        return b"".join(self._stream(self.manifest.code_object))

    def kernarg(self) -> bytes:
        """The explicit part of the kernarg segment."""
        return b"".join(self._stream(self.manifest.kernarg))

    def region_chunks(self, region: Region, moment: Moment) -> Iterator[bytes]:
        """A region's content in pieces of at most 1 MiB; the hash is checked at the end.

        Raises:
            BundleError: The content is damaged, or was not recorded at that moment.
        """
        entry = region.before if moment is Moment.BEFORE else region.after
        if entry is None:
            raise BundleError(f"{self.path}: region {region.index} has no content {moment}")
        return self._stream(entry)

    def region_bytes(self, region: Region, moment: Moment) -> bytes:
        """A region's whole content; `region_chunks` needs less memory."""
        return b"".join(self.region_chunks(region, moment))

    def verify(self) -> None:
        """Read every entry and check its size and hash.

        Raises:
            BundleError: Something is damaged.
        """
        for entry in self.manifest.entries:
            for _ in self._stream(entry):
                pass

    def _read_manifest(self) -> Manifest:
        try:
            info = self._archive.getinfo(MANIFEST_NAME)
        except KeyError:
            raise BundleError(f"not a bundle: it has no {MANIFEST_NAME}") from None
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > MAX_MANIFEST_BYTES:
            raise BundleError(f"not a bundle: {MANIFEST_NAME} is compressed or too large")
        with self._open_entry(MANIFEST_NAME) as file:
            return Manifest.parse(file.read(MAX_MANIFEST_BYTES + 1))

    def _check_directory(self) -> None:
        expected = {entry.name for entry in self.manifest.entries} | {MANIFEST_NAME}
        found = [info.filename for info in self._archive.infolist()]
        if missing := sorted(expected - set(found)):
            raise BundleError(f"entry {missing[0]} is missing")
        if len(found) != len(expected):
            foreign = sorted(set(found) - expected) or ["one name twice"]
            raise BundleError(f"foreign entry: {foreign[0][:80]!r}")
        for info in self._archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
                raise BundleError(f"entry {info.filename} is not stored")

    def _open_entry(self, name: str) -> IO[bytes]:
        try:
            return self._archive.open(name)
        except _ZIP_ERRORS as error:
            raise BundleError(f"entry {name} cannot be read: {error}") from error

    def _stream(self, entry: Entry) -> Iterator[bytes]:
        try:
            with self._open_entry(entry.name) as file:
                if entry.storage is Storage.CHUNKS:
                    yield from read_chunked(file, entry, find_stores(self.path))
                else:
                    yield from decompress_entry(file, entry)
        except BundleError as error:
            raise BundleError(f"{self.path}: {error.args[0]}", hint=error.hint) from error
        except _ZIP_ERRORS as error:
            raise BundleError(f"{self.path}: entry {entry.name} is damaged: {error}") from error


def open_bundle(path: Path) -> Bundle:
    """Open a bundle for reading.

    Raises:
        BundleError: Missing, truncated, foreign, or its manifest is not acceptable.
    """
    return Bundle(path)


def _check_end_record(file: BinaryIO) -> None:
    """Bound the ZIP directory before `zipfile` reads all of it into memory.

    PKWARE APPNOTE 4.3.14 to 4.3.16. Our files have no comment: the end record is the last 22 bytes.
    """
    size = file.seek(0, 2)
    if size == 0:
        raise BundleError("the file is empty")
    tail_start = max(0, size - 98)
    file.seek(tail_start)
    tail = file.read(98)
    end = tail[-22:]
    if len(end) < 22 or not end.startswith(b"PK\x05\x06"):
        file.seek(0)
        if file.read(4) == b"PK\x03\x04":
            raise BundleError("the file is cut short: it has no ZIP directory")
        raise BundleError("not a bundle")
    entries, directory_bytes = struct.unpack_from("<10xHI", end)
    if tail[-42:-38] == b"PK\x06\x07" and tail.startswith(b"PK\x06\x06"):
        entries, directory_bytes = struct.unpack_from("<32xQQ", tail)
    if entries > _MAX_ENTRIES or directory_bytes > _MAX_DIRECTORY_BYTES:
        raise BundleError("not a bundle: the ZIP directory is too large")
