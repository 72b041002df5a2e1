"""The registers that code names, and why it may use more than it names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

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
# Kinds of access, as bits behind those of all registers.
_FLAT_ACCESS: Final = 1 << 1024
_SCRATCH_ACCESS: Final = 1 << 1025
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
    named: RegisterSet = 0
    reasons = list(open_ends)
    for one in instructions:
        registers, reason = _use_of(one.mnemonic, one.operands)
        named |= registers
        if reason:
            reasons.append(reason)
    return RegisterUse(
        vgprs=_count(named, _VGPR_BASE, _FILE_SIZE),
        agprs=_count(named, _AGPR_BASE, _FILE_SIZE),
        sgprs=_count(named & SGPR_MASK, 0, _NUMBERED_SGPRS),
        uses_vcc=bool(named & VCC),
        uses_flat_scratch=bool(named & (FLAT_SCRATCH | _SCRATCH_ACCESS)),
        uses_flat=bool(named & _FLAT_ACCESS),
        open_ends=tuple(dict.fromkeys(reasons)),
    )


def is_register_indexing(mnemonic: str) -> bool:
    """True for instructions that pick registers by a number in M0 or in an SGPR."""
    return "movrel" in mnemonic or mnemonic.startswith("s_set_gpr_idx_")


@lru_cache(maxsize=65536)
def _use_of(mnemonic: str, operands: str) -> tuple[RegisterSet, str]:
    """Registers named, and why others may be used."""
    try:
        named = parse_registers(operands)
    except ValueError as error:
        raise CodeObjectError(f"{mnemonic}: {error}") from error
    if mnemonic.startswith(_READS_VCC):
        named |= VCC
    if mnemonic.startswith(("flat_", "scratch_")):
        named |= _FLAT_ACCESS if mnemonic.startswith("flat_") else _SCRATCH_ACCESS
    reason = ""
    if is_register_indexing(mnemonic):
        reason = f"{mnemonic} reaches registers by number"
    elif mnemonic == ".long":
        reason = "it holds words that are not decoded"
    return named, reason


def _count(named: RegisterSet, base: int, size: int) -> int:
    return (named >> base & ((1 << size) - 1)).bit_length()
