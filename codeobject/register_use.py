"""The registers that code names, and why it may use more than it names."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from asmevo.codeobject.analysis.effects import effect_of
from asmevo.codeobject.analysis.register import (
    FLAT_SCRATCH,
    SGPR_MASK,
    VCC,
    RegisterSet,
    parse_registers,
)
from asmevo.codeobject.instruction import Instruction
from asmevo.errors import CodeObjectError

__all__ = ["RegisterUse", "find_register_use", "is_register_indexing"]

_VGPR_BASE: Final = 256
_AGPR_BASE: Final = 512
_FILE_SIZE: Final = 256
_NUMBERED_SGPRS: Final = 102
_SETS_MODE: Final = "s_setreg_"
# These read VCC without naming it.
_READS_VCC: Final = ("v_div_fmas_", "s_cbranch_vcc")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterUse:
    """Registers from number 0 to the highest one that is named, by register file."""

    vgprs: int
    agprs: int
    sgprs: int
    """Numbered ones; VCC, FLAT_SCRATCH and XNACK_MASK lie behind them."""
    uses_vcc: bool
    uses_flat_scratch: bool
    """By name, or as the base of a scratch access."""
    uses_flat: bool
    """Flat accesses take FLAT_SCRATCH as their base where the address is that of scratch."""
    open_ends: tuple[str, ...]
    """Why the code may use registers that it does not name; empty when it cannot."""

    @property
    def total_vgprs(self) -> int:
        """Registers of the unified file of gfx90a and later: the AGPRs begin at a multiple of 4."""
        return -(-self.vgprs // 4) * 4 + self.agprs if self.agprs else self.vgprs


def find_register_use(
    instructions: Iterable[Instruction], open_ends: Iterable[str] = ()
) -> RegisterUse:
    """What `instructions` name. `open_ends` are reasons that are known already.

    It goes by operand text, which LLVM prints in full for every tuple, not by the tables of
    effects: an instruction that these lack must count too.

    Raises:
        CodeObjectError: an operand names a register that does not exist.
    """
    code = tuple(instructions)
    operands = [one.operands for one in code]
    mnemonics = [one.mnemonic for one in code]
    named = functools.reduce(operator.or_, map(_registers_of, mnemonics, operands), 0)
    kinds = tuple(dict.fromkeys(mnemonics))
    reasons = [*open_ends, *filter(None, map(_open_end_of, kinds))]
    if any(kind.startswith(_SETS_MODE) for kind in kinds):
        reasons += [
            f"{one.mnemonic} reaches registers by number"
            for one in code
            if one.mnemonic.startswith(_SETS_MODE) and is_register_indexing(one)
        ]
    return RegisterUse(
        vgprs=_count(named, _VGPR_BASE, _FILE_SIZE),
        agprs=_count(named, _AGPR_BASE, _FILE_SIZE),
        sgprs=_count(named & SGPR_MASK, 0, _NUMBERED_SGPRS),
        uses_vcc=bool(named & VCC),
        uses_flat_scratch=any(one.startswith("scratch_") for one in kinds)
        or bool(named & FLAT_SCRATCH),
        uses_flat=any(one.startswith("flat_") for one in kinds),
        open_ends=tuple(dict.fromkeys(reasons)),
    )


def is_register_indexing(one: Instruction) -> bool:
    """True where registers are picked by a number in M0 or in an SGPR, from here on or at once."""
    if one.mnemonic.startswith(_SETS_MODE):
        # GPR_IDX_EN is a bit of MODE; the tables of effects refuse what may set it.
        return effect_of(one).unknown is not None
    return _picks_by_number(one.mnemonic)


def _picks_by_number(mnemonic: str) -> bool:
    return "movrel" in mnemonic or mnemonic.startswith("s_set_gpr_idx_")


def _open_end_of(mnemonic: str) -> str:
    """Why the instruction may use registers that it does not name; empty when it cannot."""
    if _picks_by_number(mnemonic):
        return f"{mnemonic} reaches registers by number"
    return "it holds words that are not decoded" if mnemonic == ".long" else ""


@functools.lru_cache(maxsize=65536)
def _registers_of(mnemonic: str, operands: str) -> RegisterSet:
    try:
        named = parse_registers(operands)
    except ValueError as error:
        raise CodeObjectError(f"{mnemonic}: {error}") from error
    return named | VCC if mnemonic.startswith(_READS_VCC) else named


def _count(named: RegisterSet, base: int, size: int) -> int:
    return (named >> base & ((1 << size) - 1)).bit_length()
