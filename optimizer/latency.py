"""Rough latencies in clocks, by which schedules are drawn up; the gate decides what is faster.

Figures: LLVM's SISchedule.td for gfx942 and published measurements of MI300X and MI355X (L1 hit 112
to 127, L2 hit 208 to 224, DRAM about 800 clocks; LDS read about 64).
"""

from __future__ import annotations

from asmevo.codeobject.analysis.effect import Effect, Unit
from asmevo.codeobject.analysis.matrix_hazards import read_matrix_operation
from asmevo.codeobject.analysis.vector_opcodes import TRANSCENDENTALS

__all__ = ["ISSUE_CLOCKS", "issue_clocks", "result_clocks"]

ISSUE_CLOCKS = 4
"""A SIMD gets an issue turn every four clocks."""

_MEMORY_CLOCKS = {Unit.VMEM: 500, Unit.LDS: 64, Unit.SMEM: 100}


def issue_clocks(effect: Effect, arch: str) -> int:
    """Clocks until the next instruction of the same wave can issue."""
    if effect.unit is Unit.MFMA:
        return ISSUE_CLOCKS
    return 16 if effect.base in TRANSCENDENTALS else ISSUE_CLOCKS


def result_clocks(effect: Effect, arch: str) -> int:
    """Clocks from issue until a dependent instruction can issue."""
    if effect.unit in _MEMORY_CLOCKS and effect.loaded:
        return _MEMORY_CLOCKS[effect.unit]
    if effect.unit is Unit.MFMA:
        return 4 * read_matrix_operation(effect, arch).passes
    return issue_clocks(effect, arch) + (ISSUE_CLOCKS if effect.unit is Unit.VALU else 0)
