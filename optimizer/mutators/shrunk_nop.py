"""W6: shrink or delete an s_nop by the exact hazard distance."""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.codeobject.analysis.hazard import count_wait_states
from asmevo.optimizer.gate.static import find_hazard_faults
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
                edit = _shrink(view, shrunk, instruction.id, states)
                if edit is None:
                    continue
                shrunk = view_kernel(apply_edits(shrunk.listing, (edit,)), view.kernel)
                yield Proposal(
                    mutator=self.id,
                    sites=(instruction.id,),
                    edits=(edit,),
                    hypothesis=f"no hazard needs all of its {states} wait states",
                )


def _shrink(original: KernelView, view: KernelView, identifier: int, states: int) -> Edit | None:
    """The edit that leaves the fewest wait states; None when all are needed."""
    for kept in range(states):
        edit: Edit = Delete(ids=(identifier,))
        if kept:
            edit = Replace(id=identifier, texts=(f"s_nop {kept - 1}",))
        candidate = view_kernel(apply_edits(view.listing, (edit,)), view.kernel)
        if not any(find_hazard_faults(original, candidate)):
            return edit
    return None
