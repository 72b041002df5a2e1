"""Where EXEC is certainly the mask that the wave started with.

The compiler saves EXEC before a masked region and restores it with `s_or_b64 exec, exec, saved` or
`s_mov_b64 exec, saved`. Scalar pairs are followed as "holds the entry mask" and as "has no lane
beyond the entry mask" from the save to the restore; all else is unknown. In a kernel that may give
EXEC a lane that was off at entry (whole-wave mode), such lanes hold values that matter: nothing is
claimed for any place of it.

EXEC is certainly not empty where it is the entry mask (a wave has a lane), and behind a branch that
tested it, until it is written again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from asmevo.codeobject.analysis.control_flow import Program
from asmevo.codeobject.analysis.effect import Effect, Unit
from asmevo.codeobject.analysis.register import EXEC, VECTOR_MASK, RegisterSet, parse_registers

__all__ = ["ExecState", "analyse_exec_state", "find_full_writes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecState:
    """What is certain of EXEC when the instruction at each position executes."""

    is_entry_mask: tuple[bool, ...]
    is_nonempty: tuple[bool, ...]
    """At least one lane is on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Masks:
    """Register pairs by what they certainly hold; EXEC itself among them."""

    entry: frozenset[RegisterSet]
    """The entry mask."""
    within: frozenset[RegisterSet]
    """A subset of the entry mask."""
    was_tested: bool
    """A branch found that EXEC has a lane, and nothing has written it since."""

    def join(self, other: _Masks) -> _Masks:
        return _Masks(
            entry=self.entry & other.entry,
            within=self.within & other.within,
            was_tested=self.is_nonempty and other.is_nonempty,
        )

    @property
    def is_nonempty(self) -> bool:
        return self.was_tested or EXEC in self.entry

    def without(self, written: RegisterSet) -> _Masks:
        return _Masks(
            entry=frozenset(pair for pair in self.entry if not pair & written),
            within=frozenset(pair for pair in self.within if not pair & written),
            was_tested=self.was_tested and not written & EXEC,
        )

    def gain(self, pair: RegisterSet, *, is_entry: bool, is_within: bool) -> _Masks:
        return _Masks(
            entry=self.entry | {pair} if is_entry else self.entry,
            within=self.within | {pair} if is_entry or is_within else self.within,
            was_tested=self.was_tested,
        )


_AT_ENTRY = _Masks(entry=frozenset({EXEC}), within=frozenset({EXEC}), was_tested=False)


def analyse_exec_state(program: Program) -> ExecState:
    """Forward data flow over the pairs that hold masks, joined by intersection."""
    before = dict.fromkeys(program.entries, _AT_ENTRY)
    pending = set(program.entries)
    while pending:
        for index in program.order:
            if index not in pending:
                continue
            pending.discard(index)
            block = program.blocks[index]
            state = before[index]
            for at in range(block.start, block.end):
                state = _step(program.effects[at], state)
            for successor in block.successors:
                passed = _pass_edge(program, index, successor, state)
                known = before.get(successor)
                joined = passed if known is None else known.join(passed)
                if joined != known:
                    before[successor] = joined
                    pending.add(successor)
    count = len(program.instructions)
    is_entry_mask, is_nonempty = [False] * count, [False] * count
    for index in program.order:
        state = before[index]
        block = program.blocks[index]
        for at in range(block.start, block.end):
            is_entry_mask[at] = EXEC in state.entry
            is_nonempty[at] = state.is_nonempty
            state = _step(program.effects[at], state)
            if EXEC not in state.within:
                return ExecState(is_entry_mask=(False,) * count, is_nonempty=(False,) * count)
    return ExecState(is_entry_mask=tuple(is_entry_mask), is_nonempty=tuple(is_nonempty))


def _pass_edge(program: Program, block: int, successor: int, state: _Masks) -> _Masks:
    """What the branch at the block's end has found out on the way to the successor."""
    bounds = program.blocks[block]
    last = program.effects[bounds.end - 1].base
    taken = program.instructions[bounds.end - 1].target
    if last not in ("s_cbranch_execz", "s_cbranch_execnz") or len(bounds.successors) < 2:
        return state
    is_taken = program.instructions[program.blocks[successor].start].id == taken
    return replace(state, was_tested=True) if is_taken == (last == "s_cbranch_execnz") else state


def find_full_writes(program: Program, exec_state: ExecState) -> tuple[RegisterSet, ...]:
    """For each position the registers of whose old value nothing is left that matters.

    Scalar writes are whole: what keeps a part of its destination (`s_cmov`) has read it. A vector
    write is where EXEC is what it was at entry: lanes that were off at entry never hold anything
    that a correct kernel reads. One that keeps a part of its destination never is.
    """
    return tuple(
        _find_full_write(effect, is_entry_mask=is_entry_mask)
        for effect, is_entry_mask in zip(program.effects, exec_state.is_entry_mask, strict=True)
    )


def _find_full_write(effect: Effect, *, is_entry_mask: bool) -> RegisterSet:
    if effect.merges:
        # The carry of a DPP addition may keep the bits of lanes without a source, too.
        return effect.writes if effect.unit is Unit.SALU else 0
    return effect.writes if is_entry_mask else effect.writes & ~VECTOR_MASK


def _step(effect: Effect, state: _Masks) -> _Masks:
    if not effect.writes & ~VECTOR_MASK:
        return state
    kept = state.without(effect.writes)
    if effect.memory is not None:
        return kept
    if effect.base.startswith("v_cmp"):
        # Lanes that are off give 0 (ISA guide, "VOPC"), and v_cmpx switches lanes off only.
        is_within = EXEC in state.within
        if effect.writes & EXEC:
            kept = kept.gain(EXEC, is_entry=False, is_within=is_within)
        target = parse_registers(effect.operands.values[0])
        return kept.gain(target, is_entry=False, is_within=is_within)
    if not effect.base.startswith("s_") or not effect.base.endswith("_b64"):
        return kept
    values = [parse_registers(value) for value in effect.operands.values]
    operation = effect.base.removeprefix("s_").removesuffix("_b64")
    entries = [value in state.entry for value in values]
    withins = [
        value in state.within or text == "0"
        for value, text in zip(values, effect.operands.values, strict=True)
    ]
    exec_is_entry, exec_is_within = EXEC in state.entry, EXEC in state.within
    if operation.endswith("_saveexec"):
        kept = kept.gain(values[0], is_entry=exec_is_entry, is_within=exec_is_within)
        is_entry, is_within = _combine(
            operation.removesuffix("_saveexec"),
            (entries[1], exec_is_entry),
            (withins[1], exec_is_within),
        )
        return kept.gain(EXEC, is_entry=is_entry, is_within=is_within)
    is_entry, is_within = _combine(operation, tuple(entries[1:]), tuple(withins[1:]))
    return kept.gain(values[0], is_entry=is_entry, is_within=is_within)


def _combine(
    operation: str, entries: tuple[bool, ...], withins: tuple[bool, ...]
) -> tuple[bool, bool]:
    """Whether the result is the entry mask, and whether it is a subset of it."""
    if len(entries) != 2:
        return operation == "mov" and all(entries), operation == "mov" and all(withins)
    is_entry = {
        "and": all(entries),
        # Any subset of the entry mask or-ed with it is the entry mask.
        "or": all(withins) and any(entries),
        "cselect": all(entries),
    }
    is_within = {
        "and": any(withins),
        "or": all(withins),
        "xor": all(withins),
        "cselect": all(withins),
        "andn2": withins[0],
        "andn1": withins[1],
    }
    return is_entry.get(operation, False), is_within.get(operation, False)
