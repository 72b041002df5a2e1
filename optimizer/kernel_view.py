"""One kernel of a listing with its analyses and what only mutators and the gate ask for."""

from __future__ import annotations

from dataclasses import dataclass

from asmevo.codeobject.analysis.dependence import BlockItem
from asmevo.codeobject.analysis.hazard import count_wait_states
from asmevo.codeobject.analysis.kernel_analysis import KernelAnalysis, analyse_kernel
from asmevo.codeobject.listing import Listing

__all__ = ["FILLERS", "KernelView", "view_kernel"]

FILLERS = ("s_waitcnt", "s_nop")
"""Instructions that only make others wait: they are re-derived when the order changes."""


@dataclass(frozen=True, kw_only=True)
class KernelView(KernelAnalysis):
    """What mutators and the static gate look at. Analyses refuse with `AnalysisRefusal`."""

    def is_filler(self, position: int) -> bool:
        """True for s_waitcnt and s_nop."""
        return self.program.instructions[position].mnemonic in FILLERS

    def is_editable(self, position: int) -> bool:
        """True unless the listing pins the instruction."""
        return self.program.instructions[position].id not in self.listing.pinned

    def can_vanish(self, position: int) -> bool:
        """True when no hazard needs the wait states that the instruction gives."""
        states = count_wait_states(self.program.instructions[position])
        return self.distances.count_slack(position) >= states

    def block_items(self, block: int) -> tuple[BlockItem, ...]:
        """The instructions of a block save the fillers, in order."""
        program, bounds = self.program, self.program.blocks[block]
        return tuple(
            BlockItem(
                id=program.instructions[at].id,
                effect=program.effects[at],
                is_entry_mask=self.exec_state.is_entry_mask[at],
            )
            for at in range(bounds.start, bounds.end)
            if not self.is_filler(at)
        )

    def live_out(self, block: int) -> int:
        """Registers read after the block."""
        return self.liveness.after[self.program.blocks[block].end - 1]


def view_kernel(listing: Listing, kernel: str) -> KernelView:
    """The view of one kernel.

    Raises:
        AnalysisRefusal: the kernel has something that the analyses do not understand.
    """
    known = analyse_kernel(listing, kernel)
    return KernelView(listing=listing, kernel=kernel, arch=known.arch, program=known.program)
