"""An edited listing put into the linked image of the unedited one, without assembler and linker.

What moves with the code is moved as the linker would: sections behind it, symbols, entries of
descriptors, relocations, distances. The result is that of assembling and linking, bit for bit
(`tests` and scripts/bench_recovery compare), in a fraction of the time. What is not known to be
movable is left to the linker: `relink` gives None. It is no check: `check_edit` reads the result.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgpack  # type: ignore[import-untyped]

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.data_section import RELATIVE64, place_of, text_label
from asmevo.codeobject.elf import Section
from asmevo.codeobject.elf_layout import Layout
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.metadata import NOTE_OWNER, NOTE_TYPE
from asmevo.codeobject.pc_relative import got_symbol
from asmevo.codeobject.placement import Placement
from asmevo.codeobject.resource_fields import expect_object
from asmevo.codeobject.unwind import find_code_pointers

__all__ = ["relink"]

_SYMBOL: Final = struct.Struct("<IBBHQQ")
_DYNAMIC: Final = struct.Struct("<QQ")
_RELA: Final = struct.Struct("<QIIq")
_ABS64: Final = 3
_SHN_LORESERVE: Final = 0xFF00
# DT_ tags whose value is an address; all others that lld writes here are sizes, counts and flags.
_ADDRESS_TAGS: Final = frozenset((3, 4, 5, 6, 7, 12, 13, 17, 23, 25, 26, 32, 0x6FFFFEF5))
_NUMBER_TAGS: Final = frozenset(
    (0, 2, 8, 9, 10, 11, 18, 19, 20, 22, 24, 27, 28, 30, 33, 0x6FFFFFF9, 0x6FFFFFFB)
)
_MOVABLE: Final = frozenset(
    (
        "SHT_NULL",
        "SHT_PROGBITS",
        "SHT_NOBITS",
        "SHT_NOTE",
        "SHT_DYNSYM",
        "SHT_SYMTAB",
        "SHT_STRTAB",
        "SHT_HASH",
        "SHT_GNU_HASH",
        "SHT_DYNAMIC",
        "SHT_RELA",
    )
)
_SHF_TLS: Final = 0x400
_ENTRY: Final = slice(16, 24)
_MAX_CACHED: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Image:
    """A linked object and what relinking has to know of it."""

    linked: CodeObject
    layout: Layout
    by_name: Mapping[str, int]
    slots: Mapping[str, int]
    """Address of the slot in the global offset table, by symbol."""
    note: int | None
    """The section with the metadata, where it can be written as LLVM does."""


_images: Final[OrderedDict[int, _Image | None]] = OrderedDict()
_kept: Final[dict[int, CodeObject]] = {}


def relink(listing: Listing, placement: Placement) -> bytes | None:
    """The linked object of an edited listing, or None where only the linker knows."""
    image = _find_image(listing.base)
    if image is None:
        return None
    meant = expect_object(listing)
    sizes = {image.linked.text.index: placement.offsets[None]}
    contents: dict[int, bytes] = {}
    if meant.metadata_note != image.linked.metadata_note:
        if image.note is None:
            return None
        contents[image.note] = _write_note(meant.metadata_note)
        sizes[image.note] = len(contents[image.note])
    layout = image.layout.resized(sizes)
    return _Relinker(listing, placement, image, layout).run(meant, contents)


def _find_image(linked: CodeObject) -> _Image | None:
    """What is known of `linked`, by its identity; the last few are kept alive and remembered."""
    key = id(linked)
    if key not in _images:
        _images[key] = _read_image(linked)
        _kept[key] = linked
        if len(_images) > _MAX_CACHED:
            oldest, _ = _images.popitem(last=False)
            del _kept[oldest]
    return _images[key]


def _read_image(linked: CodeObject) -> _Image | None:
    sections = linked.sections
    is_movable = all(one.type in _MOVABLE and not one.flags & _SHF_TLS for one in sections) and len(
        {one.name for one in sections}
    ) == len(sections)
    layout = Layout.read(linked) if is_movable else None
    if layout is None:
        return None
    for section in sections:
        if section.type == "SHT_DYNAMIC" and not all(
            tag in _ADDRESS_TAGS or tag in _NUMBER_TAGS
            for tag, _ in _DYNAMIC.iter_unpack(section.data)
        ):
            return None
    if any(one.type not in (_ABS64, RELATIVE64) for one in linked.relocations):
        return None
    got = next((one for one in sections if one.name == ".got"), None)
    slots = {}
    for address in range(got.address, got.address + got.size, 8) if got else ():
        name = got_symbol(linked, address)
        if name is not None:
            slots[name.removeprefix("@")] = address
    names = {one.name: one.index for one in sections}
    return _Image(linked=linked, layout=layout, by_name=names, slots=slots, note=_find_note(linked))


def _find_note(linked: CodeObject) -> int | None:
    """The metadata's section, when LLVM's encoding of a changed tree is foreseeable."""
    if msgpack.packb(dict(linked.metadata)) != linked.metadata_note:
        return None
    whole = _write_note(linked.metadata_note)
    return next((one.index for one in linked.sections if one.data == whole), None)


def _write_note(metadata: bytes) -> bytes:
    owner = NOTE_OWNER.encode() + b"\0"
    head = struct.pack("<III", len(owner), len(metadata), NOTE_TYPE)
    return head + owner + bytes(-len(owner) % 4) + metadata + bytes(-len(metadata) % 4)


class _Unknown(Exception):
    """Something that only the linker can place."""


class _Relinker:
    """One relinking: old addresses to new ones, and the contents that change."""

    def __init__(
        self, listing: Listing, placement: Placement, image: _Image, layout: Layout
    ) -> None:
        self._listing = listing
        self._descriptors: dict[str, bytes] = {}
        self._placement = placement
        self._image = image
        self._layout = layout
        self._linked = image.linked
        self._text = image.linked.text
        self._labels = {one.name: one for one in listing.symbols}
        wanted = {one.last_id for one in listing.symbols}
        self._last = {one.id: one for one in listing.instructions if one.id in wanted}

    def run(self, meant: CodeObject, contents: dict[int, bytes]) -> bytes | None:
        """The whole file, or None. `contents` are new ones of sections without addresses."""
        self._descriptors = {one.symbol: one.descriptor for one in meant.kernels}
        try:
            code = self._placement.complete(self._new_start(self._text), self._address_of)
            if code is None:
                return None
            contents = {**contents, self._text.index: code}
            for section in self._linked.sections:
                if (changed := self._moved(section)) is not None:
                    contents[section.index] = changed
        except _Unknown:
            return None
        return self._write(contents)

    def _write(self, contents: Mapping[int, bytes]) -> bytes:
        layout, old = self._layout, self._linked.data
        file = bytearray(layout.table)
        headers = layout.headers(old)
        file[: len(headers)] = headers
        for section in self._linked.sections:
            if section.type not in ("SHT_NULL", "SHT_NOBITS"):
                data = contents.get(section.index, section.data)
                start = layout.offsets[section.index]
                file[start : start + len(data)] = data
        return bytes(file) + layout.section_table(old)

    def _new_start(self, section: Section) -> int:
        return self._layout.addresses[section.index]

    def _label_address(self, name: str) -> int:
        symbol = self._labels.get(name)
        if symbol is None:
            raise _Unknown(name)
        return self._new_start(self._text) + self._placement.offsets[symbol.first_id]

    def _data_address(self, address: int, source: CodeObject) -> int:
        """Where a data address of `source` is now."""
        name, offset = place_of(source, address)
        if name not in self._image.by_name or name == ".text":
            raise _Unknown(name)
        return self._layout.addresses[self._image.by_name[name]] + offset

    def _address_of(self, name: str, kind: str) -> int:
        """What a pc-relative sequence means by a name."""
        if kind == "gotpcrel32":
            if name not in self._image.slots:
                raise _Unknown(name)
            return self._data_address(self._image.slots[name], self._linked)
        if name.startswith(".La"):
            return self._data_address(int(name.removeprefix(".La"), 16), self._listing.source)
        return self._label_address(name)

    def _moved(self, section: Section) -> bytes | None:
        """New contents of a section that holds addresses; None for one that stays."""
        if section.type in ("SHT_DYNSYM", "SHT_SYMTAB"):
            return b"".join(self._symbols(section))
        if section.type == "SHT_DYNAMIC":
            return b"".join(self._dynamic(section))
        if section.type == "SHT_RELA":
            return b"".join(self._relocations(section))
        patches = dict(self._patches(section))
        if not patches:
            return None
        data = bytearray(section.data)
        for offset, patch in patches.items():
            data[offset : offset + len(patch)] = patch
        return bytes(data)

    def _symbols(self, table: Section) -> Iterator[bytes]:
        names = self._linked.sections[self._image.layout.link_of(self._linked.data, table)].data
        for entry in _SYMBOL.iter_unpack(table.data):
            name_at, _, _, index, value, size = entry
            if 0 < index < _SHN_LORESERVE:
                section = self._linked.sections[index]
                if section is self._text:
                    name = names[name_at : names.index(b"\0", name_at)].decode()
                    place = (self._label_address(name), self._label_size(name))
                else:
                    place = (value + self._new_start(section) - section.address, size)
                yield _SYMBOL.pack(*entry[:4], *place)
            else:
                yield _SYMBOL.pack(*entry)

    def _label_size(self, name: str) -> int:
        symbol, offsets = self._labels[name], self._placement.offsets
        if symbol.last_id is None:
            return 0
        last = self._last[symbol.last_id]
        size = len(last.data) or len(self._placement.encodings[last.id].data)
        return offsets[last.id] + size - offsets[symbol.first_id]

    def _dynamic(self, section: Section) -> Iterator[bytes]:
        for tag, value in _DYNAMIC.iter_unpack(section.data):
            is_address = tag in _ADDRESS_TAGS and value
            yield _DYNAMIC.pack(tag, self._section_start(value) if is_address else value)

    def _section_start(self, address: int) -> int:
        for section in self._linked.sections:
            if section.is_allocated and section.address == address:
                return self._new_start(section)
        raise _Unknown(hex(address))

    def _relocations(self, section: Section) -> Iterator[bytes]:
        for address, kind, index, addend in _RELA.iter_unpack(section.data):
            goal = self._goal_address(addend) if kind == RELATIVE64 else addend
            yield _RELA.pack(self._data_address(address, self._linked), kind, index, goal)

    def _goal_address(self, address: int) -> int:
        if self._text.holds(address):
            return self._label_address(text_label(address - self._text.address))
        return self._data_address(address, self._linked)

    def _patches(self, section: Section) -> Iterator[tuple[int, bytes]]:
        """Descriptors with the distance to their code, pointers of unwind records."""
        kernels = {one.symbol: one for one in self._listing.kernels}
        for kernel in self._linked.kernels:
            if section.holds(kernel.descriptor_address, 64):
                at = kernel.descriptor_address - section.address
                entry = self._placement.offsets[kernels[kernel.symbol].first_id]
                distance = self._new_start(self._text) + entry - self._new_start(section) - at
                descriptor = self._descriptors[kernel.symbol]
                place = distance.to_bytes(8, "little", signed=True)
                yield at, descriptor[: _ENTRY.start] + place + descriptor[_ENTRY.stop :]
        for pointer in find_code_pointers(self._linked):
            if section.holds(pointer.address, 4):
                at = pointer.address - section.address
                distance = self._goal_address(pointer.goal) - self._new_start(section) - at
                yield at, distance.to_bytes(4, "little", signed=True)
