"""Proof that a rebuilt object is the edited listing: LLVM masks and reinterprets some texts without
a word.

Kept instructions were decoded when the listing was recovered: the same bytes in the right place are
the same instructions. Added ones are decoded again and compared with the text that was meant.
"""

from __future__ import annotations

from asmevo.codeobject.address_check import check_addresses
from asmevo.codeobject.branch import branch_distance
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.compare import Difference, compare
from asmevo.codeobject.descriptor import PRELOAD_PROLOGUE_BYTES
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.instruction_check import check_text
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.placement import Placement, place_instructions
from asmevo.codeobject.resource_fields import expect_object
from asmevo.codeobject.unwind import SECTION_NAME
from asmevo.errors import AssemblerError

__all__ = ["check_edit"]


def check_edit(listing: Listing, rebuilt: CodeObject, placement: Placement | None = None) -> None:
    """Raise AssemblerError unless `rebuilt` holds the listing's instructions and the source's
    everything else.

    `placement` is that of the listing, where the caller has it.
    """
    placement = placement or place_instructions(listing)
    _check_code(listing, rebuilt, placement)
    _check_entries(listing, rebuilt, placement)
    check_addresses(listing, rebuilt, placement.offsets, placement.pc_relative)
    for difference in compare(expect_object(listing), rebuilt):
        if not _is_expected(difference):
            raise AssemblerError(f"the edit changed what it must not: {difference}")


def _check_code(listing: Listing, rebuilt: CodeObject, placement: Placement) -> None:
    """Every byte of `.text` is that of the instruction that is to stand there, or padding; only
    distances may differ, and lead where they are to."""
    code = bytearray(rebuilt.text.data)
    if len(code) != len(placement.code):
        raise AssemblerError(f"code of {len(code)} bytes, not {len(placement.code)}")
    for one in placement.branches:
        _check_branch(one, rebuilt.text.data, placement)
        _hide(code, placement, placement.offsets[one.id], 2)
    for one in placement.pc_relative:
        # `check_addresses` looks at these.
        _hide(code, placement, placement.offsets[one.id] + 4, 4)
    if code != placement.code:
        raise AssemblerError(_first_change(listing, bytes(code), placement))
    added = {one.id: one for one in listing.instructions if not one.data}
    for identifier, encoding in placement.encodings.items():
        check_text(added[identifier], encoding.mnemonic, encoding.operands)


def _hide(code: bytearray, placement: Placement, start: int, size: int) -> None:
    code[start : start + size] = placement.code[start : start + size]


def _check_branch(one: Instruction, code: bytes, placement: Placement) -> None:
    offset = placement.offsets[one.id]
    size = len(one.data) or len(placement.encodings[one.id].data)
    goal = offset + size + branch_distance(code[offset : offset + 4])
    if goal != placement.offsets[one.target]:
        raise AssemblerError(f"branch {one.id} `{one.text}` goes to .text+{goal:#x}")


def _first_change(listing: Listing, code: bytes, placement: Placement) -> str:
    for one in listing.instructions:
        start = placement.offsets[one.id]
        size = len(one.data) or len(placement.encodings[one.id].data)
        if code[start : start + size] != placement.code[start : start + size]:
            found = code[start : start + size].hex()
            return f"instruction {one.id} `{one.text}` came back as the bytes {found}"
    return "the code has other padding than it should"


def _check_entries(listing: Listing, rebuilt: CodeObject, placement: Placement) -> None:
    entries = {one.symbol: one for one in rebuilt.kernels}
    for kernel in listing.kernels:
        found = entries.get(kernel.symbol)
        if found is None or found.entry_offset != placement.offsets[kernel.first_id]:
            raise AssemblerError(f"kernel {kernel.name} does not start at its first instruction")
        body = found.entry_offset + (PRELOAD_PROLOGUE_BYTES if found.preload_length else 0)
        if placement.offsets[kernel.body_id] != body:
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
