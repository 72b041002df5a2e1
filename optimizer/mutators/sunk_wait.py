"""W3: sink a wait to just before the first use of what it waits for."""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.codeobject.analysis.wait_state import (
    COUNTER_LIMITS,
    Counter,
    WaitState,
    format_wait,
    parse_wait,
    raises,
)
from asmevo.optimizer.kernel_view import KernelView
from asmevo.optimizer.proposal import Delete, InsertAfter, Move, Proposal

__all__ = ["SunkWait"]


class SunkWait:
    """Moves a wait down its block, past work that does not need it.

    Operations of the same counter that it passes raise its count; it never passes anything that
    synchronises, and never leaves its block.
    """

    id = "W3"
    title = "sink waits to the first use"
    is_combinable = True
    is_monotone = False

    def propose(self, view: KernelView) -> Iterator[Proposal]:
        """One proposal for each wait that has work behind it which does not need it."""
        for block in view.program.order:
            for position, state in view.waits.walk(block):
                instruction = view.program.instructions[position]
                if instruction.mnemonic != "s_waitcnt" or not view.is_editable(position):
                    continue
                proposal = self._sink(view, position, state.copy())
                if proposal is not None:
                    yield proposal

    def _sink(self, view: KernelView, position: int, state: WaitState) -> Proposal | None:
        program = view.program
        counts = parse_wait(program.instructions[position])
        pending = frozenset(at for at, _ in state.retired(counts))
        registers = 0
        for at in pending:
            registers |= program.effects[at].loaded
        end = program.blocks[program.block_at[position]].end
        last, passed, moved_counts = position, 0, dict(counts)
        for at in range(position + 1, end):
            effect = program.effects[at]
            if effect.base == "s_waitcnt" or effect.is_terminator or view.is_synchronising(at):
                break
            if (effect.reads | effect.writes) & registers:
                break
            if any(view.may_wait_for(one, at) for one in pending):
                break
            raised = _pass(moved_counts, state, view, at)
            if raised is None or program.instructions[at].id in view.listing.glued:
                break
            moved_counts = raised
            last = at
            passed += not view.is_filler(at)
        if not passed or not view.can_vanish(position):
            return None
        wait, after = program.instructions[position].id, program.instructions[last].id
        move = Move(id=wait, after_id=after)
        again = (
            InsertAfter(id=after, texts=(format_wait(moved_counts),)),
            Delete(ids=(wait,)),
        )
        return Proposal(
            mutator=self.id,
            sites=(wait,),
            edits=(move,) if moved_counts == counts else again,
            hypothesis=f"{passed} instructions run while the memory operations are in flight",
        )


def _pass(
    counts: dict[Counter, int], state: WaitState, view: KernelView, at: int
) -> dict[Counter, int] | None:
    """Counts that mean the same behind the instruction; None when there are none."""
    effect = view.program.effects[at]
    raised = dict(counts)
    for counter, count in counts.items():
        if not raises(effect, counter):
            continue
        is_unordered = state.out_of_order[counter] or effect.base.startswith(("s_", "flat_"))
        if is_unordered or count >= COUNTER_LIMITS[counter] - 1:
            return None
        raised[counter] += 1
    return raised
