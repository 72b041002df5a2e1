"""Which vector registers certainly hold one value in all lanes that were on at entry.

Scalar registers always do. A vector register does behind whole-register arithmetic under the entry
mask whose operands all do and which does not look at the lane: no lane masks, no other lanes, no
lane counts. Loaded values are never taken for uniform: lanes have addresses of their own, and other
waves may write between two lanes' accesses.
"""

from __future__ import annotations

from dataclasses import dataclass

from asmevo.codeobject.analysis.control_flow import Program
from asmevo.codeobject.analysis.effect import Effect, Unit
from asmevo.codeobject.analysis.exec_state import ExecState
from asmevo.codeobject.analysis.register import (
    AGPR_MASK,
    VECTOR_MASK,
    VGPR_MASK,
    RegisterSet,
)
from asmevo.codeobject.analysis.vector_opcodes import reads_lane_mask

__all__ = ["Uniformity", "analyse_uniformity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniformity:
    """For each position the vector registers that are uniform in front of it."""

    before: tuple[RegisterSet, ...]


def analyse_uniformity(program: Program, exec_state: ExecState) -> Uniformity:
    """Forward data flow, joined by intersection; nothing is uniform at entry."""
    every = VGPR_MASK | AGPR_MASK
    states = dict.fromkeys(program.order, every)
    for entry in program.entries:
        states[entry] = 0
    pending = set(program.order)
    while pending:
        for index in program.order:
            if index not in pending:
                continue
            pending.discard(index)
            block = program.blocks[index]
            state = states[index]
            for at in range(block.start, block.end):
                state = _step(program.effects[at], state, exec_state.is_entry_mask[at])
            for successor in block.successors:
                if states[successor] & ~state:
                    states[successor] &= state
                    pending.add(successor)
    before = [0] * len(program.instructions)
    for index in program.order:
        block = program.blocks[index]
        state = states[index]
        for at in range(block.start, block.end):
            before[at] = state
            state = _step(program.effects[at], state, exec_state.is_entry_mask[at])
    return Uniformity(before=tuple(before))


def _step(effect: Effect, state: RegisterSet, is_entry_mask: bool) -> RegisterSet:
    written = effect.writes & VECTOR_MASK
    if not written:
        return state
    is_uniform = (
        is_entry_mask
        and effect.unit is Unit.VALU
        and not effect.merges
        and not effect.encoding.endswith("dpp")
        and not reads_lane_mask(effect.base)
        and not effect.reads & VECTOR_MASK & ~state
    )
    return state | written if is_uniform else state & ~written
