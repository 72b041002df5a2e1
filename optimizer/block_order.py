"""A new order for the instructions of one block: fillers are dropped, then derived afresh.

Old counts are never carried forward: a wait count means nothing once a memory operation has moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from asmevo.codeobject.analysis.dependence import BlockItem
from asmevo.codeobject.analysis.effect import Effect
from asmevo.codeobject.analysis.hazard_rules import Traits, find_requirements
from asmevo.codeobject.analysis.memory_clause import breaks_clause, extend_clause
from asmevo.codeobject.analysis.wait_state import (
    COUNTER_LIMITS,
    Counter,
    Instance,
    WaitState,
    format_wait,
    step_wait_state,
)
from asmevo.optimizer.kernel_view import KernelView
from asmevo.optimizer.proposal import Delete, Edit, InsertAfter, Move, Replace

__all__ = ["ReorderRefusal", "reorder_block"]


class ReorderRefusal(Exception):
    """The order cannot be expressed as edits of the listing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    """An instruction in its new place and the fillers in front of it."""

    id: int
    fillers: tuple[str, ...]


def reorder_block(view: KernelView, block: int, order: Sequence[BlockItem]) -> tuple[Edit, ...]:
    """Edits that give the block this order, with the waits and nops that it needs.

    Raises:
        ReorderRefusal: the block holds a pinned instruction, nothing could hold a filler at its
            head, or later blocks would wait for too little.
    """
    return tuple(_express(view, block, tuple(_settle(view, block, order))))


def _settle(view: KernelView, block: int, order: Sequence[BlockItem]) -> Iterator[_Slot]:
    program = view.program
    allowed = _outstanding_in_parent(view, block)
    state = view.waits.block_states[block].copy()
    recent = [
        (Traits(effect=program.effects[at]), gone)
        for at, gone in view.distances.before(block).items()
    ]
    clause: tuple[Effect, ...] = ()
    for item in order:
        position = program.position_of[item.id]
        counts = _find_counts(view, state, position, allowed.get(item.id))
        fillers = []
        elapsed = 0
        if counts:
            fillers.append(format_wait(counts))
            for counter, count in counts.items():
                state.wait(counter, count)
            elapsed = 1
        traits = Traits(effect=item.effect)
        missing = _missing_states(recent, traits, view.arch) - elapsed
        if missing > 0:
            fillers += [f"s_nop {min(missing, 16) - 1}"]
            fillers += [f"s_nop {missing - 17}"] if missing > 16 else []
            elapsed += missing
        if not fillers and breaks_clause(clause, item.effect):
            fillers.append("s_nop 0")
            elapsed = 1
        clause = extend_clause(() if fillers else clause, item.effect)
        recent = [(one, gone + elapsed + 1) for one, gone in recent if gone < 20]
        recent.append((traits, 0))
        step_wait_state(program, state, position)
        yield _Slot(id=item.id, fillers=tuple(fillers))
    _refuse_weaker_end(view, block, state)


def _refuse_weaker_end(view: KernelView, block: int, state: WaitState) -> None:
    """Later blocks count on what is over, and on how far back in its queue the rest is."""
    expected = view.waits.after(block)
    for counter in Counter:
        known = expected.younger(counter)
        for instance, younger in state.younger(counter).items():
            if younger < known.get(instance, COUNTER_LIMITS[counter] + 1):
                raise ReorderRefusal("later waits would mean other operations")


def _outstanding_in_parent(view: KernelView, block: int) -> dict[int, frozenset[Instance]]:
    """What may be outstanding where that matters: memory, synchronisation, the block's end."""
    found = {}
    program = view.program
    for position, state in view.waits.walk(block):
        effect = program.effects[position]
        if effect.memory is not None or effect.is_pinned or effect.is_terminator:
            found[program.instructions[position].id] = state.instances()
    return found


def _find_counts(
    view: KernelView, state: WaitState, position: int, allowed: frozenset[Instance] | None
) -> dict[Counter, int]:
    """The largest counts that retire all that must be over in front of the instruction."""
    effects = view.program.effects
    effect = effects[position]
    touched = effect.reads | effect.writes
    counts: dict[Counter, int] = {}
    for counter in Counter:
        for instance, younger in state.younger(counter).items():
            producer = instance[0]
            is_used = bool(effects[producer].loaded & touched)
            is_used = is_used and not state.is_ordered_overwrite(effects[producer], effect)
            is_more = allowed is not None and instance not in allowed
            is_more = is_more and (effect.is_terminator or view.may_wait_for(producer, position))
            if is_used or is_more:
                limit = 0 if state.out_of_order[counter] else younger
                counts[counter] = min(counts.get(counter, limit), limit)
    return counts


def _missing_states(recent: list[tuple[Traits, int]], consumer: Traits, arch: str) -> int:
    """Wait states that are still missing in front of the consumer, within the block."""
    missing = 0
    for producer, gone in recent:
        if gone < producer.reach:
            for requirement in find_requirements(producer, consumer, arch):
                missing = max(missing, requirement.states - gone)
    return missing


def _express(view: KernelView, block: int, slots: Sequence[_Slot]) -> Iterator[Edit]:
    """Edits for the new order.

    Labels stay in their place when a head moves, so the first slot's instruction is left where it
    is and everything else is moved behind it. A filler in front of it takes the place of an old
    one.
    """
    program, bounds = view.program, view.program.blocks[block]
    for slot in slots:
        if not view.is_editable(program.position_of[slot.id]):
            raise ReorderRefusal("the block holds a pinned instruction")
    fillers = [
        program.instructions[at].id
        for at in range(bounds.start, bounds.end)
        if view.is_filler(at) and view.is_editable(at)
    ]
    wanted = [slot.id for slot in slots]
    if slots[0].fillers:
        if not fillers:
            raise ReorderRefusal("no filler can stand at the head of the block")
        wanted.insert(0, fillers.pop(0))
    if fillers:
        yield Delete(ids=tuple(fillers))
    present = [
        program.instructions[at].id
        for at in range(bounds.start, bounds.end)
        if program.instructions[at].id not in fillers
    ]
    yield from _find_moves(present, wanted)
    if slots[0].fillers:
        yield Replace(id=wanted[0], texts=slots[0].fillers)
    for slot, following in pairwise(slots):
        if following.fillers:
            yield InsertAfter(id=slot.id, texts=following.fillers)


def _find_moves(present: list[int], wanted: Sequence[int]) -> Iterator[Move]:
    """Moves that turn one order into the other; what stands right already is left alone."""
    for identifier, following in pairwise(wanted):
        place = present.index(identifier) + 1
        if place < len(present) and present[place] == following:
            continue
        present.remove(following)
        present.insert(present.index(identifier) + 1, following)
        yield Move(id=following, after_id=identifier)
