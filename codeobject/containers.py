"""Finds code objects in what ships them: files, offload bundles, host libraries, folders."""

from __future__ import annotations

import os
import re
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zstandard

from asmevo.codeobject.elf import MAX_FILE_BYTES
from asmevo.codeobject.target import ELF_MACHINE_AMDGPU
from asmevo.errors import CodeObjectError, UsageError

__all__ = ["FoundObject", "find_code_objects", "find_files"]

_BUNDLE_MAGIC: Final = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED_MAGIC: Final = b"CCOB"
_ELF_MAGIC: Final = b"\x7fELF"
_SUFFIXES: Final = (".co", ".hsaco")
_SECTION: Final = b".hip_fatbin\0"
# Entries for other processors' code (`host-…`, SPIR-V) hold no code object.
_DEVICE: Final = "amdgcn-amd-amdhsa"

_MAX_FILES: Final = 1 << 20
_MAX_SECTIONS: Final = 1 << 16
_MAX_NAMES_BYTES: Final = 16 << 20
_MAX_ENTRIES: Final = 4096
_MAX_ENTRY_NAME: Final = 1024
_MAX_COMPRESSED_BYTES: Final = 1 << 30
_MAX_BUNDLE_BYTES: Final = 2 << 30
_ZSTD_WINDOW_BYTES: Final = 128 << 20
# A zstd block of 4 bytes can mean 128 KiB, so one piece gives at most 32 MiB.
_PIECE_BYTES: Final = 1024
_SCAN_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundObject:
    """One code object and where it was found."""

    path: Path
    place: str
    """Offset of the bundle and target of the entry; empty for a file that is a code object."""
    data: bytes

    @property
    def name(self) -> str:
        """Path and place, as messages name the object."""
        return f"{self.path} [{self.place}]" if self.place else str(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extent:
    """A range of an open file, or of bytes in memory. Reads that leave it are errors."""

    source: int | bytes
    start: int
    size: int

    def read(self, offset: int, size: int) -> bytes:
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

    def part(self, offset: int, size: int) -> _Extent:
        if offset < 0 or size < 0 or offset + size > self.size:
            raise CodeObjectError(f"cut: {size} bytes at {offset:#x} of {self.size:#x}")
        return _Extent(source=self.source, start=self.start + offset, size=size)


def find_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The given files, and from folders every file that is or should be one with code objects.

    Folders are searched through (a Triton cache has a folder a kernel) for code objects, bundles
    and host libraries by their contents, and for `.co` and `.hsaco` whatever they hold.

    Raises:
        UsageError: A path is not there or cannot be read.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += _walk(path)
        elif path.exists():
            files.append(path)
        else:
            raise UsageError(f"{path}: no such file or folder")
    return tuple(dict.fromkeys(files))


def find_code_objects(path: Path) -> Iterator[FoundObject]:
    """Every code object of a file, in the file's order; unpacked one at a time.

    Raises:
        CodeObjectError: The file holds none, or is damaged. Objects before the damage were given.
        UsageError: It is not a file that can be read.
    """
    descriptor = _open(path)
    try:
        size = os.fstat(descriptor).st_size
        yield from _find(path, _Extent(source=descriptor, start=0, size=size))
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        # A FIFO would keep a blocking open waiting for its other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"{path}: not a regular file")
    return descriptor


def _walk(folder: Path) -> Iterator[Path]:
    count = 0
    for root, folders, names in os.walk(folder, onerror=_refuse_folder):
        folders.sort()
        for name in sorted(names):
            count += 1
            if count > _MAX_FILES:
                raise UsageError(f"{folder}: more than {_MAX_FILES} files")
            path = Path(root, name)
            if path.suffix in _SUFFIXES or _may_hold_objects(path):
                yield path


def _refuse_folder(error: OSError) -> None:
    raise UsageError(f"{error.filename}: {error.strerror}") from error


def _may_hold_objects(path: Path) -> bool:
    try:
        descriptor = _open(path)
    except UsageError:
        return False
    try:
        extent = _Extent(source=descriptor, start=0, size=os.fstat(descriptor).st_size)
        head = extent.head(0, 64)
        if head.startswith((_BUNDLE_MAGIC, _COMPRESSED_MAGIC)):
            return True
        return head.startswith(_ELF_MAGIC) and (_is_amdgpu(head) or bool(_fat_sections(extent)))
    except (CodeObjectError, OSError):
        return False
    finally:
        os.close(descriptor)


def _find(path: Path, extent: _Extent) -> Iterator[FoundObject]:
    head = extent.head(0, 64)
    if head.startswith((_BUNDLE_MAGIC, _COMPRESSED_MAGIC)):
        yield from _find_in_bundles(path, extent)
    elif not head.startswith(_ELF_MAGIC):
        raise CodeObjectError("neither a code object nor an offload bundle nor a host library")
    elif _is_amdgpu(head):
        yield FoundObject(path=path, place="", data=_bounded(extent))
    else:
        sections = _fat_sections(extent)
        if not sections:
            raise CodeObjectError("an ELF file for the host without a .hip_fatbin section")
        for section in sections:
            yield from _find_in_bundles(path, section)


def _is_amdgpu(head: bytes) -> bool:
    return int.from_bytes(head[18:20], "little") == ELF_MACHINE_AMDGPU


def _bounded(extent: _Extent) -> bytes:
    if extent.size > MAX_FILE_BYTES:
        raise CodeObjectError(f"code object of {extent.size} bytes, above {MAX_FILE_BYTES}")
    return extent.read(0, extent.size)


def _fat_sections(extent: _Extent) -> list[_Extent]:
    """The `.hip_fatbin` sections of a host's ELF file."""
    head = extent.read(0, 64)
    if head[4:6] != b"\x02\x01":
        raise CodeObjectError("not a 64-bit little-endian ELF file")
    table = int.from_bytes(head[40:48], "little")
    entry_size, count, names_at = struct.unpack_from("<HHH", head, 58)
    if not table and not count:
        return []
    if entry_size != 64 or not 0 < count < _MAX_SECTIONS or names_at >= count:
        raise CodeObjectError("ELF file without a usable section table")
    # sh_name, sh_type, sh_flags, sh_addr, sh_offset, sh_size, …
    headers = list(struct.iter_unpack("<IIQQQQIIQQ", extent.read(table, 64 * count)))
    names_offset, names_size = headers[names_at][4:6]
    if names_size > _MAX_NAMES_BYTES:
        raise CodeObjectError(f"ELF file with {names_size} bytes of section names")
    names = extent.read(names_offset, names_size)
    return [
        extent.part(one[4], one[5])
        for one in headers
        if names[one[0] : one[0] + len(_SECTION)] == _SECTION
    ]


def _find_in_bundles(path: Path, extent: _Extent) -> Iterator[FoundObject]:
    """Objects of bundles that stand one after the other, one a translation unit."""
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
            bundle = rest
            entries, size = _read_entries(bundle)
        else:
            raise CodeObjectError(f"no offload bundle at {position:#x}: {magic[:4].hex()}")
        for name, entry in entries:
            place = f"bundle at {position:#x}, {name}"
            yield FoundObject(path=path, place=place, data=_bounded(entry))
        position += size


def _next_content(extent: _Extent, position: int) -> int:
    """Skip the zeros that align the next bundle (to a page in `.hip_fatbin`)."""
    while position < extent.size:
        part = extent.head(position, _SCAN_BYTES)
        if found := re.search(rb"[^\0]", part):
            return position + found.start()
        position += len(part)
    return extent.size


def _read_entries(bundle: _Extent) -> tuple[list[tuple[str, _Extent]], int]:
    """Device entries of an uncompressed bundle, and its size.

    LLVM, ClangOffloadBundler "Bundled Binary File Layout": magic, number of entries, then offset,
    size, length of the id and id of each; all numbers of 64 bits.
    """
    at = len(_BUNDLE_MAGIC)
    count = int.from_bytes(bundle.read(at, 8), "little")
    if count > _MAX_ENTRIES:
        raise CodeObjectError(f"an offload bundle with {count} entries, above {_MAX_ENTRIES}")
    at += 8
    entries: list[tuple[str, _Extent]] = []
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


def _decompress(rest: _Extent) -> tuple[_Extent, int]:
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
    return _Extent(source=data, start=0, size=len(data)), whole


def _inflate(packed: _Extent, claimed: int) -> tuple[bytes, int]:
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


def _unpack_zstd(packed: _Extent, claimed: int) -> tuple[bytes, int]:
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
