"""Memory is read, compared and kept in chunks of one size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from asmevo.replay.numeric import Bytes

__all__ = ["CHUNK_BYTES", "Chunks", "read_chunks"]

CHUNK_BYTES = 4 << 20

Chunks = Iterator[tuple[int, Bytes]]
"""Offset in the region, and content; all of one size but the last."""


def read_chunks(pieces: Iterable[bytes], *, size_bytes: int = CHUNK_BYTES) -> Chunks:
    """Cut a stream into chunks of one size, each with its offset; the last may be shorter."""
    offset, rest = 0, bytearray()
    for piece in pieces:
        rest += piece
        while len(rest) >= size_bytes:
            yield offset, np.frombuffer(bytes(rest[:size_bytes]), dtype=np.uint8)
            del rest[:size_bytes]
            offset += size_bytes
    if rest:
        yield offset, np.frombuffer(bytes(rest), dtype=np.uint8)
