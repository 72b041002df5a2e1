"""Scalar instructions of gfx9: SOP1, SOP2, SOPC, SOPK, SOPP and scalar memory."""

from __future__ import annotations

import re

from asmevo.codeobject.analysis.effect import Access, Effect, MemoryAccess, Space, Unit
from asmevo.codeobject.analysis.operand import Operands
from asmevo.codeobject.analysis.register import EXEC, M0, MODE, SCC, VCC, parse_registers

__all__ = ["describe_scalar"]


# Bits of MODE (CDNA3 ISA guide, "Mode register").
_GPR_IDX_EN, _VSKIP = 27, 28
_MODE_FIELD = re.compile(r"hwreg\(HW_REG_MODE(?:, (?P<first>\d+), (?P<size>\d+))?\)")


def _names(*patterns: str) -> frozenset[str]:
    """Expand `s_add: u32 i32` to s_add_u32 and s_add_i32."""
    found = set()
    for pattern in patterns:
        stem, _, kinds = pattern.partition(":")
        found |= {f"{stem}_{kind}" for kind in kinds.split()} if kinds else {stem}
    return frozenset(found)


_BITWISE = ("and", "or", "xor", "andn2", "orn2", "nand", "nor", "xnor")
_RELATIONS = ("eq", "lg", "gt", "ge", "lt", "le")
_WRITES_SCC = _names(
    "s_add: u32 i32",
    "s_sub: u32 i32",
    "s_min: u32 i32",
    "s_max: u32 i32",
    *(f"s_{name}: b32 b64" for name in _BITWISE),
    "s_lshl: b32 b64",
    "s_lshr: b32 b64",
    "s_ashr: i32 i64",
    "s_bfe: u32 i32 u64 i64",
    "s_absdiff: i32",
    *(f"s_lshl{shift}_add: u32" for shift in (1, 2, 3, 4)),
    "s_not: b32 b64",
    "s_wqm: b32 b64",
    "s_quadmask: b32 b64",
    "s_bcnt0: i32_b32 i32_b64",
    "s_bcnt1: i32_b32 i32_b64",
    "s_abs: i32",
)
_READS_AND_WRITES_SCC = _names("s_addc: u32", "s_subb: u32")
_PLAIN = _names(
    "s_mul: i32",
    "s_mul_hi: i32 u32",
    "s_bfm: b32 b64",
    "s_pack: ll_b32_b16 lh_b32_b16 hh_b32_b16",
    "s_mov: b32 b64",
    "s_movk: i32",
    "s_brev: b32 b64",
    "s_ff0: i32_b32 i32_b64",
    "s_ff1: i32_b32 i32_b64",
    "s_flbit: i32_b32 i32_b64 i32 i32_i64",
    "s_sext: i32_i8 i32_i16",
    "s_bitreplicate: b64_b32",
)
_READS_SCC = _names("s_cselect: b32 b64")
_MERGES = _names("s_bitset0: b32 b64", "s_bitset1: b32 b64", "s_mulk: i32")
_MERGES_READS_SCC = _names("s_cmov: b32 b64", "s_cmovk: i32")
_MERGES_WRITES_SCC = _names("s_addk: i32")
_COMPARES = _names(
    *(f"s_cmp_{name}: i32 u32" for name in _RELATIONS),
    "s_cmp_eq: u64",
    "s_cmp_lg: u64",
    *(f"s_cmpk_{name}: i32 u32" for name in _RELATIONS),
    "s_bitcmp0: b32 b64",
    "s_bitcmp1: b32 b64",
)
_SAVE_EXEC = _names(*(f"s_{name}_saveexec: b64" for name in (*_BITWISE, "andn1", "orn1")))
_WRITE_EXEC = _names("s_andn1_wrexec: b64", "s_andn2_wrexec: b64")
_BRANCH_READS = {
    "s_branch": 0,
    "s_cbranch_scc0": SCC,
    "s_cbranch_scc1": SCC,
    "s_cbranch_vccz": VCC,
    "s_cbranch_vccnz": VCC,
    "s_cbranch_execz": EXEC,
    "s_cbranch_execnz": EXEC,
}
_SCALAR_LOADS = {
    f"{stem}_dword{suffix}": 4 * count
    for stem in ("s_load", "s_buffer_load")
    for suffix, count in (("", 1), ("x2", 2), ("x4", 4), ("x8", 8), ("x16", 16))
}


def describe_scalar(base: str, operands: Operands) -> Effect | None:
    """Effect of a scalar instruction, or None when it is not one that is understood."""
    values = operands.values
    registers = [parse_registers(value) for value in values]
    if base in _SCALAR_LOADS:
        return _describe_scalar_load(base, operands, registers)
    if base in _BRANCH_READS:
        return Effect(
            base=base,
            encoding="",
            operands=operands,
            unit=Unit.BRANCH,
            reads=_BRANCH_READS[base],
            is_terminator=True,
        )
    special = _describe_program_control(base, operands, registers)
    if special is not None:
        return special
    if not registers:
        return None
    destination, sources = registers[0], _union(registers[1:])
    merges = False
    if base in _COMPARES:
        destination, sources = SCC, _union(registers)
    elif base in _SAVE_EXEC | _WRITE_EXEC:
        destination, sources = destination | EXEC | SCC, sources | EXEC
    elif base in _WRITES_SCC:
        destination |= SCC
    elif base in _READS_AND_WRITES_SCC:
        destination, sources = destination | SCC, sources | SCC
    elif base in _READS_SCC:
        sources |= SCC
    elif base in _MERGES | _MERGES_READS_SCC | _MERGES_WRITES_SCC:
        merges, sources = True, sources | destination
        sources |= SCC if base in _MERGES_READS_SCC else 0
        destination |= SCC if base in _MERGES_WRITES_SCC else 0
    elif base not in _PLAIN:
        return None
    return Effect(
        base=base,
        encoding="",
        operands=operands,
        unit=Unit.SALU,
        reads=sources,
        writes=destination,
        merges=merges,
    )


def _union(sets: list[int]) -> int:
    found = 0
    for registers in sets:
        found |= registers
    return found


def _describe_scalar_load(base: str, operands: Operands, registers: list[int]) -> Effect | None:
    if len(registers) != 3:
        return None
    return Effect(
        base=base,
        encoding="",
        operands=operands,
        unit=Unit.SMEM,
        reads=registers[1] | registers[2],
        writes=registers[0],
        loaded=registers[0],
        counts_lgkm=True,
        memory=MemoryAccess(
            space=Space.CONSTANT,
            access=Access.LOAD,
            address_registers=registers[1] | registers[2],
            size=_SCALAR_LOADS[base],
            is_ordered="glc" in operands.modifiers,
        ),
    )


def _refuse_indexing(field: str) -> None:
    """MODE holds GPR_IDX_EN and VSKIP, which change what every vector instruction does."""
    match = _MODE_FIELD.fullmatch(field)
    if match is None:
        return
    first = int(match["first"] or 0)
    last = first + int(match["size"] or 32) - 1
    if first <= _VSKIP and last >= _GPR_IDX_EN:
        raise ValueError("it may switch VGPR indexing on or vector instructions off")


def _describe_program_control(base: str, operands: Operands, registers: list[int]) -> Effect | None:
    """Instructions that only INTERNAL logic executes, and those that nothing may cross."""

    if base in ("s_nop", "s_waitcnt"):
        return Effect(base=base, encoding="", operands=operands, unit=Unit.INTERNAL)
    if base in ("s_memtime", "s_memrealtime"):
        return Effect(
            base=base,
            encoding="",
            operands=operands,
            unit=Unit.SMEM,
            writes=registers[0],
            loaded=registers[0],
            counts_lgkm=True,
            is_pinned=True,
        )
    if base in ("s_barrier", "s_endpgm", "s_sleep", "s_setprio"):
        reads, writes = 0, 0
    elif base == "s_sendmsg":
        reads, writes = M0, 0
    elif base in ("s_setreg_b32", "s_setreg_imm32_b32"):
        _refuse_indexing(operands.values[0])
        reads, writes = registers[1] | MODE, MODE
    elif base == "s_getreg_b32":
        reads, writes = MODE, registers[0]
    elif base == "s_getpc_b64":
        # A listing pins it with what adds the distance to the data that it addresses.
        reads, writes = 0, registers[0]
    else:
        return None
    return Effect(
        base=base,
        encoding="",
        operands=operands,
        unit=Unit.INTERNAL,
        reads=reads,
        writes=writes,
        is_pinned=True,
        is_terminator=base == "s_endpgm",
        counts_lgkm=base == "s_sendmsg",
    )
