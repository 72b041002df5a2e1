"""How far code reaches into LDS and scratch, as far as its addresses are constants."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from asmevo.codeobject.analysis.effect import Effect
from asmevo.codeobject.analysis.effects import effect_of
from asmevo.codeobject.analysis.register import EXEC, RegisterSet, parse_registers
from asmevo.codeobject.instruction import Instruction

__all__ = ["MemoryUse", "find_memory_use"]

# LDS instructions that move data between lanes and touch no memory.
_LANE_MOVES: Final = frozenset({"ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32", "ds_nop"})
_TWO_OFFSETS: Final = ("ds_read2", "ds_write2", "ds_wrxchg2")
_VECTOR_CONSTANTS: Final = frozenset({"v_mov_b32"})
_SCALAR_CONSTANTS: Final = frozenset({"s_mov_b32", "s_movk_i32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Accesses of one kernel to LDS and scratch."""

    may_use_lds: bool
    may_use_scratch: bool
    lds_end: int
    """First byte behind every LDS access whose address is a constant."""
    scratch_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What one instruction means for the walk, wherever it stands."""

    effect: Effect
    uses_lds: bool
    uses_scratch: bool
    reaches_lds: bool
    reaches_scratch: bool
    forgets: bool
    """True when nothing is known of any register behind it."""
    teaches: bool
    """True when it may make a register a constant, or switch lanes off or on."""
    writes: RegisterSet
    is_plain: bool
    """True when it only writes registers."""


@functools.lru_cache(maxsize=65536)
def _step_of(name: str, operands: str, needs_bytes: bool) -> _Step:
    effect = effect_of(
        Instruction(
            id=-1, offset=-1, data=b"", mnemonic=name, operands=operands, needs_bytes=needs_bytes
        )
    )
    is_flat = name.startswith("flat_")
    is_lds = name.startswith("ds_") and name not in _LANE_MOVES
    is_known = effect.unknown is None
    uses_lds = is_lds or is_flat or "_lds_" in name or " lds" in operands
    # Buffer descriptors may point at scratch, too: gfx90a's stack is reached that way.
    uses_scratch = is_flat or name.startswith(("scratch_", "buffer_", "tbuffer_"))
    forgets = effect.is_terminator or not is_known
    teaches = is_known and (
        bool(effect.writes & EXEC) or effect.base in _VECTOR_CONSTANTS | _SCALAR_CONSTANTS
    )
    return _Step(
        effect=effect,
        uses_lds=uses_lds,
        uses_scratch=uses_scratch,
        reaches_lds=is_known and is_lds,
        reaches_scratch=is_known and name.startswith("scratch_"),
        forgets=forgets,
        teaches=teaches,
        is_plain=not (uses_lds or uses_scratch or forgets or teaches),
        writes=effect.writes if is_known else 0,
    )


def find_memory_use(instructions: Sequence[Instruction], targets: Iterable[int]) -> MemoryUse:
    """Walk the code once; `targets` are ids where control may come from elsewhere."""
    stops = frozenset(targets)
    constants: dict[int, int] = {}
    known: RegisterSet = 0
    use_lds = use_scratch = False
    lds_end = scratch_end = 0
    for one in instructions:
        step = _step_of(one.mnemonic, one.operands, one.needs_bytes)
        if step.is_plain and not known & step.writes and one.id not in stops:
            continue
        use_lds = use_lds or step.uses_lds
        use_scratch = use_scratch or step.uses_scratch
        if step.forgets or one.id in stops:
            constants.clear()
            known = 0
        if step.reaches_lds:
            lds_end = max(lds_end, _lds_end(step.effect, constants))
        elif step.reaches_scratch:
            scratch_end = max(scratch_end, _scratch_end(step.effect, constants))
        if step.teaches or known & step.writes:
            _learn(step.effect, constants)
            known = functools.reduce(operator.or_, constants, 0)
    return MemoryUse(
        may_use_lds=use_lds,
        may_use_scratch=use_scratch,
        lds_end=lds_end,
        scratch_end=scratch_end,
    )


def _lds_end(effect: Effect, constants: dict[int, int]) -> int:
    """End of the access, 0 where its address is not known."""
    access, modifiers = effect.memory, effect.operands.modifiers
    if access is None or access.address_registers.bit_count() != 1 or "gds" in modifiers:
        return 0
    address = constants.get(access.address_registers)
    if address is None:
        return 0
    if effect.base.startswith(_TWO_OFFSETS):
        unit = access.size * (64 if "st64" in effect.base else 1)
        offset = max(_number(modifiers.get(name)) for name in ("offset0", "offset1")) * unit
    else:
        offset = _number(modifiers.get("offset"))
    return address + offset + access.size


def _scratch_end(effect: Effect, constants: dict[int, int]) -> int:
    access = effect.memory
    if access is None:
        return 0
    address = 0
    if registers := access.address_registers:
        if registers.bit_count() != 1 or registers not in constants:
            return 0
        address = constants[registers]
    return max(0, address + _number(effect.operands.modifiers.get("offset")) + access.size)


def _learn(effect: Effect, constants: dict[int, int]) -> None:
    if effect.writes & EXEC:
        # A vector register may keep another value in lanes that were off.
        for register in [one for one in constants if one >= 1 << 256]:
            del constants[register]
    for register in [one for one in constants if one & effect.writes]:
        del constants[register]
    values = effect.operands.values
    if effect.base in _VECTOR_CONSTANTS | _SCALAR_CONSTANTS and len(values) == 2:
        if effect.merges or effect.operands.modifiers:
            return
        value = _constant(values[1])
        if value is not None and effect.writes.bit_count() == 1:
            constants[effect.writes] = value


def _constant(text: str) -> int | None:
    if parse_registers(text):
        return None
    try:
        return int(text, 0) & 0xFFFFFFFF
    except ValueError:
        return None


def _number(text: str | None) -> int:
    try:
        return int(text or "0", 0)
    except ValueError:
        return 0
