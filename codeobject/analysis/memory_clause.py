"""Soft clauses: runs of memory instructions of one kind, which XNACK may issue again as a whole.

After a page fault all instructions of the run are replayed, also those whose results are there
already. So none may write a register that any of them reads; LLVM's
GCNHazardRecognizer::checkSoftClauseHazards breaks such runs with an s_nop. Objects for "xnack any"
must obey; for the others it only costs a proposal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from asmevo.codeobject.analysis.control_flow import Program
from asmevo.codeobject.analysis.effect import Access, Effect, Unit
from asmevo.codeobject.analysis.register import EXEC, M0, MODE

__all__ = ["CLAUSE_UNITS", "breaks_clause", "extend_clause", "find_clause_faults"]

CLAUSE_UNITS = (Unit.SMEM, Unit.VMEM)
"""Kinds of memory instructions that form runs."""
_HARMLESS = EXEC | M0 | MODE


def extend_clause(clause: Sequence[Effect], effect: Effect) -> tuple[Effect, ...]:
    """The run that the instruction is in, after it."""
    if effect.unit not in CLAUSE_UNITS:
        return ()
    joins = clause and clause[-1].unit is effect.unit and not breaks_clause(clause, effect)
    return (*clause, effect) if joins else (effect,)


def breaks_clause(clause: Sequence[Effect], effect: Effect) -> bool:
    """True when the instruction must not directly follow the run."""
    if not clause or clause[-1].unit is not effect.unit or effect.unit not in CLAUSE_UNITS:
        return False
    written = 0
    read = effect.reads
    for member in clause:
        written |= member.writes
        read |= member.reads
    if not written:
        return False
    # LLVM starts a new run at every store, LDS-DMA among them, rather than compare addresses.
    memory = effect.memory
    is_load = memory is None or (memory.access is Access.LOAD and not memory.writes_lds)
    return not is_load or bool((written | effect.writes) & read & ~_HARMLESS)


def find_clause_faults(program: Program) -> Iterator[tuple[int, int]]:
    """Positions of instructions that directly follow a run which they must not join."""
    clause: tuple[Effect, ...] = ()
    for at, effect in enumerate(program.effects):
        if breaks_clause(clause, effect):
            yield at - 1, at
        clause = extend_clause(clause, effect)
