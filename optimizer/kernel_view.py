"""One kernel of a listing with its analyses and what only mutators and the gate ask for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from asmevo.codeobject.analysis.dependence import BlockItem
from asmevo.codeobject.analysis.hazard import count_wait_states
from asmevo.codeobject.analysis.kernel_analysis import KernelAnalysis, analyse_kernel
from asmevo.codeobject.analysis.memory_dependence import may_order_by_wait
from asmevo.codeobject.analysis.wait_state import Instance
from asmevo.codeobject.listing import Listing

__all__ = ["FILLERS", "KernelView", "view_kernel"]

FILLERS = ("s_waitcnt", "s_nop")
"""Instructions that only make others wait: they are re-derived when the order changes."""


@dataclass(frozen=True, kw_only=True)
class KernelView(KernelAnalysis):
    """What mutators and the static gate look at. Analyses refuse with `AnalysisRefusal`."""

    @cached_property
    def outstanding_at_sync(self) -> dict[int, frozenset[Instance]]:
        """For each instruction that others may be waited for, those that may not be over there.

        An instance here is an instruction id and how often that was issued again since.
        """
        program = self.program
        found = {}
        for block in program.order:
            for position, state in self.waits.walk(block):
                effect = program.effects[position]
                if effect.memory is None and not effect.is_pinned:
                    continue
                found[program.instructions[position].id] = frozenset(
                    (program.instructions[at].id, generation)
                    for at, generation in state.instances()
                    if self.may_wait_for(at, position)
                )
        return found

    def may_wait_for(self, producer: int, position: int) -> bool:
        """True when a wait in front of `position` may be there for the producer's sake.

        Beside what synchronises, some accesses need others to be over without naming a register.
        """
        effects = self.program.effects
        return self.is_synchronising(position) or may_order_by_wait(
            effects[producer], effects[position], self.arch
        )

    def is_synchronising(self, position: int) -> bool:
        """True for barriers, messages, cache control, atomics and coherent accesses."""
        effect = self.program.effects[position]
        if effect.memory is not None and effect.memory.is_ordered:
            return True
        return effect.is_pinned and not effect.is_terminator

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
