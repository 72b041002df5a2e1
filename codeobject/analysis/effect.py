"""What one instruction does: registers, memory, counters. The record that all analyses read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from asmevo.codeobject.analysis.operand import Operands
from asmevo.codeobject.analysis.register import RegisterSet

__all__ = ["Access", "Effect", "MemoryAccess", "Space", "Unit"]


class Unit(StrEnum):
    """The part of the compute unit that executes an instruction (CDNA3 ISA guide, section 3)."""

    SALU = "salu"
    VALU = "valu"
    MFMA = "mfma"
    SMEM = "smem"
    VMEM = "vmem"
    LDS = "lds"
    BRANCH = "branch"
    INTERNAL = "internal"
    """s_nop, s_waitcnt and others that need no unit."""
    UNKNOWN = "unknown"


class Space(StrEnum):
    """Address space of a memory access; `FLAT` may be any but scalar."""

    GLOBAL = "global"
    LDS = "lds"
    SCRATCH = "scratch"
    FLAT = "flat"
    CONSTANT = "constant"
    """Through the scalar cache: global memory, not coherent with vector accesses."""


class Access(StrEnum):
    """Direction of a memory access."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"
    CACHE = "cache"
    """Write-back or invalidation: orders every access to global memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAccess:
    """One memory access of every active lane."""

    space: Space
    access: Access
    address_registers: RegisterSet
    size: int
    """Bytes per lane; of each half for the LDS instructions with two offsets."""
    is_ordered: bool = False
    """Volatile, coherent or atomic: keeps its place among all accesses."""
    writes_lds: bool = False
    """A load from global memory straight into LDS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Everything that decides whether an instruction may move, vanish or stay.

    `unknown` gives the reason where the instruction is not understood; every proof that meets it
    must fail.
    """

    base: str
    """Mnemonic without encoding suffix."""
    encoding: str
    operands: Operands
    unit: Unit
    reads: RegisterSet = 0
    writes: RegisterSet = 0
    loaded: RegisterSet = 0
    """The part of `writes` that arrives later, when a wait counter says so."""
    merges: bool = False
    """Keeps a part of the old destination beyond inactive lanes; the destination is in `reads`."""
    memory: MemoryAccess | None = None
    counts_vm: bool = False
    counts_lgkm: bool = False
    is_pinned: bool = False
    """Barrier, message, mode change, end of program: nothing moves across, never deleted."""
    is_terminator: bool = False
    unknown: str | None = None

    @property
    def is_vector(self) -> bool:
        """True when EXEC masks what the instruction does."""
        return self.unit in (Unit.VALU, Unit.MFMA, Unit.VMEM, Unit.LDS)

    @property
    def is_removable(self) -> bool:
        """True when the instruction only computes registers at once, without any other effect."""
        return (
            self.unknown is None
            and not self.is_pinned
            and not self.is_terminator
            and self.memory is None
            and not (self.counts_vm or self.counts_lgkm)
            and bool(self.writes)
        )
