"""Direct branches: which instructions they are and where they go."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from asmevo.codeobject.instruction import Instruction

__all__ = ["END_LABEL", "branch_distance", "is_direct_branch", "label_of", "link_branches"]

END_LABEL: Final = ".Lend"
# These take registers, not a distance: SOP2/SOP1 of the gfx9 fork/join mechanism.
_INDIRECT: Final = frozenset({"s_cbranch_g_fork", "s_cbranch_join"})


def is_direct_branch(mnemonic: str) -> bool:
    """True for SOPP branches and the SOPK ones that hold a distance (`s_call_b64`,
    `s_cbranch_i_fork`)."""
    if mnemonic in _INDIRECT:
        return False
    return mnemonic in (
        "s_branch",
        "s_call_b64",
        "s_subvector_loop_begin",
        "s_subvector_loop_end",
    ) or (mnemonic.startswith("s_cbranch_"))


def branch_distance(data: bytes) -> int:
    """Bytes from the end of a direct branch to its target: SIMM16 of its first word, counted in
    words."""
    return int.from_bytes(data[:2], "little", signed=True) * 4


def label_of(identifier: int) -> str:
    """Label of the instruction with this id; `.L` keeps it out of the symbol table."""
    return f".L{identifier}"


def link_branches(instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Give direct branches their `target` and its label, from their encodings."""
    starts = {one.offset: one.id for one in instructions}
    end = instructions[-1].offset + len(instructions[-1].data) if instructions else 0
    return tuple(_link(one, starts, end) for one in instructions)


def _link(one: Instruction, starts: dict[int, int], end: int) -> Instruction:
    if not is_direct_branch(one.mnemonic):
        return one
    goal = one.offset + len(one.data) + branch_distance(one.data)
    target = starts.get(goal)
    if target is None and goal != end:
        return one
    label = END_LABEL if target is None else label_of(target)
    head, comma, _ = one.operands.rpartition(", ")
    return dataclasses.replace(one, operands=f"{head}{comma}{label}", target=target)
