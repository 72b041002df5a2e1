"""W2: relax a wait's count to what its consumers require."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from asmevo.codeobject.analysis.wait_state import (
    COUNTER_LIMITS,
    Counter,
    format_wait,
    parse_wait,
)
from asmevo.optimizer.gate.static import find_wait_faults
from asmevo.optimizer.kernel_view import KernelView, view_kernel
from asmevo.optimizer.proposal import Delete, Edit, Proposal, Replace, apply_edits

__all__ = ["RelaxedWait"]


class RelaxedWait:
    """Raises each count as far as no register is used and no barrier is passed too early.

    Each wait is tried on top of the relaxations found before it, so that all hold together.
    """

    id = "W2"
    title = "relax wait counts"
    is_combinable = True
    is_monotone = True

    def propose(self, view: KernelView) -> Iterator[Proposal]:
        """One proposal for each wait that asks for more than is needed."""
        relaxed = view
        for block in view.program.order:
            bounds = view.program.blocks[block]
            for position in range(bounds.start, bounds.end):
                instruction = view.program.instructions[position]
                if instruction.mnemonic != "s_waitcnt" or not view.is_editable(position):
                    continue
                counts = parse_wait(instruction)
                if all(_is_tight(relaxed, instruction.id, counter) for counter in counts):
                    continue
                found = _relax(view, relaxed, instruction.id, counts)
                place = relaxed.program.position_of[instruction.id]
                if found == counts or not (found or relaxed.can_vanish(place)):
                    continue
                edit = _edit_wait(instruction.id, found)
                relaxed = view_kernel(apply_edits(relaxed.listing, (edit,)), view.kernel)
                yield Proposal(
                    mutator=self.id,
                    sites=(instruction.id,),
                    edits=(edit,),
                    hypothesis=f"{format_wait(found) if found else 'no wait'} is enough for "
                    f"{instruction.operands}: younger operations stay in flight",
                )


def _edit_wait(identifier: int, counts: Mapping[Counter, int]) -> Edit:
    if not counts:
        return Delete(ids=(identifier,))
    return Replace(id=identifier, texts=(format_wait(counts),))


def _is_tight(view: KernelView, identifier: int, counter: Counter) -> bool:
    """True when one more operation in flight is certainly too many. Most waits of compilers are."""
    program = view.program
    position = program.position_of[identifier]
    state = view.waits.before(position)
    counts = parse_wait(program.instructions[position])
    one_more = state.copy()
    one_more.wait(counter, counts[counter] + 1)
    state.wait(counter, counts[counter])
    registers = 0
    for producer in one_more.outstanding() - state.outstanding():
        registers |= program.effects[producer].loaded
    end = program.blocks[program.block_at[position]].end
    for at in range(position + 1, end):
        effect = program.effects[at]
        if effect.base == "s_waitcnt":
            return False
        if (effect.reads | effect.writes) & registers:
            return True
    return False


def _relax(
    original: KernelView, view: KernelView, identifier: int, counts: Mapping[Counter, int]
) -> dict[Counter, int]:
    """The largest counts that are still safe; a counter that need not be waited for is left out."""
    found = dict(counts)
    outstanding = view.waits.before(view.program.position_of[identifier]).most_outstanding
    for counter in counts:
        # At the counter's limit a wait waits for nothing: the hardware issues no more than that.
        limit = min(outstanding[counter], COUNTER_LIMITS[counter])
        low, high = counts[counter], limit
        while low < high:
            # A step of one first: nearly all waits of compilers are exact.
            middle = low + 1 if low == counts[counter] else (low + high + 1) // 2
            if _is_safe(original, view, identifier, {**found, counter: middle}):
                low = middle
            else:
                high = middle - 1
        if low == counts[counter]:
            continue
        found[counter] = low
        if low >= limit:
            del found[counter]
    return found


def _is_safe(
    original: KernelView, view: KernelView, identifier: int, counts: Mapping[Counter, int]
) -> bool:
    listing = apply_edits(view.listing, (_edit_wait(identifier, counts),))
    return not any(find_wait_faults(original, view_kernel(listing, view.kernel)))
