"""W6: shrink or delete an s_nop by the exact hazard distance."""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.codeobject.analysis.hazard import count_wait_states
from asmevo.optimizer.kernel_view import KernelView, view_kernel
from asmevo.optimizer.proposal import Delete, Edit, Proposal, Replace, apply_edits

__all__ = ["ShrunkNop"]


class ShrunkNop:
    """Keeps only the wait states that a hazard needs on some path.

    Each s_nop is tried on top of the shrinking found before it, so that all hold together.
    """

    id = "W6"
    title = "shrink s_nop"
    is_combinable = True
    is_monotone = True

    def propose(self, view: KernelView) -> Iterator[Proposal]:
        """One proposal for each s_nop that is longer than any hazard needs."""
        shrunk = view
        for block in view.program.order:
            bounds = view.program.blocks[block]
            for position in range(bounds.start, bounds.end):
                instruction = view.program.instructions[position]
                if instruction.mnemonic != "s_nop" or not view.is_editable(position):
                    continue
                states = count_wait_states(instruction)
                place = shrunk.program.position_of[instruction.id]
                kept = states - shrunk.distances.count_slack(place)
                if kept == states:
                    continue
                edit: Edit = Delete(ids=(instruction.id,))
                if kept:
                    edit = Replace(id=instruction.id, texts=(f"s_nop {kept - 1}",))
                shrunk = view_kernel(apply_edits(shrunk.listing, (edit,)), view.kernel)
                yield Proposal(
                    mutator=self.id,
                    sites=(instruction.id,),
                    edits=(edit,),
                    hypothesis=f"no hazard needs all of its {states} wait states",
                )
