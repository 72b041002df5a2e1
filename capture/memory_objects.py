"""Code objects in the memory of a process, for a runtime that keeps no list of them.

The images that a program gave to the runtime, and the copies that the runtime made, are ELF files
in readable memory. Where they were loaded on the device is not to be seen there.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from asmevo.capture.target_process import ProcessMemory
from asmevo.errors import TargetError

__all__ = ["find_images"]

_log = logging.getLogger(__name__)

# Class 64, little endian, version 1, ELFOSABI_AMDGPU_HSA.
_MAGIC = b"\x7fELF\x02\x01\x01\x40"
_EM_AMDGPU = 224
_HEADER_BYTES = 64
_PIECE_BYTES = 16 << 20
_MAX_SCANNED_BYTES = 16 << 30
_MAX_IMAGE_BYTES = 1 << 30
_MAX_IMAGES = 1 << 14


def find_images(memory: ProcessMemory) -> Iterator[bytes]:
    """Yield every code object image in the memory of a process, equal ones perhaps repeatedly."""
    scanned = count = 0
    for start, end in _readable_ranges(memory.pid):
        for at in range(start, end, _PIECE_BYTES):
            size = min(_PIECE_BYTES + _HEADER_BYTES, end - at)
            scanned += size
            if scanned > _MAX_SCANNED_BYTES or count > _MAX_IMAGES:
                _log.warning("process %d: not all of its memory was searched", memory.pid)
                return
            for address in _find_magic(memory.read_some(at, size), at):
                if (image := _read_image(memory, address)) is not None:
                    count += 1
                    yield image


def _find_magic(data: bytes, address: int) -> Iterator[int]:
    at = data.find(_MAGIC)
    while 0 <= at < _PIECE_BYTES:
        yield address + at
        at = data.find(_MAGIC, at + 1)


def _read_image(memory: ProcessMemory, address: int) -> bytes | None:
    try:
        header = memory.read(address, _HEADER_BYTES)
        (machine,) = struct.unpack_from("<H", header, 18)
        (section_offset,) = struct.unpack_from("<Q", header, 40)
        entry_bytes, entries = struct.unpack_from("<HH", header, 58)
        size = section_offset + entry_bytes * entries
        if machine != _EM_AMDGPU or not _HEADER_BYTES < size <= _MAX_IMAGE_BYTES:
            return None
        return memory.read(address, size)
    except TargetError:
        return None


def _readable_ranges(pid: int) -> Iterator[tuple[int, int]]:
    """Ranges of ordinary memory; devices' are left alone."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split(maxsplit=5)
        path = fields[5] if len(fields) > 5 else ""
        if not fields[1].startswith("r") or path.startswith(("/dev/", "[v")):
            continue
        if os.path.basename(path).startswith("libamdhip64.so"):
            continue
        start, _, end = fields[0].partition("-")
        yield int(start, 16), int(end, 16)
