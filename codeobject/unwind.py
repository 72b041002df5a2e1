"""`.eh_frame`: unwind records, which the linker parses: their pointers to code must be relocations.

Nothing on the device reads them; debuggers do. A record without a relocation would be dropped as
dead code (lld, EhInputSection), which changes the loaded image.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from asmevo.codeobject.code_object import CodeObject

__all__ = ["SECTION_NAME", "CodePointer", "find_code_pointers"]

SECTION_NAME: Final = ".eh_frame"
# DW_EH_PE_pcrel with udata4/sdata4: the encoding that LLVM's AMDGPU target writes.
_PCREL_SDATA4: Final = 0x1B
_PLAIN_CIE: Final = b"\x01zR\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePointer:
    """A pc-relative 32-bit pointer of an unwind record."""

    address: int
    """Where it stands."""
    goal: int
    """The address that it means."""


def find_code_pointers(source: CodeObject) -> tuple[CodePointer, ...]:
    """All pointers to `.text`; empty when there is no section or a record is of another kind."""
    section = source.section(SECTION_NAME)
    if section is None or not section.is_allocated:
        return ()
    return tuple(_walk(section.data, section.address, source))


def _walk(data: bytes, address: int, source: CodeObject) -> Iterator[CodePointer]:
    at = 0
    plain: set[int] = set()
    while at + 8 <= len(data):
        size, kind = (int.from_bytes(data[at + skip : at + skip + 4], "little") for skip in (0, 4))
        if size < 4 or at + 4 + size > len(data):
            return
        record = data[at + 4 : at + 4 + size]
        if kind == 0:
            if _is_plain_cie(record):
                plain.add(at)
        elif at + 4 - kind in plain and size >= 12:
            field = at + 8
            goal = address + field + int.from_bytes(data[field : field + 4], "little", signed=True)
            if source.text.holds(goal):
                yield CodePointer(address=address + field, goal=goal)
        at += 4 + size


def _is_plain_cie(record: bytes) -> bool:
    """True for version 1, augmentation "zR" and 32-bit pc-relative pointers."""
    if record[4:8] != _PLAIN_CIE:
        return False
    # Code and data alignment, return register, augmentation length: one LEB128 each, all short
    # here.
    position = 8
    for _ in range(4):
        while position < len(record) and record[position] & 0x80:
            position += 1
        position += 1
    return record[position : position + 1] == bytes([_PCREL_SDATA4])
