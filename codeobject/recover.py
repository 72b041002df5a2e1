"""Code object to listing, verified: what is handed back gives the same bytes again."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from asmevo.codeobject.branch import is_direct_branch
from asmevo.codeobject.code_object import CodeObject, Kernel
from asmevo.codeobject.compare import Difference, compare
from asmevo.codeobject.computed_jump import find_computed_jumps
from asmevo.codeobject.data_section import RELATIVE64, data_sections, text_label
from asmevo.codeobject.descriptor import PRELOAD_PROLOGUE_BYTES
from asmevo.codeobject.elf import Symbol
from asmevo.codeobject.emit import Emitted, emit
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.listing import Listing, ListingKernel, TextSymbol
from asmevo.codeobject.pc_relative import PcRelative, symbolize_pc_relative
from asmevo.codeobject.symbol_name import writable_symbols
from asmevo.codeobject.toolchain import disassemble, link, try_assemble
from asmevo.codeobject.unwind import find_code_pointers
from asmevo.errors import AssemblerError, CodeObjectError

__all__ = ["find_kernel", "find_prologue", "recover", "take_apart", "tie_symbol"]

_log = logging.getLogger(__name__)
# Each round settles one class of trouble: refused lines, changed sizes, changed bytes, descriptors,
# metadata.
_MAX_ROUNDS: Final = 8
# As text they take six times as much.
_MAX_DATA_BYTES: Final = 8 << 20


def recover(data: bytes) -> Listing:
    """Take a code object apart and prove that the listing gives it back.

    `.text`, descriptors and metadata of the rebuilt object are compared with the original;
    instructions that the assembler encodes otherwise become bytes, descriptors and notes that no
    directives express stay raw.

    Raises:
        CodeObjectError: not a usable code object, or one that cannot be given back.
    """
    source = CodeObject.read(data)
    if not source.kernels:
        raise CodeObjectError("code object without kernels")
    size = sum(len(one.data) for one in data_sections(source))
    if size > _MAX_DATA_BYTES:
        raise CodeObjectError(f"{size} bytes of data are above {_MAX_DATA_BYTES}")
    return _settle(take_apart(source))


def take_apart(source: CodeObject) -> Listing:
    """The listing of an object as it is decoded, without proof that it gives the object back."""
    decoded = disassemble(source.text.data, source.target)
    found = symbolize_pc_relative(source, decoded)
    instructions = found.instructions
    starts = {one.offset: one.id for one in instructions}
    kernels = tuple(find_kernel(one, source, instructions, starts) for one in source.kernels)
    symbols = _text_symbols(source, found, instructions, starts)
    understood = frozenset(one for ids in found.sequence_ids for one in ids)
    firsts = {one.first_id for one in symbols if one.type == "STT_FUNC"}
    functions = frozenset(one.offset for one in instructions if one.id in firsts)
    blockers = found.problems + find_computed_jumps(decoded, understood, functions)
    blockers += tuple(
        f"branch at .text+{one.offset:#x} does not go to an instruction"
        for one in instructions
        if is_direct_branch(one.mnemonic) and ".L" not in one.operands
    )
    prologue = find_prologue(source, starts)
    return Listing(
        source=source,
        base=source,
        instructions=instructions,
        kernels=kernels,
        symbols=symbols,
        pinned=frozenset(prologue.union(*found.sequence_ids)),
        glued=frozenset(prologue.union(*(ids[:2] for ids in found.sequence_ids))),
        edit_blockers=blockers,
        next_id=len(instructions),
        raw_descriptors=frozenset(),
        has_raw_metadata=False,
    )


def find_prologue(source: CodeObject, starts: Mapping[int, int]) -> frozenset[int]:
    """Ids of the instructions before the entries for preloaded arguments."""
    return frozenset(
        starts[offset]
        for kernel in source.kernels
        if kernel.preload_length
        for offset in range(kernel.entry_offset, kernel.entry_offset + PRELOAD_PROLOGUE_BYTES, 4)
        if offset in starts
    )


def find_kernel(
    kernel: Kernel, source: CodeObject, instructions: Sequence[Instruction], starts: dict[int, int]
) -> ListingKernel:
    """Tie a kernel to its instructions; `starts` has their ids by offset."""
    entry = kernel.entry_offset
    later = (one.entry_offset for one in source.kernels if one.entry_offset > entry)
    end = entry + kernel.code_size if kernel.code_size else min(later, default=source.text.size)
    body = entry + (PRELOAD_PROLOGUE_BYTES if kernel.preload_length else 0)
    if entry not in starts or body not in starts:
        raise CodeObjectError(f"kernel {kernel.name[:120]} does not start at an instruction")
    last = _last_before(instructions, end)
    if last.offset < body:
        raise CodeObjectError(f"kernel {kernel.name[:120]} ends before its body")
    return ListingKernel(
        name=kernel.name,
        symbol=kernel.symbol,
        first_id=starts[entry],
        last_id=last.id,
        body_id=starts[body],
    )


def _last_before(instructions: Sequence[Instruction], end: int) -> Instruction:
    """The last instruction that starts before offset `end`."""
    low, high = 0, len(instructions)
    while low < high:
        middle = (low + high) // 2
        if instructions[middle].offset < end:
            low = middle + 1
        else:
            high = middle
    return instructions[max(0, low - 1)]


def _text_symbols(
    source: CodeObject,
    found: PcRelative,
    instructions: Sequence[Instruction],
    starts: dict[int, int],
) -> tuple[TextSymbol, ...]:
    text = source.text
    entries = {one.entry_offset for one in source.kernels}
    symbols = [
        tie_symbol(one, source, instructions, starts, is_entry=one.value - text.address in entries)
        for one in writable_symbols(source)
        if one.section == text.index
    ]
    pointed = {
        one.addend - text.address
        for one in source.relocations
        if one.type == RELATIVE64 and text.holds(one.addend)
    }
    pointed |= {one.goal - text.address for one in find_code_pointers(source)}
    symbols += [
        TextSymbol(
            name=text_label(offset),
            first_id=_start_of(offset, source, starts),
            last_id=None,
            type="STT_NOTYPE",
            binding="STB_LOCAL",
            visibility="STV_DEFAULT",
            alignment=4,
        )
        for offset in sorted(found.text_offsets | pointed)
    ]
    return tuple(symbols)


def tie_symbol(
    symbol: Symbol,
    source: CodeObject,
    instructions: Sequence[Instruction],
    starts: dict[int, int],
    *,
    is_entry: bool,
) -> TextSymbol:
    """Tie a symbol of `.text` to its instructions; CodeObjectError for one inside of one."""
    offset = symbol.value - source.text.address
    last = _last_before(instructions, offset + symbol.size) if symbol.size else None
    alignment = 4
    if is_entry or symbol.type == "STT_FUNC":
        # Entries must stay multiples of 256 (COMPUTE_PGM_LO holds address >> 8).
        alignment = min(symbol.value & -symbol.value or 4, source.text.alignment or 4, 256)
    return TextSymbol(
        name=symbol.name,
        first_id=_start_of(offset, source, starts),
        last_id=last.id if last else None,
        type=symbol.type,
        binding=symbol.binding,
        visibility=symbol.visibility,
        alignment=alignment,
    )


def _start_of(offset: int, source: CodeObject, starts: dict[int, int]) -> int | None:
    if offset == source.text.size:
        return None
    if offset not in starts:
        raise CodeObjectError(f"a symbol stands inside an instruction, at .text+{offset:#x}")
    return starts[offset]


def _settle(listing: Listing) -> Listing:
    for _ in range(_MAX_ROUNDS):
        emitted = emit(listing)
        assembly = try_assemble(emitted.text, listing.arch)
        if assembly.errors:
            listing = _settle_errors(listing, emitted, assembly.errors)
            continue
        rebuilt = CodeObject.read(link(assembly.object))
        differences = compare(listing.source, rebuilt)
        if not differences:
            return dataclasses.replace(listing, base=rebuilt)
        settled = _settle_differences(listing, rebuilt, differences)
        if settled == listing:
            raise CodeObjectError(f"the code object cannot be given back: {differences[0]}")
        listing = settled
    raise CodeObjectError("the code object cannot be given back: recovery does not settle")


def _settle_errors(
    listing: Listing, emitted: Emitted, errors: tuple[tuple[int, str], ...]
) -> Listing:
    """Turn refused instructions into bytes; other refused lines make descriptors or metadata
    raw."""
    refused = {emitted.lines[line] for line, _ in errors if line in emitted.lines}
    if refused:
        return _as_bytes(listing, refused)
    lines = emitted.text.splitlines()
    number, message = errors[0]
    begun = [line for line in lines[:number] if line.startswith("\t.amdhsa_kernel ")]
    is_metadata = "\t.amdgpu_metadata" in lines[:number]
    if is_metadata and not listing.has_raw_metadata:
        return dataclasses.replace(listing, has_raw_metadata=True)
    if begun and len(listing.raw_descriptors) < len(listing.kernels):
        names = frozenset(one.name for one in listing.kernels)
        return dataclasses.replace(listing, raw_descriptors=names)
    raise CodeObjectError(f"the code object cannot be given back: line {number}: {message}")


def _settle_differences(
    listing: Listing, rebuilt: CodeObject, differences: tuple[Difference, ...]
) -> Listing:
    parts = {one.part for one in differences}
    if ".text" in parts:
        return _as_bytes(listing, _find_changed(listing, rebuilt))
    if "descriptor" in parts:
        names = {one.name for one in differences if one.part == "descriptor"}
        raw = listing.raw_descriptors | names
        return dataclasses.replace(listing, raw_descriptors=frozenset(raw))
    if "metadata" in parts:
        return dataclasses.replace(listing, has_raw_metadata=True)
    return listing


def _find_changed(listing: Listing, rebuilt: CodeObject) -> set[int]:
    """Ids of the instructions that the assembler encoded otherwise."""
    old, new = listing.source.text.data, rebuilt.text.data
    if len(old) == len(new):
        starts = {one.id: one.offset for one in listing.instructions}
    else:
        starts = _measure(listing)
    changed = set()
    for one in listing.instructions:
        start = starts[one.id]
        if new[start : start + len(one.data)] != one.data:
            changed.add(one.id)
    if len(old) != len(new):
        # An instruction that grew or shrank may begin with the right bytes.
        for one, following in zip(listing.instructions, listing.instructions[1:], strict=False):
            if starts[following.id] - starts[one.id] != len(one.data):
                changed.add(one.id)
    return changed


def _measure(listing: Listing) -> dict[int, int]:
    """Offset of every instruction as the assembler placed it."""
    from asmevo.codeobject.elf import read_elf

    assembly = try_assemble(emit(listing, measured=True).text, listing.arch)
    if assembly.errors:
        raise AssemblerError(f"assembler: {assembly.errors[0][1]}")
    sections = read_elf(assembly.object).sections
    sizes = next(one for one in sections if one.name == ".asmevo.sizes").data
    return {
        one.id: int.from_bytes(sizes[4 * place : 4 * place + 4], "little")
        for place, one in enumerate(listing.instructions)
    }


def _as_bytes(listing: Listing, changed: set[int]) -> Listing:
    _log.debug("%d instructions are kept as bytes", len(changed))
    return dataclasses.replace(
        listing,
        instructions=tuple(
            dataclasses.replace(one, needs_bytes=True) if one.id in changed else one
            for one in listing.instructions
        ),
    )
