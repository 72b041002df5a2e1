"""Proof that a rebuilt object is the edited listing: LLVM masks and reinterprets some texts without
a word."""

from __future__ import annotations

from collections.abc import Sequence

from asmevo.codeobject.address_check import check_addresses
from asmevo.codeobject.branch import END_LABEL, is_direct_branch
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.compare import Difference, compare
from asmevo.codeobject.descriptor import PRELOAD_PROLOGUE_BYTES
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.instruction_text import has_encoding_suffix, normalize_text
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.resource_fields import expect_object
from asmevo.codeobject.toolchain import disassemble
from asmevo.codeobject.unwind import SECTION_NAME
from asmevo.errors import AssemblerError

__all__ = ["check_edit", "check_instruction"]

_PADDING = "s_nop"


def check_edit(listing: Listing, rebuilt: CodeObject) -> None:
    """Raise AssemblerError unless `rebuilt` holds the listing's instructions and the source's
    everything else."""
    decoded = disassemble(rebuilt.text.data, rebuilt.target)
    places = _match(listing, decoded)
    for one in listing.instructions:
        check_instruction(one, decoded[places[one.id]], decoded, places)
    _check_entries(listing, rebuilt, decoded, places)
    check_addresses(listing, rebuilt, decoded, places)
    for difference in compare(expect_object(listing), rebuilt):
        if not _is_expected(difference):
            raise AssemblerError(f"the edit changed what it must not: {difference}")


def _match(listing: Listing, decoded: Sequence[Instruction]) -> dict[int, int]:
    """Place in `decoded` of every instruction; alignment before functions may have added
    `s_nop`."""
    alignments: dict[int | None, int] = {}
    for symbol in listing.symbols:
        alignments[symbol.first_id] = max(symbol.alignment, alignments.get(symbol.first_id, 4))
    places: dict[int, int] = {}
    place = 0
    offset = 0
    for one in listing.instructions:
        while offset % alignments.get(one.id, 4) and place < len(decoded):
            if decoded[place].mnemonic != _PADDING:
                raise AssemblerError(f"unexpected padding before instruction {one.id}")
            offset += len(decoded[place].data)
            place += 1
        if place >= len(decoded):
            raise AssemblerError(f"instruction {one.id} is missing in the rebuilt code")
        places[one.id] = place
        if one.needs_bytes or one.mnemonic == ".long":
            # Bytes may decode in other pieces beside new neighbours.
            place, offset = _skip_bytes(one, decoded, place, offset)
        else:
            offset += len(decoded[place].data)
            place += 1
    if place != len(decoded):
        raise AssemblerError("the rebuilt code has instructions that the listing does not hold")
    return places


def _skip_bytes(
    one: Instruction, decoded: Sequence[Instruction], place: int, offset: int
) -> tuple[int, int]:
    end = offset + len(one.data)
    found = b""
    while offset < end and place < len(decoded):
        found += decoded[place].data
        offset += len(decoded[place].data)
        place += 1
    if found != one.data:
        raise AssemblerError(f"instruction {one.id}, kept as bytes, does not come back alone")
    return place, offset


def check_instruction(
    meant: Instruction,
    found: Instruction,
    decoded: Sequence[Instruction],
    places: dict[int, int],
) -> None:
    """Raise AssemblerError unless `found`, one of `decoded`, is what was meant.

    `places` holds the place in `decoded` of every instruction of the listing.
    """
    if is_direct_branch(meant.mnemonic) and ".L" in meant.operands:
        _check_branch(meant, found, decoded, places)
    elif meant.needs_bytes or "@" in meant.operands:
        return
    elif meant.data:
        if found.data != meant.data:
            raise AssemblerError(
                f"instruction {meant.id} `{meant.text}` came back as `{found.text}`"
            )
    else:
        drop = not has_encoding_suffix(meant.mnemonic)
        wanted = normalize_text(meant.mnemonic, meant.operands, drop_suffix=drop)
        got = normalize_text(found.mnemonic, found.operands, drop_suffix=drop)
        if wanted != got:
            raise AssemblerError(f"`{meant.text}` was assembled as `{found.text}`")


def _check_branch(
    meant: Instruction,
    found: Instruction,
    decoded: Sequence[Instruction],
    places: dict[int, int],
) -> None:
    head = meant.operands.rpartition(", ")[0]
    same_head = found.operands.rpartition(", ")[0] == head
    if meant.target is not None:
        goes_right = found.target == decoded[places[meant.target]].id
    else:
        goes_right = meant.operands.endswith(END_LABEL) and found.operands.endswith(END_LABEL)
    if found.mnemonic != meant.mnemonic or not same_head or not goes_right:
        raise AssemblerError(f"branch {meant.id} `{meant.text}` came back as `{found.text}`")


def _check_entries(
    listing: Listing,
    rebuilt: CodeObject,
    decoded: Sequence[Instruction],
    places: dict[int, int],
) -> None:
    entries = {one.symbol: one for one in rebuilt.kernels}
    for kernel in listing.kernels:
        found = entries.get(kernel.symbol)
        if found is None or found.entry_offset != decoded[places[kernel.first_id]].offset:
            raise AssemblerError(f"kernel {kernel.name} does not start at its first instruction")
        body = found.entry_offset + (PRELOAD_PROLOGUE_BYTES if found.preload_length else 0)
        if decoded[places[kernel.body_id]].offset != body:
            raise AssemblerError(f"the body of kernel {kernel.name} does not start at its entry")


def _is_expected(difference: Difference) -> bool:
    """Differences that every edit may make: the code itself, and where its functions start and
    end."""
    if difference.part == ".text":
        return True
    if difference.part == "descriptor":
        return difference.detail.startswith("entry at ")
    if difference.part == "section" and difference.name == SECTION_NAME:
        return True
    return difference.part in ("symbol", "pointer") and difference.is_move
