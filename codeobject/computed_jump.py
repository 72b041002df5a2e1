"""Jumps and calls to addresses that code computes otherwise than by a symbol.

A jump table of distances (`s_add_u32` of a loaded word to a base) breaks when code moves between
its entries, and nothing in the object says where these are. Tables of pointers are relocated, and a
symbol's address is re-symbolised: those may be moved under.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from asmevo.codeobject.analysis.register import RegisterSet, parse_registers
from asmevo.codeobject.instruction import Instruction

__all__ = ["find_computed_jumps"]

_JUMPS: Final = frozenset({"s_setpc_b64", "s_swappc_b64", "s_rfe_b64"})
_ARITHMETIC = re.compile(r"s_(?:add|addc|sub|subb|lshl|lshr|ashr|and|or|xor|mul|bfe|bfi|pack)")
_WRITERS: Final = ("s_", "v_readlane", "v_readfirstlane")
# The first operand of these is a source.
_NO_WRITERS: Final = ("s_cmp", "s_bitcmp", "s_store", "s_buffer_store", "s_setreg", "s_setpc")
_COPIES: Final = frozenset({"s_mov_b64", "s_mov_b32", "s_cselect_b64", "s_cselect_b32"})


def find_computed_jumps(
    instructions: Sequence[Instruction], understood: frozenset[int], starts: frozenset[int]
) -> tuple[str, ...]:
    """One line for each jump whose address was last changed by arithmetic.

    `understood` are the ids of pc-relative sequences that have a symbol, `starts` the offsets where
    functions begin: the search goes back to the start of the function.
    """
    return tuple(
        f"{one.mnemonic} at .text+{one.offset:#x} goes to an address that is computed"
        for place, one in enumerate(instructions)
        if one.mnemonic in _JUMPS and _is_computed(instructions, place, understood, starts)
    )


def _is_computed(
    instructions: Sequence[Instruction],
    place: int,
    understood: frozenset[int],
    starts: frozenset[int],
) -> bool:
    wanted: RegisterSet = parse_registers(instructions[place].operands.rpartition(",")[2])
    at = place
    while wanted and instructions[at].offset not in starts and at > 0:
        at -= 1
        one = instructions[at]
        name = one.mnemonic
        if not name.startswith(_WRITERS) or name.startswith(_NO_WRITERS):
            continue
        destination, _, sources = one.operands.partition(",")
        written = parse_registers(destination) & wanted
        if not written:
            continue
        if _ARITHMETIC.match(name) and one.id not in understood:
            return True
        wanted &= ~written
        if name in _COPIES:
            wanted |= parse_registers(sources)
    return False
