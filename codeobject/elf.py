"""The ELF layer of a code object. Every count and size is checked before it is believed."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from asmevo.codeobject.target import ELF_MACHINE_AMDGPU
from asmevo.errors import CodeObjectError

__all__ = ["ElfImage", "Relocation", "Section", "Symbol", "image_size", "read_elf"]

MAX_FILE_BYTES: Final = 256 << 20
_MAX_SECTIONS: Final = 4096
_MAX_SYMBOLS: Final = 1 << 20
_MAX_NOTES: Final = 1 << 12
# Names may share bytes of a string table, so that a small file could hold gigabytes of them.
_MAX_NAMES_BYTES: Final = 64 << 20
# More than any device's memory.
_MAX_SECTION_BYTES: Final = 1 << 40
_SHF_ALLOC: Final = 2
_SHF_COMPRESSED: Final = 0x800
_SHT_NOBITS: Final = "SHT_NOBITS"
_SHN_LORESERVE: Final = 0xFF00
_SHN_ABS: Final = 0xFFF1

# sh_name, sh_type, sh_flags, sh_addr, sh_offset, sh_size, sh_link, sh_info, sh_addralign,
# sh_entsize (System V ABI, "Section header").
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELA: Final = struct.Struct("<QIIq")

_SECTION_TYPES: Final = {
    0: "SHT_NULL",
    1: "SHT_PROGBITS",
    2: "SHT_SYMTAB",
    3: "SHT_STRTAB",
    4: "SHT_RELA",
    5: "SHT_HASH",
    6: "SHT_DYNAMIC",
    7: "SHT_NOTE",
    8: "SHT_NOBITS",
    9: "SHT_REL",
    11: "SHT_DYNSYM",
    14: "SHT_INIT_ARRAY",
    15: "SHT_FINI_ARRAY",
    16: "SHT_PREINIT_ARRAY",
    17: "SHT_GROUP",
    0x6FFFFFF6: "SHT_GNU_HASH",
}
_SYMBOL_TYPES: Final = {
    0: "STT_NOTYPE",
    1: "STT_OBJECT",
    2: "STT_FUNC",
    3: "STT_SECTION",
    4: "STT_FILE",
    5: "STT_COMMON",
    6: "STT_TLS",
}
_BINDINGS: Final = {0: "STB_LOCAL", 1: "STB_GLOBAL", 2: "STB_WEAK"}
_VISIBILITIES: Final = ("STV_DEFAULT", "STV_INTERNAL", "STV_HIDDEN", "STV_PROTECTED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section; `data` is empty for one without file contents."""

    index: int
    name: str
    type: str
    flags: int
    address: int
    offset: int
    size: int
    link: int
    alignment: int
    entry_size: int
    data: bytes

    @property
    def is_allocated(self) -> bool:
        """True when the section is part of the loaded image."""
        return bool(self.flags & _SHF_ALLOC)

    def holds(self, address: int, size: int = 1) -> bool:
        """True when the range lies inside the loaded section."""
        return self.is_allocated and self.address <= address <= self.address + self.size - size


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """One symbol; `section` is the section's index, or None for undefined and absolute ones."""

    name: str
    value: int
    size: int
    type: str
    binding: str
    visibility: str
    section: int | None
    is_absolute: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocation:
    """One dynamic relocation."""

    address: int
    type: int
    symbol: str
    addend: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElfImage:
    """What the ELF headers and tables of a code object say."""

    flags: int
    abi_version: int
    sections: tuple[Section, ...]
    dynamic_symbols: tuple[Symbol, ...]
    symbols: tuple[Symbol, ...]
    """`.symtab` in file order; empty when stripped."""
    relocations: tuple[Relocation, ...]
    notes: tuple[tuple[str, int, bytes], ...]
    """Owner, type and description of every note of an allocated note section."""


def image_size(data: bytes) -> int:
    """Size of the ELF image at the start of `data`: `e_shoff + e_shnum * e_shentsize`.

    hipModuleLoadData gets an address without a size; code objects end with their section table.
    """
    if len(data) < 64:
        raise CodeObjectError(f"file of {len(data)} bytes is too short for a code object")
    if data[:4] != b"\x7fELF":
        raise CodeObjectError(f"not an ELF file{_what_it_is(data)}")
    if data[4] != 2 or data[5] != 1:
        raise CodeObjectError("not a 64-bit little-endian ELF file")
    machine = int.from_bytes(data[18:20], "little")
    if machine != ELF_MACHINE_AMDGPU:
        raise CodeObjectError(f"ELF file for machine {machine}, not for AMDGPU (224)")
    table = int.from_bytes(data[40:48], "little")
    entry_size, count = (int.from_bytes(data[at : at + 2], "little") for at in (58, 60))
    if not 0 < count <= _MAX_SECTIONS or entry_size != _SECTION.size or table < 64:
        raise CodeObjectError("code object without a usable section table")
    size = table + count * entry_size
    if size > MAX_FILE_BYTES:
        raise CodeObjectError(f"code object claims {size} bytes, above {MAX_FILE_BYTES}")
    return size


def read_elf(data: bytes) -> ElfImage:
    """Read headers, sections, symbols, dynamic relocations and notes."""
    size = image_size(data)
    if size > len(data):
        raise CodeObjectError(f"code object is cut: {len(data)} of {size} bytes")
    sections = _read_sections(data, size)
    strings = _Strings(sections)
    dynamic = _read_symbols(_find_table(sections, "SHT_DYNSYM"), strings)
    return ElfImage(
        flags=int.from_bytes(data[48:52], "little"),
        abi_version=data[8],
        sections=sections,
        dynamic_symbols=dynamic,
        symbols=_read_symbols(_find_table(sections, "SHT_SYMTAB"), strings),
        relocations=_read_relocations(sections, dynamic),
        notes=tuple(_read_notes(sections)),
    )


def _what_it_is(data: bytes) -> str:
    if data.startswith(b"__CLANG_OFFLOAD_BUNDLE__"):
        return ": an offload bundle, unbundle it first (clang-offload-bundler)"
    if data.startswith(b"CCOB"):
        return ": a compressed offload bundle, unbundle it first (clang-offload-bundler)"
    return ""


def _read_sections(data: bytes, file_size: int) -> tuple[Section, ...]:
    table = int.from_bytes(data[40:48], "little")
    count, names_at = struct.unpack_from("<HH", data, 60)
    headers = list(_SECTION.iter_unpack(data[table : table + count * _SECTION.size]))
    if names_at >= count:
        raise CodeObjectError(f"section names in section {names_at} of {count}")
    names_offset, names_size = headers[names_at][4:6]
    if names_offset + names_size > file_size:
        raise CodeObjectError("section names lie outside the file")
    names = data[names_offset : names_offset + names_size]
    total = 0
    sections = []
    for number, header in enumerate(headers):
        section = _read_section(number, header, names, data, file_size)
        sections.append(section)
        total += len(section.data)
    if total > file_size:
        raise CodeObjectError("sections that overlap in the file")
    return tuple(sections)


def _read_section(
    number: int, header: tuple[int, ...], names: bytes, data: bytes, file_size: int
) -> Section:
    name, number_of_type, flags, address, offset, size, link, _, alignment, entry_size = header
    kind = _SECTION_TYPES.get(number_of_type, str(number_of_type))
    has_contents = kind not in (_SHT_NOBITS, "SHT_NULL")
    if has_contents and offset + size > file_size:
        raise CodeObjectError(
            f"section {number} lies outside the file: the code object is cut or damaged"
        )
    if size > _MAX_SECTION_BYTES or address + size >= 1 << 64:
        raise CodeObjectError(f"section {number} of {size} bytes at {address:#x}")
    if flags & _SHF_COMPRESSED:
        raise CodeObjectError(f"section {number} is compressed")
    if alignment & (alignment - 1) or alignment > 1 << 32:
        raise CodeObjectError(f"section {number} has alignment {alignment}")
    return Section(
        index=number,
        name=_text_at(names, name, "section"),
        type=kind,
        flags=flags,
        address=address,
        offset=offset,
        size=size,
        link=link,
        alignment=alignment,
        entry_size=entry_size,
        data=data[offset : offset + size] if has_contents else b"",
    )


def _text_at(strings: bytes, offset: int, what: str) -> str:
    end = strings.find(b"\0", offset)
    if offset >= len(strings) or end < 0:
        if offset == 0:
            return ""
        raise CodeObjectError(f"a {what} name lies outside its string table")
    # What is no UTF-8 stays distinct, and no directive can hold it.
    return strings[offset:end].decode("utf-8", "surrogateescape")


class _Strings:
    """Names from string tables, bounded in their sum."""

    def __init__(self, sections: tuple[Section, ...]) -> None:
        self._sections = sections
        self._left = _MAX_NAMES_BYTES

    def table(self, link: int) -> bytes:
        """Contents of the string table that a symbol table names."""
        if link >= len(self._sections) or self._sections[link].type != "SHT_STRTAB":
            raise CodeObjectError("a symbol table without its string table")
        return self._sections[link].data

    def name(self, strings: bytes, offset: int) -> str:
        """One symbol's name."""
        text = _text_at(strings, offset, "symbol")
        self._left -= len(text)
        if self._left < 0:
            raise CodeObjectError(f"more than {_MAX_NAMES_BYTES} bytes of symbol names")
        return text


def _find_table(sections: tuple[Section, ...], kind: str) -> Section | None:
    tables = [one for one in sections if one.type == kind]
    if len(tables) > 1:
        raise CodeObjectError(f"{len(tables)} symbol tables of type {kind}")
    return tables[0] if tables else None


def _read_symbols(table: Section | None, strings: _Strings) -> tuple[Symbol, ...]:
    if table is None:
        return ()
    count = table.size // _SYMBOL.size
    if table.entry_size != _SYMBOL.size or count > _MAX_SYMBOLS:
        raise CodeObjectError(f"symbol table with {count} entries of {table.entry_size} bytes")
    names = strings.table(table.link)
    entries = _SYMBOL.iter_unpack(table.data[: count * _SYMBOL.size])
    next(entries, None)
    return tuple(
        Symbol(
            name=strings.name(names, name),
            value=value,
            size=size,
            type=_SYMBOL_TYPES.get(info & 15, str(info & 15)),
            binding=_BINDINGS.get(info >> 4, str(info >> 4)),
            visibility=_VISIBILITIES[other & 3],
            section=section if 0 < section < _SHN_LORESERVE else None,
            is_absolute=section == _SHN_ABS,
        )
        for name, info, other, section, value, size in entries
    )


def _read_relocations(
    sections: tuple[Section, ...], dynamic: tuple[Symbol, ...]
) -> tuple[Relocation, ...]:
    relocations: list[Relocation] = []
    for table in sections:
        if table.type != "SHT_RELA" or not table.is_allocated:
            continue
        count = table.size // _RELA.size
        if table.entry_size != _RELA.size or count > _MAX_SYMBOLS:
            raise CodeObjectError(f"relocation table with {count} entries")
        for address, kind, index, addend in _RELA.iter_unpack(table.data[: count * _RELA.size]):
            if index > len(dynamic):
                raise CodeObjectError(f"relocation names symbol {index} of {len(dynamic)}")
            symbol = dynamic[index - 1].name if index else ""
            relocations.append(Relocation(address=address, type=kind, symbol=symbol, addend=addend))
    return tuple(relocations)


def _read_notes(sections: tuple[Section, ...]) -> list[tuple[str, int, bytes]]:
    notes: list[tuple[str, int, bytes]] = []
    for section in sections:
        if section.type != "SHT_NOTE" or not section.is_allocated:
            continue
        data, at = section.data, 0
        while at + 12 <= len(data):
            name_size, size, kind = struct.unpack_from("<III", data, at)
            start = at + 12 + -(-name_size // 4) * 4
            if start + size > len(data) or len(notes) >= _MAX_NOTES:
                raise CodeObjectError(f"a note of {size} bytes in {len(data)}")
            owner = data[at + 12 : at + 12 + name_size].rstrip(b"\0").decode("latin-1")
            notes.append((owner, kind, data[start : start + size]))
            at = start + -(-size // 4) * 4
    return notes
