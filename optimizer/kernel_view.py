"""One kernel of a listing with its analyses, each worked out when first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from asmevo.codeobject.analysis.control_flow import Program, read_program
from asmevo.codeobject.analysis.dependence import BlockItem
from asmevo.codeobject.analysis.exec_state import ExecState, analyse_exec_state
from asmevo.codeobject.analysis.hazard import Hazard, HazardDistances, count_wait_states
from asmevo.codeobject.analysis.identity import is_identity
from asmevo.codeobject.analysis.liveness import Liveness, analyse_liveness
from asmevo.codeobject.analysis.memory_dependence import may_order_by_wait
from asmevo.codeobject.analysis.wait_state import (
    Instance,
    Waits,
    WaitViolation,
    analyse_waits,
    find_wait_violations,
)
from asmevo.codeobject.listing import Listing

__all__ = ["FILLERS", "KernelView", "view_kernel"]

FILLERS = ("s_waitcnt", "s_nop")
"""Instructions that only make others wait: they are re-derived when the order changes."""


@dataclass(frozen=True, kw_only=True)
class KernelView:
    """What mutators and the static gate look at. Analyses refuse with `AnalysisRefusal`."""

    listing: Listing
    kernel: str
    arch: str
    program: Program

    @cached_property
    def exec_state(self) -> ExecState:
        """Where EXEC is the entry mask."""
        return analyse_exec_state(self.program)

    @cached_property
    def liveness(self) -> Liveness:
        """Registers read later."""
        return analyse_liveness(self.program, self.exec_state)

    @cached_property
    def waits(self) -> Waits:
        """Outstanding memory operations."""
        return analyse_waits(self.program)

    @cached_property
    def wait_violations(self) -> tuple[WaitViolation, ...]:
        """Uses of registers that may still be loading."""
        return find_wait_violations(self.waits)

    @cached_property
    def hazards(self) -> tuple[Hazard, ...]:
        """Pairs of instructions with too few wait states between them."""
        return self.distances.find_hazards()

    @cached_property
    def distances(self) -> HazardDistances:
        """Recent hazard producers."""
        return HazardDistances(self.program, self.arch)

    @cached_property
    def wait_states(self) -> tuple[int, ...]:
        """Wait states that each instruction gives."""
        return tuple(count_wait_states(one) for one in self.program.instructions)

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

    def is_identity(self, position: int) -> bool:
        """True when the instruction certainly leaves every register as it is."""
        return is_identity(self.program, position, denormals=self._denormals)

    @cached_property
    def _denormals(self) -> int:
        """FLOAT_DENORM_MODE_32: bits 16 and 17 of COMPUTE_PGM_RSRC1, byte 48 of the descriptor."""
        kernel = next(one for one in self.listing.source.kernels if one.name == self.kernel)
        return kernel.descriptor[50] & 3

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
    entry = next(one for one in listing.kernels if one.name == kernel)
    return KernelView(
        listing=listing,
        kernel=kernel,
        arch=listing.source.target,
        program=read_program(
            listing.kernel_instructions(kernel), sorted({entry.first_id, entry.body_id})
        ),
    )
