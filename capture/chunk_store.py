"""Contents that bundles of one capture folder share, stored once.

`chunks/AB/ABCDEF….zst` beside the bundles, or in the folder above: one zstd frame a chunk, named by
the SHA-256 of what it holds. Chunks start at multiples of 1 MiB of the program's addresses, so that
cut-outs of one allocation with other ends share what they have in common. The bundle's entry lists
them: a zstd frame of the first chunk's size (u64) and the hashes, 32 bytes each.
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from asmevo.capture.entry_stream import compress_entry, decompress_frame
from asmevo.capture.manifest import Entry, Storage
from asmevo.errors import BundleError, UsageError
from asmevo.files import open_whole

__all__ = ["CHUNK_BYTES", "ChunkStore", "find_stores", "read_chunked"]

CHUNK_BYTES = 1 << 20
_FOLDER = "chunks"
_HEADER = struct.Struct("<Q")
_HASH_BYTES = 32


def find_stores(bundle: Path) -> tuple[Path, ...]:
    """Where the chunks of a bundle may be."""
    folder = bundle.absolute().parent
    return (folder / _FOLDER, folder.parent / _FOLDER)


class ChunkStore:
    """The store of a capture folder, for writing."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the one with the bundles; nothing is made before it is needed."""
        self._root = folder / _FOLDER
        self._unsynced: list[Path] = []

    def write(
        self, name: str, address: int, content: Iterable[bytes | memoryview], file: IO[bytes]
    ) -> Entry:
        """Store a content and write the list of its chunks to `file`, the bundle's entry."""
        digest = hashlib.sha256()
        first = CHUNK_BYTES - address % CHUNK_BYTES
        size = 0
        hashes = []
        for chunk in _cut(content, first):
            digest.update(chunk)
            size += len(chunk)
            hashes.append(self._put(chunk))
        listing = _HEADER.pack(min(first, size)) + b"".join(hashes)
        compress_entry([listing], file)
        return Entry(name=name, size_bytes=size, sha256=digest.hexdigest(), storage=Storage.CHUNKS)

    def sync(self) -> None:
        """Bring new chunks to the disk, before a bundle names them."""
        folders = set()
        for path in self._unsynced:
            _sync(path)
            folders.add(path.parent)
        for folder in folders:
            _sync(folder)
        self._unsynced.clear()

    def _put(self, chunk: bytes) -> bytes:
        digest = hashlib.sha256(chunk)
        path = _path(self._root, digest.hexdigest())
        if not path.exists():
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(f"{path.parent} cannot be made: {error.strerror}") from error
            with open_whole(path, mode=0o600, is_synced=False) as file:
                compress_entry([chunk], file)
            self._unsynced.append(path)
        return digest.digest()


def read_chunked(file: IO[bytes], entry: Entry, stores: Iterable[Path]) -> Iterator[bytes]:
    """Yield a content piece by piece, each chunk and the whole checked against their hashes.

    Raises:
        BundleError: A chunk is missing or damaged.
    """
    count_limit = entry.size_bytes // CHUNK_BYTES + 2
    listing = b"".join(decompress_frame(file, entry.name, 8 + _HASH_BYTES * count_limit))
    roots = tuple(stores)
    digest = hashlib.sha256()
    left = entry.size_bytes
    for size, sha256 in _parse_listing(listing, entry):
        chunk = _read_chunk(roots, sha256, min(size, left))
        digest.update(chunk)
        left -= len(chunk)
        yield chunk
    if left or digest.hexdigest() != entry.sha256:
        raise BundleError(f"entry {entry.name} is damaged: its SHA-256 differs")


def _parse_listing(listing: bytes, entry: Entry) -> Iterator[tuple[int, bytes]]:
    if len(listing) < _HEADER.size or (len(listing) - _HEADER.size) % _HASH_BYTES:
        raise BundleError(f"entry {entry.name} is no list of chunks")
    (first,) = _HEADER.unpack_from(listing)
    if not 0 < first <= CHUNK_BYTES:
        raise BundleError(f"entry {entry.name} is no list of chunks")
    for at in range(_HEADER.size, len(listing), _HASH_BYTES):
        size = first if at == _HEADER.size else CHUNK_BYTES
        yield size, listing[at : at + _HASH_BYTES]


def _read_chunk(roots: tuple[Path, ...], sha256: bytes, size: int) -> bytes:
    name = sha256.hex()
    for root in roots:
        try:
            data = _path(root, name).read_bytes()
        except OSError:
            continue
        try:
            chunk = b"".join(decompress_frame(io.BytesIO(data), name, size))
        except BundleError as error:
            raise BundleError(f"chunk {name}: {error.args[0]}") from error
        if len(chunk) != size or hashlib.sha256(chunk).digest() != sha256:
            raise BundleError(f"chunk {name} is damaged")
        return chunk
    raise BundleError(
        f"chunk {name} is missing",
        hint="keep a bundle in its capture folder, or make it whole there: asmevo bundle pack",
    )


def _cut(content: Iterable[bytes | memoryview], first: int) -> Iterator[bytes]:
    """The content in chunks of `CHUNK_BYTES`, after a first one of `first` bytes."""
    pending = bytearray()
    size = first
    for piece in content:
        pending += piece
        while len(pending) >= size:
            yield bytes(pending[:size])
            del pending[:size]
            size = CHUNK_BYTES
    if pending:
        yield bytes(pending)


def _path(root: Path, name: str) -> Path:
    return root / name[:2] / f"{name}.zst"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
