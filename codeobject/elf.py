"""The ELF layer of a code object, bounded before pyelftools is let loose on it."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import Any, Final

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section as ElfSection

from asmevo.codeobject.target import ELF_MACHINE_AMDGPU
from asmevo.errors import CodeObjectError

__all__ = ["ElfImage", "Relocation", "Section", "Symbol", "image_size", "read_elf"]

MAX_FILE_BYTES: Final = 256 << 20
_MAX_SECTIONS: Final = 4096
_MAX_SYMBOLS: Final = 1 << 18
_MAX_RELOCATIONS: Final = 1 << 16
_MAX_NOTES: Final = 1 << 12
# Names may share bytes of a string table, so that a small file could hold gigabytes of them.
_MAX_NAMES_BYTES: Final = 64 << 20
# More than any device's memory.
_MAX_SECTION_BYTES: Final = 1 << 40
# Aligning to more would make the assembler fill the gap.
_MAX_ALIGNMENT: Final = 1 << 20
_MAX_SECTION_NAME: Final = 1024
_SYMBOL_BYTES: Final = 24
_RELA_BYTES: Final = 24
_NOTE_HEADER_BYTES: Final = 12
# What pyelftools puts in place of bytes that are not UTF-8.
_NOT_UTF8: Final = "\ufffd"
_SHF_ALLOC: Final = 2
_SHF_COMPRESSED: Final = 0x800
_SHT_NULL_NUMBER: Final = 0
_SHT_NOBITS_NUMBER: Final = 8
_SHT_NOBITS: Final = "SHT_NOBITS"

# sh_name, sh_type, sh_flags, sh_addr, sh_offset, sh_size, sh_link, sh_info, sh_addralign,
# sh_entsize (System V ABI, "Section header").
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")


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
    _check_sections(data, size)
    try:
        return _read(ELFFile(io.BytesIO(data[:size])))
    except CodeObjectError:
        raise
    except Exception as error:
        # pyelftools reports damage with whatever its parsers stumble over: ELFError, KeyError,
        # UnicodeDecodeError, …
        kind = type(error).__name__
        raise CodeObjectError(f"damaged ELF structure: {kind}: {str(error)[:120]}") from error


def _what_it_is(data: bytes) -> str:
    if data.startswith(b"__CLANG_OFFLOAD_BUNDLE__"):
        return ": an offload bundle, unbundle it first (clang-offload-bundler)"
    if data.startswith(b"CCOB"):
        return ": a compressed offload bundle, unbundle it first (clang-offload-bundler)"
    return ""


def _check_sections(data: bytes, file_size: int) -> None:
    """Bound what pyelftools is about to read: it believes the section table."""
    table = int.from_bytes(data[40:48], "little")
    count, names = struct.unpack_from("<HH", data, 60)
    if names >= count:
        raise CodeObjectError(f"section names in section {names} of {count}")
    names_at = _SECTION.unpack_from(data, table + names * _SECTION.size)[4]
    total = 0
    for number in range(count):
        header = _SECTION.unpack_from(data, table + number * _SECTION.size)
        name, kind, flags, address, offset, size, _, _, alignment, _ = header
        if data.find(b"\0", names_at + name, names_at + name + _MAX_SECTION_NAME) < 0:
            raise CodeObjectError(f"section {number} without a usable name")
        if kind not in (_SHT_NULL_NUMBER, _SHT_NOBITS_NUMBER):
            total += size
            if offset + size > file_size:
                raise CodeObjectError(
                    f"section {number} lies outside the file: the code object is cut or damaged"
                )
        if size > _MAX_SECTION_BYTES or address + size >= 1 << 64:
            raise CodeObjectError(f"section {number} of {size} bytes at {address:#x}")
        if flags & _SHF_COMPRESSED:
            raise CodeObjectError(f"section {number} is compressed")
        if alignment & (alignment - 1) or alignment > _MAX_ALIGNMENT:
            raise CodeObjectError(f"section {number} has alignment {alignment}")
    if total > file_size:
        raise CodeObjectError("sections that overlap in the file")


def _read(elf: ELFFile) -> ElfImage:
    raw: list[Any] = [elf.get_section(number) for number in range(elf.header.e_shnum)]
    dynamic = _read_symbols(_find_table(raw, "SHT_DYNSYM"))
    return ElfImage(
        flags=elf.header.e_flags,
        abi_version=elf.header.e_ident["EI_ABIVERSION"],
        sections=tuple(_read_section(number, one) for number, one in enumerate(raw)),
        dynamic_symbols=dynamic,
        symbols=_read_symbols(_find_table(raw, "SHT_SYMTAB")),
        relocations=_read_relocations(raw, dynamic),
        notes=tuple(_read_notes(raw)),
    )


def _read_section(number: int, one: ElfSection) -> Section:
    kind = str(one["sh_type"])
    return Section(
        index=number,
        name=one.name,
        type=kind,
        flags=int(one["sh_flags"]),
        address=int(one["sh_addr"]),
        offset=int(one["sh_offset"]),
        size=int(one["sh_size"]),
        alignment=int(one["sh_addralign"]),
        entry_size=int(one["sh_entsize"]),
        data=b"" if kind in (_SHT_NOBITS, "SHT_NULL") else bytes(one.data()),
    )


def _find_table(raw: list[Any], kind: str) -> Any:
    tables = [one for one in raw if one["sh_type"] == kind]
    if len(tables) > 1:
        raise CodeObjectError(f"{len(tables)} symbol tables of type {kind}")
    return tables[0] if tables else None


def _read_symbols(table: Any) -> tuple[Symbol, ...]:
    if table is None:
        return ()
    count = table["sh_size"] // _SYMBOL_BYTES
    if table["sh_entsize"] != _SYMBOL_BYTES or count > _MAX_SYMBOLS:
        raise CodeObjectError(f"symbol table with {count} entries of {table['sh_entsize']} bytes")
    symbols, names_bytes = [], 0
    for number in range(1, count):
        one = table.get_symbol(number)
        names_bytes += len(one.name)
        if names_bytes > _MAX_NAMES_BYTES:
            raise CodeObjectError(f"more than {_MAX_NAMES_BYTES} bytes of symbol names")
        if _NOT_UTF8 in one.name:
            raise CodeObjectError(f"symbol {number} has a name that is not UTF-8")
        section = one["st_shndx"]
        symbols.append(
            Symbol(
                name=one.name,
                value=one["st_value"],
                size=one["st_size"],
                type=str(one["st_info"]["type"]),
                binding=str(one["st_info"]["bind"]),
                visibility=str(one["st_other"]["visibility"]),
                section=section if isinstance(section, int) else None,
                is_absolute=section == "SHN_ABS",
            )
        )
    return tuple(symbols)


def _read_relocations(raw: list[Any], dynamic: tuple[Symbol, ...]) -> tuple[Relocation, ...]:
    relocations: list[Relocation] = []
    for table in raw:
        if table["sh_type"] != "SHT_RELA" or not table["sh_flags"] & _SHF_ALLOC:
            continue
        count = table["sh_size"] // _RELA_BYTES
        if table["sh_entsize"] != _RELA_BYTES or count > _MAX_RELOCATIONS:
            raise CodeObjectError(f"relocation table with {count} entries")
        for one in (table.get_relocation(number) for number in range(count)):
            index = int(one["r_info_sym"])
            if index > len(dynamic):
                raise CodeObjectError(f"relocation names symbol {index} of {len(dynamic)}")
            relocations.append(
                Relocation(
                    address=one["r_offset"],
                    type=one["r_info_type"],
                    symbol=dynamic[index - 1].name if index else "",
                    addend=one["r_addend"],
                )
            )
    return tuple(relocations)


def _read_notes(raw: list[Any]) -> list[tuple[str, int, bytes]]:
    """Notes of the allocated sections.

    By hand, as pyelftools lets a note's sizes lead it beyond the section.
    """
    notes: list[tuple[str, int, bytes]] = []
    for section in raw:
        if section["sh_type"] != "SHT_NOTE" or not section["sh_flags"] & _SHF_ALLOC:
            continue
        data, at = section.data(), 0
        while at + _NOTE_HEADER_BYTES <= len(data):
            name_size, size, kind = struct.unpack_from("<III", data, at)
            name_at = at + _NOTE_HEADER_BYTES
            start = name_at + -(-name_size // 4) * 4
            if start + size > len(data) or len(notes) >= _MAX_NOTES:
                raise CodeObjectError(f"a note of {size} bytes in {len(data)}")
            owner = data[name_at : name_at + name_size].rstrip(b"\0").decode("latin-1")
            notes.append((owner, kind, data[start : start + size]))
            at = start + -(-size // 4) * 4
    return notes
