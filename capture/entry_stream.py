"""The content of one bundle entry as a stream: zstd frame, size and hash, in bounded memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import IO

import zstandard

from asmevo.capture.manifest import Entry
from asmevo.errors import BundleError

__all__ = [
    "CHUNK_BYTES",
    "compress_entry",
    "decompress_entry",
    "decompress_frame",
    "is_same_content",
]

CHUNK_BYTES = 1 << 20

# Level 3 needs windows of at most 2 MiB; a frame that asks for more is not ours.
_LEVEL = 3
_MAX_WINDOW_BYTES = 8 << 20


def compress_entry(content: Iterable[bytes | memoryview], file: IO[bytes]) -> tuple[int, str]:
    """Write `content` as one zstd frame.

    Returns:
        Number of bytes and SHA-256 of the content before compression.
    """
    compressor = zstandard.ZstdCompressor(level=_LEVEL).compressobj()
    digest = hashlib.sha256()
    size = 0
    for piece in content:
        digest.update(piece)
        size += len(piece)
        file.write(compressor.compress(piece))
    file.write(compressor.flush())
    return size, digest.hexdigest()


def decompress_entry(file: IO[bytes], entry: Entry) -> Iterator[bytes]:
    """Yield the content in pieces of at most `CHUNK_BYTES` and check it against its record.

    Reads never more than the recorded size plus one piece, whatever the frame expands to.

    Raises:
        BundleError: The frame is damaged, longer or shorter than recorded, or its hash differs.
    """
    digest = hashlib.sha256()
    size = 0
    for piece in decompress_frame(file, entry.name, entry.size_bytes):
        size += len(piece)
        digest.update(piece)
        yield piece
    if size != entry.size_bytes:
        raise BundleError(f"entry {entry.name} holds {size} bytes, not {entry.size_bytes}")
    if digest.hexdigest() != entry.sha256:
        raise BundleError(f"entry {entry.name} is damaged: its SHA-256 differs")


def decompress_frame(file: IO[bytes], name: str, limit_bytes: int) -> Iterator[bytes]:
    """Yield what one zstd frame holds, at most `limit_bytes`.

    Raises:
        BundleError: It is damaged, holds more, or something follows it.
    """
    size = 0
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    try:
        with decompressor.stream_reader(file, read_size=CHUNK_BYTES, closefd=False) as reader:
            while piece := reader.read(CHUNK_BYTES):
                size += len(piece)
                if size > limit_bytes:
                    raise BundleError(f"entry {name} holds more than its recorded size")
                yield piece
    except zstandard.ZstdError as error:
        raise BundleError(f"entry {name} is damaged: {error}") from error
    if file.read(1):
        raise BundleError(f"entry {name} has bytes after its zstd frame")


def is_same_content(
    left: Iterable[bytes | memoryview], right: Iterable[bytes | memoryview]
) -> bool:
    """Compare two streams that are cut into pieces alike."""
    return all(a == b for a, b in zip(left, right, strict=True))
