"""R5: delete code without effect, and moves of a value onto itself."""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.optimizer.kernel_view import KernelView, view_kernel
from asmevo.optimizer.proposal import Delete, Proposal, apply_edits

__all__ = ["DeadCode"]


class DeadCode:
    """Deletes results that nobody reads, self-moves, and canonicalising a value that is canonical.

    An instruction that keeps a hazard at a distance stays, however useless its result.
    """

    id = "R5"
    title = "delete dead code and identities"
    is_combinable = True
    is_monotone = True

    def propose(self, view: KernelView) -> Iterator[Proposal]:
        """One proposal for each instruction that certainly changes nothing."""
        program = view.program
        thinned = view
        for block in program.order:
            bounds = program.blocks[block]
            left = bounds.end - bounds.start
            for position in range(bounds.start, bounds.end):
                reason = _find_reason(view, position)
                # A block that is left empty is gone, and control flow is another.
                if reason is None or left == 1:
                    continue
                instruction = program.instructions[position]
                edit = Delete(ids=(instruction.id,))
                if not thinned.can_vanish(thinned.program.position_of[instruction.id]):
                    continue
                left -= 1
                thinned = view_kernel(apply_edits(thinned.listing, (edit,)), view.kernel)
                yield Proposal(
                    mutator=self.id,
                    sites=(instruction.id,),
                    edits=(edit,),
                    hypothesis=f"{instruction.text} {reason}: one instruction less",
                )


def _find_reason(view: KernelView, position: int) -> str | None:
    """Why the instruction changes nothing; None when it may matter."""
    effect = view.program.effects[position]
    if not effect.is_removable or not view.is_editable(position):
        return None
    if view.is_identity(position):
        return "leaves its register as it is"
    if not effect.writes & view.liveness.after[position]:
        return "computes what nobody reads"
    return None
