"""Everything loaded that is neither code nor made by the linker: descriptors, constants,
globals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.descriptor import DESCRIPTOR_BYTES
from asmevo.codeobject.directives import emit_descriptor
from asmevo.codeobject.elf import Relocation, Section, Symbol
from asmevo.codeobject.metadata_text import emit_bytes
from asmevo.codeobject.symbol_name import quote_symbol, writable_symbols
from asmevo.codeobject.unwind import SECTION_NAME, CodePointer, find_code_pointers

if TYPE_CHECKING:
    from asmevo.codeobject.listing import Listing

__all__ = [
    "RELATIVE64",
    "address_label",
    "data_sections",
    "emit_data_sections",
    "place_of",
    "text_label",
]

# Made by the linker from what the object holds.
_LINKER_TYPES: Final = frozenset(
    (
        "SHT_NULL",
        "SHT_NOTE",
        "SHT_DYNSYM",
        "SHT_GNU_HASH",
        "SHT_HASH",
        "SHT_STRTAB",
        "SHT_DYNAMIC",
        "SHT_RELA",
        "SHT_REL",
    )
)
_LINKER_NAMES: Final = frozenset((".text", ".relro_padding", ".got", ".plt", ".got.plt"))
# R_AMDGPU_ABS64 and R_AMDGPURELATIVE64, the dynamic relocations of data.
_ABS64: Final = 3
RELATIVE64: Final = 13


def data_sections(source: CodeObject) -> tuple[Section, ...]:
    """The sections that are emitted as data."""
    return tuple(
        one
        for one in source.sections
        if one.is_allocated and one.type not in _LINKER_TYPES and one.name not in _LINKER_NAMES
    )


def address_label(address: int) -> str:
    """Private label of a data address that code or data refers to."""
    return f".La{address:x}"


def emit_data_sections(listing: Listing) -> Iterator[str]:
    """All data sections in file order."""
    source = listing.source
    referred = _referred_addresses(listing)
    for section in data_sections(source):
        yield _section_directive(section)
        yield f"\t.p2align {(section.alignment or 1).bit_length() - 1}"
        yield from _emit_section(listing, section, referred)


def _section_directive(section: Section) -> str:
    # Merge and string flags are left out: the contents are merged already, and LLVM refuses them
    # for sections whose flags it knows by name.
    letters = "".join(
        letter for bit, letter in ((1, "w"), (2, "a"), (4, "x")) if section.flags & bit
    )
    kind = "nobits" if section.type == "SHT_NOBITS" else "progbits"
    return f'\t.section {quote_symbol(section.name)},"{letters}",@{kind}'


def _emit_section(listing: Listing, section: Section, referred: frozenset[int]) -> Iterator[str]:
    source = listing.source
    end = section.address + section.size
    descriptors = ((one.descriptor_address, one) for one in source.kernels)
    kernels = {address: one for address, one in descriptors if section.holds(address)}
    relocations = {one.address: one for one in source.relocations if section.holds(one.address, 8)}
    unwinds = {one.address: one.goal for one in _unwind_pointers(source, section)}
    symbols = _symbols_of(source, section)
    # The end of one section may be the start of the next: a label stands in one of them.
    labels = {
        one
        for one in referred
        if section.holds(one, 0) and place_of(source, one)[0] == section.name
    }
    stops = sorted({section.address, end, *kernels, *relocations, *unwinds, *symbols, *labels})
    position = section.address
    for number, stop in enumerate(stops):
        # A label inside a descriptor or a pointer cannot be placed; recovery's comparison reports
        # the difference.
        if stop < position:
            continue
        if stop in labels:
            yield f"{address_label(stop)}:"
        for symbol in symbols.get(stop, ()):
            yield from _emit_symbol(symbol)
        following = stops[number + 1] if number + 1 < len(stops) else end
        if stop in kernels:
            kernel = kernels[stop]
            raw = kernel.name in listing.raw_descriptors
            yield from emit_descriptor(kernel, source, raw=raw)
            position = stop + DESCRIPTOR_BYTES
        elif stop in relocations:
            yield f"\t.quad {_pointer(relocations[stop], listing)}"
            position = stop + 8
        elif stop in unwinds:
            yield f"\t.long {text_label(unwinds[stop] - source.text.address)}-."
            position = stop + 4
        else:
            position = stop
        if following > position:
            yield from _emit_range(section, position, following)
            position = following


def _unwind_pointers(source: CodeObject, section: Section) -> tuple[CodePointer, ...]:
    return find_code_pointers(source) if section.name == SECTION_NAME else ()


def _emit_range(section: Section, start: int, end: int) -> Iterator[str]:
    if section.type == "SHT_NOBITS":
        yield f"\t.zero {end - start}"
    else:
        yield from emit_bytes(section.data[start - section.address : end - section.address])


def _emit_symbol(symbol: Symbol) -> Iterator[str]:
    name = quote_symbol(symbol.name)
    if symbol.type in ("STT_OBJECT", "STT_FUNC"):
        yield f"\t.type {name},@{'object' if symbol.type == 'STT_OBJECT' else 'function'}"
    if symbol.visibility in ("STV_PROTECTED", "STV_HIDDEN"):
        yield f"\t.{symbol.visibility[4:].lower()} {name}"
    yield f"{name}:"
    if symbol.size:
        yield f"\t.size {name}, {symbol.size}"


def _symbols_of(source: CodeObject, section: Section) -> dict[int, list[Symbol]]:
    descriptors = {one.symbol for one in source.kernels}
    symbols: dict[int, list[Symbol]] = {}
    for one in writable_symbols(source):
        if one.section == section.index and one.name not in descriptors:
            symbols.setdefault(one.value, []).append(one)
    return symbols


def place_of(source: CodeObject, address: int) -> tuple[str, int]:
    """Section and offset of an address; the layout of a file does not change them."""
    sections = [one for one in source.sections if one.holds(address, 0)]
    # The end of one section may be the start of the next: a section that holds a byte there wins.
    sections.sort(key=lambda one: not one.holds(address, 1))
    return (sections[0].name, address - sections[0].address) if sections else ("", address)


def _pointer(relocation: Relocation, listing: Listing) -> str:
    if relocation.type == _ABS64 and relocation.symbol:
        addend = f"+{relocation.addend}" if relocation.addend else ""
        return f"{quote_symbol(relocation.symbol)}{addend}"
    text = listing.source.text
    if text.holds(relocation.addend):
        return text_label(relocation.addend - text.address)
    return address_label(relocation.addend)


def text_label(offset: int) -> str:
    """Private label of a text address that data or a pc-relative sequence refers to."""
    return f".Lt{offset:x}"


def _referred_addresses(listing: Listing) -> frozenset[int]:
    names = (
        name
        for one in listing.instructions
        if "@rel32" in one.operands
        for name in re.findall(r"\.La([0-9a-f]+)@", one.operands)
    )
    pointers = (one.addend for one in listing.source.relocations if one.type == RELATIVE64)
    return frozenset(int(name, 16) for name in names) | frozenset(pointers)
