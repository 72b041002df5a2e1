"""Finds code objects in what ships them: files, offload bundles, host libraries, folders."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from asmevo.codeobject.elf import MAX_FILE_BYTES
from asmevo.codeobject.offload_bundle import BUNDLE_MAGICS, Extent, read_bundles
from asmevo.codeobject.target import ELF_MACHINE_AMDGPU
from asmevo.errors import CodeObjectError, UsageError

__all__ = ["FoundObject", "find_code_objects", "find_files"]

_ELF_MAGIC: Final = b"\x7fELF"
_SUFFIXES: Final = (".co", ".hsaco")
_SECTION: Final = b".hip_fatbin\0"

_MAX_FILES: Final = 1 << 20
_MAX_SECTIONS: Final = 1 << 16
_MAX_NAMES_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundObject:
    """One code object and where it was found."""

    path: Path
    place: str
    """Offset of the bundle and target of the entry; empty for a file that is a code object."""
    data: bytes


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
        yield from _find(path, Extent(source=descriptor, start=0, size=size))
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
        extent = Extent(source=descriptor, start=0, size=os.fstat(descriptor).st_size)
        head = extent.head(0, 64)
        if head.startswith(BUNDLE_MAGICS):
            return True
        return head.startswith(_ELF_MAGIC) and (_is_amdgpu(head) or bool(_fat_sections(extent)))
    except (CodeObjectError, OSError):
        return False
    finally:
        os.close(descriptor)


def _find(path: Path, extent: Extent) -> Iterator[FoundObject]:
    head = extent.head(0, 64)
    if head.startswith(BUNDLE_MAGICS):
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


def _bounded(extent: Extent) -> bytes:
    if extent.size > MAX_FILE_BYTES:
        raise CodeObjectError(f"code object of {extent.size} bytes, above {MAX_FILE_BYTES}")
    return extent.read(0, extent.size)


def _fat_sections(extent: Extent) -> list[Extent]:
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


def _find_in_bundles(path: Path, extent: Extent) -> Iterator[FoundObject]:
    for position, name, entry in read_bundles(extent):
        place = f"bundle at {position:#x}, {name}"
        yield FoundObject(path=path, place=place, data=_bounded(entry))
