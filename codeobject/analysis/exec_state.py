"""Where EXEC is certainly the mask that the wave started with.

The compiler saves EXEC before a masked region and restores it with `s_or_b64 exec, exec, saved` or
`s_mov_b64 exec, saved`. Scalar pairs are followed as "holds the entry mask" and as "has no lane
beyond the entry mask" from the save to the restore; all else is unknown. In a kernel that may give
EXEC a lane that was off at entry (whole-wave mode), such lanes hold values that matter: nothing is
claimed for any place of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from asmevo.codeobject.analysis.control_flow import Program
from asmevo.codeobject.analysis.effect import Effect
from asmevo.codeobject.analysis.register import EXEC, RegisterSet, parse_registers

__all__ = ["ExecState", "analyse_exec_state"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecState:
    """For each position, whether EXEC is certainly the entry mask when the instruction executes."""

    is_entry_mask: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Masks:
    """Register pairs by what they certainly hold; EXEC itself among them."""

    entry: frozenset[RegisterSet]
    """The entry mask."""
    within: frozenset[RegisterSet]
    """A subset of the entry mask."""

    def join(self, other: _Masks) -> _Masks:
        return _Masks(entry=self.entry & other.entry, within=self.within & other.within)

    def without(self, written: RegisterSet) -> _Masks:
        return _Masks(
            entry=frozenset(pair for pair in self.entry if not pair & written),
            within=frozenset(pair for pair in self.within if not pair & written),
        )

    def gain(self, pair: RegisterSet, *, is_entry: bool, is_within: bool) -> _Masks:
        return _Masks(
            entry=self.entry | {pair} if is_entry else self.entry,
            within=self.within | {pair} if is_entry or is_within else self.within,
        )


_AT_ENTRY = _Masks(entry=frozenset({EXEC}), within=frozenset({EXEC}))
_NOTHING = _Masks(entry=frozenset(), within=frozenset())


def analyse_exec_state(program: Program) -> ExecState:
    """Forward data flow over the pairs that hold masks, joined by intersection."""
    before: dict[int, _Masks | None] = {index: None for index in program.order}
    for entry in program.entries:
        before[entry] = _AT_ENTRY
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
                joined = state if known is None else known.join(state)
                changed |= joined != known
                before[successor] = joined
    flags = [False] * len(program.instructions)
    for index in program.order:
        state = before[index] or _NOTHING
        block = program.blocks[index]
        for at in range(block.start, block.end):
            flags[at] = EXEC in state.entry
            state = _step(program.effects[at], state)
            if EXEC not in state.within:
                return ExecState(is_entry_mask=(False,) * len(program.instructions))
    return ExecState(is_entry_mask=tuple(flags))


def _step(effect: Effect, state: _Masks) -> _Masks:
    kept = state.without(effect.writes)
    if not effect.writes or effect.memory is not None:
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
