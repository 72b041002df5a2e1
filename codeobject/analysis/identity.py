"""Instructions that compute what their destination already holds.

Beside plain self-moves: `v_max_f32 v, x, x` is how compilers make a float canonical (quiet a
signalling NaN, flush a denormal if MODE says so). On a value that is canonical already it changes
nothing but the place.

The one denormal mode in which that is wrong flushes sources and keeps results: arithmetic then
gives denormals that the next instruction flushes.
"""

from __future__ import annotations

import re

from asmevo.codeobject.analysis.control_flow import Program
from asmevo.codeobject.analysis.effect import Effect
from asmevo.codeobject.analysis.register import (
    EXEC,
    MODE,
    VECTOR_MASK,
    RegisterSet,
    parse_registers,
)

__all__ = ["is_identity"]

_SELF_MOVES = frozenset({"v_mov_b32", "s_mov_b32", "s_mov_b64", "v_mov_b64"})
_CANONICALISERS = re.compile(r"v_(?:max|min)_f32")
# Arithmetic whose f32 results are quiet and flushed as MODE says. min and max belong here in both
# IEEE modes: what they do to a NaN or denormal once, they do not do again to their own result.
# Their forms of three operands are left out: no source says that they flush.
_CANONICAL_RESULTS = re.compile(
    r"v_(?:add|sub|subrev|mul|fma|fmac|fmaak|fmamk|max|min)_f32"
    r"|v_pk_(?:add|mul|fma)_f32|v_cvt_f32_(?:i32|u32|ubyte[0-3])"
)
_PLAIN_OPERAND = re.compile(r"v\d+")
# Fields of MODE above the rounding and denormal modes, which end at bit 7.
_HARMLESS_MODE = re.compile(r"hwreg\(HW_REG_MODE, (?:8|9|\d\d), \d+\)")
_FLUSH_SOURCES = 2
_SEARCH_LIMIT = 64
_DEPTH_LIMIT = 4


def is_identity(program: Program, position: int, *, denormals: int) -> bool:
    """True when deleting the instruction certainly leaves every register as it is.

    Args:
        program: the kernel.
        position: the instruction.
        denormals: FLOAT_DENORM_MODE_32 of the kernel's descriptor.
    """
    effect = program.effects[position]
    values = effect.operands.values
    if effect.operands.modifiers or effect.encoding not in ("", "e32", "e64"):
        return False
    if effect.base in _SELF_MOVES:
        return values[0] == values[1]
    if not _CANONICALISERS.fullmatch(effect.base):
        return False
    if not _PLAIN_OPERAND.fullmatch(values[0]) or len(set(values)) != 1:
        return False
    if denormals == _FLUSH_SOURCES or any(_sets_denormal_mode(one) for one in program.effects):
        return False
    return _is_canonical(program, position, parse_registers(values[0]), depth=0)


def _sets_denormal_mode(effect: Effect) -> bool:
    return bool(effect.writes & MODE) and not _HARMLESS_MODE.fullmatch(effect.operands.values[0])


def _is_canonical(program: Program, position: int, register: RegisterSet, *, depth: int) -> bool:
    """True when the register holds a canonical f32 in every lane that is active here."""
    if depth >= _DEPTH_LIMIT:
        return False
    block = program.blocks[program.block_at[position]]
    for at in range(position - 1, max(block.start, position - _SEARCH_LIMIT) - 1, -1):
        effect = program.effects[at]
        if effect.writes & (EXEC | MODE):
            return False
        if effect.writes & register:
            return _gives_canonical(program, at, effect, depth)
    return False


def _gives_canonical(program: Program, at: int, effect: Effect, depth: int) -> bool:
    if effect.encoding == "sdwa" or effect.operands.modifiers.keys() & {"op_sel", "mul", "div"}:
        return False
    if effect.merges and not _is_canonical(program, at, effect.writes, depth=depth + 1):
        return False
    if effect.base == "v_mov_b32":
        # A DPP move hands lanes of its source on; lanes without a source become zero or stay.
        source = parse_registers(effect.operands.values[1])
        return bool(source & VECTOR_MASK) and _is_canonical(program, at, source, depth=depth + 1)
    return _CANONICAL_RESULTS.fullmatch(effect.base) is not None
