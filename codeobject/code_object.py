"""A code object as the runtime sees it: target, kernels, descriptors, metadata, sections,
symbols."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from asmevo.codeobject.descriptor import DESCRIPTOR_BYTES, KernelDescriptor
from asmevo.codeobject.elf import ElfImage, Relocation, Section, Symbol, image_size, read_elf
from asmevo.codeobject.metadata import (
    NOTE_OWNER,
    NOTE_TYPE,
    KernelArgument,
    KernelMetadata,
    parse_metadata,
    read_kernels,
)
from asmevo.codeobject.target import MACHINES, feature_state, parse_target_id, target_id
from asmevo.errors import CodeObjectError

__all__ = ["CodeObject", "Kernel", "KernelArgument", "content_hash", "image_size", "require_arch"]

# EI_ABIVERSION 2, 3, 4 are code object versions 4, 5, 6. Version 3 and older spell e_flags
# differently.
_ABI_VERSIONS: Final = (2, 3, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel: what the metadata says and where its descriptor and code are."""

    name: str
    symbol: str
    """Name of the descriptor's symbol, `NAME.kd`."""
    metadata: KernelMetadata
    descriptor: bytes
    fields: KernelDescriptor
    descriptor_address: int
    entry_offset: int
    """Bytes from the start of `.text` to the first instruction."""
    code_size: int
    """Bytes of code by the function symbol; 0 when the object does not say."""

    @property
    def arguments(self) -> tuple[KernelArgument, ...]:
        """Arguments in the metadata's order, hidden ones included."""
        return self.metadata.arguments

    @property
    def kernarg_segment_size(self) -> int:
        """Bytes of the kernarg segment by the metadata (descriptors of hand-written objects often
        say 0)."""
        return self.metadata.kernarg_segment_size

    @property
    def preload_length(self) -> int:
        """Kernarg dwords preloaded into SGPRs; when not 0 the body starts at `entry_offset +
        256`."""
        return self.fields.preload_length


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeObject:
    """One AMDGPU code object of version 4 to 6."""

    data: bytes
    """The ELF image, without what may follow it."""
    target: str
    """Processor: `gfx942`."""
    xnack: str
    """`unsupported`, `any`, `off` or `on`, as for `sramecc`."""
    sramecc: str
    version: int
    """Code object version: 4, 5 or 6."""
    sections: tuple[Section, ...]
    dynamic_symbols: tuple[Symbol, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]
    kernels: tuple[Kernel, ...]
    metadata: Mapping[str, Any]
    """The whole metadata tree."""
    metadata_note: bytes
    """The note's description as it stands in the file."""

    @classmethod
    def read(cls, data: bytes) -> CodeObject:
        """Read a code object; CodeObjectError for anything that is not a whole, consistent one."""
        elf = read_elf(data)
        target = MACHINES.get(elf.flags & 0xFF)
        if target is None:
            raise CodeObjectError(
                f"unknown AMDGPU processor {elf.flags & 0xFF:#x} in the ELF flags"
            )
        if elf.abi_version not in _ABI_VERSIONS:
            raise CodeObjectError(
                f"code object ABI version {elf.abi_version} is not supported",
                hint="code object versions 4, 5 and 6 are",
            )
        note = _find_note(elf)
        tree = parse_metadata(note)
        return cls(
            data=data[: image_size(data)],
            target=target,
            xnack=feature_state(elf.flags, shift=8),
            sramecc=feature_state(elf.flags, shift=10),
            version=elf.abi_version + 2,
            sections=elf.sections,
            dynamic_symbols=elf.dynamic_symbols,
            symbols=elf.symbols,
            relocations=elf.relocations,
            kernels=_locate_kernels(elf, read_kernels(tree)),
            metadata=MappingProxyType(tree),
            metadata_note=note,
        )

    @property
    def target_id(self) -> str:
        """Processor with the features that are fixed: `gfx942:sramecc+:xnack-`."""
        return target_id(self.target, sramecc=self.sramecc, xnack=self.xnack)

    @property
    def text(self) -> Section:
        """The `.text` section."""
        return _find_text(self.sections)

    @property
    def sha256(self) -> str:
        """Content hash of the ELF image: what keys a code object everywhere in asmevo."""
        return content_hash(self.data)

    def section(self, name: str) -> Section | None:
        """The first section of this name."""
        return next((one for one in self.sections if one.name == name), None)

    def kernel(self, name: str) -> Kernel:
        """The kernel of this name, with or without `.kd`."""
        wanted = name.removesuffix(".kd")
        for one in self.kernels:
            if wanted in (one.name, one.symbol.removesuffix(".kd")):
                return one
        known = ", ".join(one.name for one in self.kernels[:5])
        raise CodeObjectError(
            f"no kernel {wanted[:120]} in the code object", hint=f"it has {known}"
        )


def content_hash(data: bytes) -> str:
    """Sha256 of a code object's bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def require_arch(code_object: CodeObject, arch: str) -> None:
    """Raise CodeObjectError unless the object runs on a device of target id `arch`
    (`gfx942:sramecc+:xnack-`)."""
    processor, features = parse_target_id(arch)
    fits = code_object.target == processor
    for feature in features:
        state = getattr(code_object, feature[:-1])
        fits = fits and (state not in ("on", "off") or (state == "on") == (feature[-1] == "+"))
    if not fits:
        raise CodeObjectError(f"code object is for {code_object.target_id}, not for {arch}")


def _find_note(elf: ElfImage) -> bytes:
    notes = [note for owner, kind, note in elf.notes if (owner, kind) == (NOTE_OWNER, NOTE_TYPE)]
    if not notes:
        raise CodeObjectError("code object without an AMDGPU metadata note")
    return notes[0]


def _find_text(sections: tuple[Section, ...]) -> Section:
    found = [one for one in sections if one.name == ".text" and one.type == "SHT_PROGBITS"]
    if len(found) != 1 or not found[0].is_allocated:
        raise CodeObjectError(f"code object with {len(found)} .text sections instead of one")
    return found[0]


def _locate_kernels(elf: ElfImage, entries: tuple[KernelMetadata, ...]) -> tuple[Kernel, ...]:
    if not entries:
        return ()
    text = _find_text(elf.sections)
    # .symtab fills in for a kernel whose descriptor was made hidden; the dynamic table wins.
    symbols = {one.name: one for one in (*elf.symbols, *elf.dynamic_symbols) if one.section}
    functions = {
        one.value: one.size for one in symbols.values() if one.type == "STT_FUNC" and one.size
    }
    kernels = []
    for entry in entries:
        symbol = symbols.get(entry.symbol)
        if symbol is None:
            raise CodeObjectError(
                f"kernel {entry.name[:120]} has no descriptor symbol {entry.symbol[:120]}"
            )
        descriptor = _read_range(elf, symbol.value, entry.symbol)
        fields = KernelDescriptor.parse(descriptor)
        entry_address = symbol.value + fields.entry_offset
        if not text.holds(entry_address, 4) or entry_address % 4:
            raise CodeObjectError(f"kernel {entry.name[:120]} starts outside .text")
        kernels.append(
            Kernel(
                name=entry.name,
                symbol=entry.symbol,
                metadata=entry,
                descriptor=descriptor,
                fields=fields,
                descriptor_address=symbol.value,
                entry_offset=entry_address - text.address,
                code_size=functions.get(entry_address, 0),
            )
        )
    return tuple(kernels)


def _read_range(elf: ElfImage, address: int, name: str) -> bytes:
    for section in elf.sections:
        if section.data and section.holds(address, DESCRIPTOR_BYTES):
            start = address - section.address
            return section.data[start : start + DESCRIPTOR_BYTES]
    raise CodeObjectError(f"kernel descriptor {name[:120]} lies outside the loaded image")
