"""Where EXEC is certainly the mask that the wave started with.

The compiler saves EXEC before a masked region and restores it with `s_or_b64 exec, exec, saved` or
`s_mov_b64 exec, saved`. A scalar pair is followed as "holds the entry mask" from the save to the
restore; all else is unknown. A kernel that sets EXEC from a constant (whole-wave mode) may use
lanes that were off at entry: nothing is claimed for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from asmevo.codeobject.analysis.control_flow import Program
from asmevo.codeobject.analysis.effect import Effect
from asmevo.codeobject.analysis.register import EXEC, RegisterSet, parse_registers

__all__ = ["ExecState", "analyse_exec_state"]

_State = frozenset[RegisterSet]
"""Register pairs that hold the entry mask; EXEC itself among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecState:
    """For each position, whether EXEC is certainly the entry mask when the instruction executes."""

    is_entry_mask: tuple[bool, ...]


def analyse_exec_state(program: Program) -> ExecState:
    """Forward data flow over the pairs that hold the entry mask, joined by intersection."""
    if any(_sets_exec_from_constant(effect) for effect in program.effects):
        return ExecState(is_entry_mask=(False,) * len(program.instructions))
    before: dict[int, _State | None] = {index: None for index in program.order}
    for entry in program.entries:
        before[entry] = frozenset({EXEC})
    changed = True
    while changed:
        changed = False
        for index in program.order:
            state = before[index]
            if state is None:
                continue
            block = program.blocks[index]
            for at in range(block.start, block.end):
                state = _step(program.effects[at], state)
            for successor in block.successors:
                known = before[successor]
                joined = state if known is None else known & state
                if successor in program.entries:
                    joined &= frozenset({EXEC})
                changed |= joined != known
                before[successor] = joined
    flags = [False] * len(program.instructions)
    for index in program.order:
        state = before[index] or frozenset()
        block = program.blocks[index]
        for at in range(block.start, block.end):
            flags[at] = EXEC in state
            state = _step(program.effects[at], state)
    return ExecState(is_entry_mask=tuple(flags))


def _sets_exec_from_constant(effect: Effect) -> bool:
    if not effect.writes & EXEC or not effect.base.startswith("s_"):
        return False
    return any(not parse_registers(value) for value in effect.operands.values[1:])


def _step(effect: Effect, state: _State) -> _State:
    kept = frozenset(pair for pair in state if not pair & effect.writes)
    if not effect.base.startswith("s_"):
        return kept
    values = [parse_registers(value) for value in effect.operands.values]
    if effect.base.endswith("_saveexec_b64"):
        gains = {values[0]} if EXEC in state else set()
        return kept | gains
    if effect.base == "s_mov_b64" and values[1] in state:
        return kept | {values[0]}
    # An entry mask or-ed with any subset of itself is the entry mask; EXEC never has lanes beyond
    # it.
    is_restore = effect.base == "s_or_b64" and values[0] == EXEC and EXEC in values[1:]
    if is_restore and any(value in state for value in values[1:] if value != EXEC):
        return kept | {EXEC}
    return kept
