"""ld.lld's layout of a code object, computed again for sections of other sizes.

The rules are those of LLVM 19 to 22 (lld/ELF/Writer.cpp `setFileOffset`, `fixSectionAlignments`)
for the shared objects that it makes of one relocatable object. They are taken on trust for no file:
`Layout.read` applies them to the file that it is given, and refuses one that they do not give back.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.elf import Section

__all__ = ["Layout"]

_PAGE: Final = 0x1000
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_PT_LOAD: Final = 1
_RELRO_PADDING: Final = ".relro_padding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Sections with their places, and segments by the sections that they cover."""

    sections: tuple[Section, ...]
    addresses: tuple[int, ...]
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    segment_starts: frozenset[int]
    """Indices of the sections that begin a loaded segment."""
    segments: tuple[tuple[tuple[int, ...], int, int], ...]
    """Each program header's fields with its first and last section; -1 for one that covers none."""
    table: int
    """Offset of the section table."""

    @classmethod
    def read(cls, linked: CodeObject) -> Layout | None:
        """The layout of a linked object; None when the rules do not give it back."""
        count, start = int.from_bytes(linked.data[56:58], "little"), 64
        headers = list(_SEGMENT.iter_unpack(linked.data[start : start + count * _SEGMENT.size]))
        sections = linked.sections
        segments = tuple((one, *_covered(one, sections)) for one in headers)
        layout = cls(
            sections=sections,
            addresses=tuple(one.address for one in sections),
            offsets=tuple(one.offset for one in sections),
            sizes=tuple(one.size for one in sections),
            segment_starts=frozenset(
                first for fields, first, _ in segments if fields[0] == _PT_LOAD and first >= 0
            ),
            segments=segments,
            table=int.from_bytes(linked.data[40:48], "little"),
        )
        again = layout.resized({})
        is_known = again == layout and again.headers(linked.data) == linked.data[: 64 + 56 * count]
        return (
            layout
            if is_known and again.section_table(linked.data) == linked.data[layout.table :]
            else None
        )

    def resized(self, sizes: Mapping[int, int]) -> Layout:
        """The layout when the sections of these indices have these sizes."""
        addresses, offsets, lengths = [0], [0], [0]
        headers_end = 64 + len(self.segments) * _SEGMENT.size
        address = offset = headers_end
        first_address = first_offset = 0
        for number, section in enumerate(self.sections[1:], 1):
            size = sizes.get(number, section.size)
            alignment = section.alignment or 1
            if section.is_allocated:
                if number in self.segment_starts and number > min(self.segment_starts):
                    # A segment of other rights starts on a page of its own, at the file's place in
                    # it: padding of the relocated segment takes no place in the file.
                    address = _align(address, _PAGE) + offset % _PAGE
                address = _align(address, alignment)
                if number in self.segment_starts:
                    offset += (address - offset) % _PAGE
                    first_address, first_offset = address, offset
                elif section.type != "SHT_NOBITS":
                    offset = first_offset + address - first_address
                if section.name == _RELRO_PADDING:
                    size = -address % _PAGE
                addresses.append(address)
                address += size
            else:
                offset = _align(offset, alignment)
                addresses.append(0)
            offsets.append(offset)
            lengths.append(size)
            if section.type != "SHT_NOBITS":
                offset += size
        return Layout(
            sections=self.sections,
            addresses=tuple(addresses),
            offsets=tuple(offsets),
            sizes=tuple(lengths),
            segment_starts=self.segment_starts,
            segments=self.segments,
            table=_align(offset, 8),
        )

    def headers(self, linked: bytes) -> bytes:
        """ELF header and program headers, the other fields from `linked`."""
        header = list(_HEADER.unpack_from(linked))
        header[6] = self.table
        parts = [_HEADER.pack(*header)]
        for fields, first, last in self.segments:
            kind, flags, offset, address, physical, file_size, size, alignment = fields
            # The first segment begins with the ELF header.
            start, place = (
                (self.addresses[first], self.offsets[first])
                if first >= 0 and address
                else (address, offset)
            )
            if first >= 0:
                size_now = self.addresses[last] + self.sizes[last] - start
                file_now = self._file_end(first, last) - place
            else:
                size_now, file_now = size, file_size
            moved = physical + start - address
            parts.append(
                _SEGMENT.pack(kind, flags, place, start, moved, file_now, size_now, alignment)
            )
        return b"".join(parts)

    def section_table(self, linked: bytes) -> bytes:
        """The section table, names and kinds from `linked`."""
        start = int.from_bytes(linked[40:48], "little")
        end = start + len(self.sections) * _SECTION.size
        parts = []
        for number, header in enumerate(_SECTION.iter_unpack(linked[start:end])):
            places = (self.addresses[number], self.offsets[number], self.sizes[number])
            parts.append(_SECTION.pack(*header[:3], *places, *header[6:]))
        return b"".join(parts)

    def link_of(self, linked: bytes, section: Section) -> int:
        """Index of the section that another one refers to: of its names, for a symbol table."""
        link: int = _SECTION.unpack_from(linked, self.table + section.index * _SECTION.size)[6]
        return link

    def _file_end(self, first: int, last: int) -> int:
        ends = [
            self.offsets[number] + self.sizes[number]
            for number in range(first, last + 1)
            if self.sections[number].type != "SHT_NOBITS"
        ]
        return max(ends, default=self.offsets[first])


def _covered(fields: Sequence[int], sections: Sequence[Section]) -> tuple[int, int]:
    """First and last section of a segment."""
    _, _, _, address, _, _, size, _ = fields
    inside = [
        one.index
        for one in sections
        if one.is_allocated and one.size and address <= one.address < address + size
    ]
    return (inside[0], inside[-1]) if inside else (-1, -1)


def _align(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
