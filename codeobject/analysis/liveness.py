"""Which registers may still be read. A masked write does not end the life of what it overwrites.

What ends a value is in `exec_state.find_full_writes`.
"""

from __future__ import annotations

from dataclasses import dataclass

from asmevo.codeobject.analysis.control_flow import Program
from asmevo.codeobject.analysis.exec_state import ExecState, find_full_writes
from asmevo.codeobject.analysis.register import RegisterSet

__all__ = ["Liveness", "analyse_liveness"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """Registers that may be read later, after each position; 0 for unreachable code."""

    after: tuple[RegisterSet, ...]


def analyse_liveness(program: Program, exec_state: ExecState) -> Liveness:
    """Backward data flow to a fixed point."""
    kills = find_full_writes(program, exec_state)
    live_in = {index: 0 for index in program.order}
    changed = True
    while changed:
        changed = False
        for index in reversed(program.order):
            now = _live_out(program, live_in, index)
            block = program.blocks[index]
            for at in reversed(range(block.start, block.end)):
                now = (now & ~kills[at]) | program.effects[at].reads
            changed |= now != live_in[index]
            live_in[index] = now
    after = [0] * len(program.instructions)
    for index in program.order:
        now = _live_out(program, live_in, index)
        block = program.blocks[index]
        for at in reversed(range(block.start, block.end)):
            after[at] = now
            now = (now & ~kills[at]) | program.effects[at].reads
    return Liveness(after=tuple(after))


def _live_out(program: Program, live_in: dict[int, RegisterSet], index: int) -> RegisterSet:
    found = 0
    for successor in program.blocks[index].successors:
        found |= live_in[successor]
    return found
