"""Offload bundles, plain and compressed: the device entries of one or several in a row."""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import zstandard

from asmevo.errors import CodeObjectError

__all__ = ["BUNDLE_MAGICS", "Extent", "read_bundles"]

_BUNDLE_MAGIC: Final = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED_MAGIC: Final = b"CCOB"
BUNDLE_MAGICS: Final = (_BUNDLE_MAGIC, _COMPRESSED_MAGIC)
# Entries for other processors' code (`host-…`, SPIR-V) hold no code object.
_DEVICE: Final = "amdgcn-amd-amdhsa"
_MAX_ENTRIES: Final = 4096
_MAX_ENTRY_NAME: Final = 1024
_MAX_COMPRESSED_BYTES: Final = 1 << 30
_MAX_BUNDLE_BYTES: Final = 2 << 30
_ZSTD_WINDOW_BYTES: Final = 128 << 20
# A zstd block of 4 bytes can mean 128 KiB, so one piece gives at most 32 MiB.
_PIECE_BYTES: Final = 1024
_SCAN_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """A range of an open file, or of bytes in memory. Reads that leave it are errors."""

    source: int | bytes
    start: int
    size: int

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise CodeObjectError(f"cut: {size} bytes at {offset:#x} of {self.size:#x}")
        at = self.start + offset
        if isinstance(self.source, bytes):
            return self.source[at : at + size]
        parts: list[bytes] = []
        while size:
            part = os.pread(self.source, size, at)
            if not part:
                raise CodeObjectError(f"cut: the file ends at {at:#x}")
            parts.append(part)
            at, size = at + len(part), size - len(part)
        return b"".join(parts)

    def head(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes: fewer at the end."""
        return self.read(offset, max(0, min(size, self.size - offset)))

    def part(self, offset: int, size: int) -> Extent:
        """A range of this range."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise CodeObjectError(f"cut: {size} bytes at {offset:#x} of {self.size:#x}")
        return Extent(source=self.source, start=self.start + offset, size=size)


def read_bundles(extent: Extent) -> Iterator[tuple[int, str, Extent]]:
    """Offset of the bundle, target id and contents of every device entry.

    Bundles stand one after the other, one a translation unit, with zeros between them.

    Raises:
        CodeObjectError: Damage, or something that is no bundle. Entries before it were given.
    """
    position = 0
    while (position := _next_content(extent, position)) < extent.size:
        rest = extent.part(position, extent.size - position)
        magic = rest.head(0, len(_BUNDLE_MAGIC))
        if magic.startswith(_COMPRESSED_MAGIC):
            bundle, size = _decompress(rest)
            if bundle.head(0, len(_BUNDLE_MAGIC)) != _BUNDLE_MAGIC:
                raise CodeObjectError(f"the bundle at {position:#x} decompresses to something else")
            entries, _ = _read_entries(bundle)
        elif magic == _BUNDLE_MAGIC:
            entries, size = _read_entries(rest)
        else:
            raise CodeObjectError(f"no offload bundle at {position:#x}: {magic[:4].hex()}")
        for name, entry in entries:
            yield position, name, entry
        position += size


def _next_content(extent: Extent, position: int) -> int:
    """Skip the zeros that align the next bundle (to a page in `.hip_fatbin`)."""
    while position < extent.size:
        part = extent.head(position, _SCAN_BYTES)
        if found := re.search(rb"[^\0]", part):
            return position + found.start()
        position += len(part)
    return extent.size


def _read_entries(bundle: Extent) -> tuple[list[tuple[str, Extent]], int]:
    """Device entries of an uncompressed bundle, and its size.

    LLVM, ClangOffloadBundler "Bundled Binary File Layout": magic, number of entries, then offset,
    size, length of the id and id of each; all numbers of 64 bits.
    """
    at = len(_BUNDLE_MAGIC)
    count = int.from_bytes(bundle.read(at, 8), "little")
    if count > _MAX_ENTRIES:
        raise CodeObjectError(f"an offload bundle with {count} entries, above {_MAX_ENTRIES}")
    at += 8
    entries: list[tuple[str, Extent]] = []
    total = end = 0
    for _ in range(count):
        offset, size, length = struct.unpack("<QQQ", bundle.read(at, 24))
        if length > _MAX_ENTRY_NAME:
            raise CodeObjectError(f"an offload bundle with a target id of {length} bytes")
        name = bundle.read(at + 24, length).decode("ascii", "replace")
        at += 24 + length
        part = bundle.part(offset, size)
        end = max(end, offset + size)
        total += size
        # Entries that overlap would turn a small file into many large objects.
        if total > bundle.size:
            raise CodeObjectError("an offload bundle with entries that overlap")
        if _DEVICE in name and size:
            entries.append((name, part))
    return entries, max(at, end)


def _decompress(rest: Extent) -> tuple[Extent, int]:
    """The bundle inside a compressed one, and the bytes that the compressed one takes.

    LLVM, OffloadBundler.cpp: magic, version and method (16 bits each), from version 2 the size of
    the file, the uncompressed size (32 bits each, 64 from version 3), a hash of 64 bits.
    """
    version, method = struct.unpack("<HH", rest.read(4, 4))
    layouts = {1: "<I", 2: "<II", 3: "<QQ"}
    if version not in layouts:
        raise CodeObjectError(f"a compressed offload bundle of version {version}, not 1 to 3")
    layout = layouts[version]
    *sizes, claimed = struct.unpack(layout, rest.read(8, struct.calcsize(layout)))
    header = 8 + struct.calcsize(layout) + 8
    size = sizes[0] if sizes and sizes[0] else min(rest.size, _MAX_COMPRESSED_BYTES)
    if not header <= size <= min(rest.size, _MAX_COMPRESSED_BYTES):
        raise CodeObjectError(
            f"a compressed offload bundle that claims {size} of {rest.size} bytes"
        )
    if claimed > _MAX_BUNDLE_BYTES:
        raise CodeObjectError(f"an offload bundle of {claimed} bytes, above {_MAX_BUNDLE_BYTES}")
    unpack = {0: _inflate, 1: _unpack_zstd}.get(method)
    if unpack is None:
        raise CodeObjectError(f"a compressed offload bundle with unknown method {method}")
    packed = rest.part(header, size - header)
    try:
        data, used = unpack(packed, claimed)
    except (zlib.error, zstandard.ZstdError) as error:
        raise CodeObjectError(f"a damaged compressed offload bundle: {error}") from error
    if len(data) != claimed:
        raise CodeObjectError(f"a compressed offload bundle that does not give {claimed} bytes")
    whole = size if sizes and sizes[0] else header + used
    return Extent(source=data, start=0, size=len(data)), whole


def _inflate(packed: Extent, claimed: int) -> tuple[bytes, int]:
    stream = zlib.decompressobj()
    data = bytearray()
    for at in range(0, packed.size, _SCAN_BYTES):
        part = packed.head(at, _SCAN_BYTES)
        data += stream.decompress(part, claimed + 1 - len(data))
        if stream.eof:
            return bytes(data), at + len(part) - len(stream.unused_data)
        if len(data) > claimed:
            break
    raise CodeObjectError(f"a compressed offload bundle that does not end at {claimed} bytes")


def _unpack_zstd(packed: Extent, claimed: int) -> tuple[bytes, int]:
    stream = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj()
    data = bytearray()
    for start in range(0, packed.size, _SCAN_BYTES):
        chunk = packed.head(start, _SCAN_BYTES)
        for at in range(0, len(chunk), _PIECE_BYTES):
            piece = chunk[at : at + _PIECE_BYTES]
            data += stream.decompress(piece)
            if stream.eof:
                return bytes(data), start + at + len(piece) - len(stream.unused_data)
            if len(data) > claimed:
                break
    raise CodeObjectError(f"a compressed offload bundle that does not end at {claimed} bytes")
