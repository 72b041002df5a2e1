"""One kernel of a listing with all its analyses, each worked out when first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from asmevo.codeobject.analysis.control_flow import AnalysisRefusal, Program, read_program
from asmevo.codeobject.analysis.def_use import DefUse, analyse_def_use
from asmevo.codeobject.analysis.dominance import DominatorTree
from asmevo.codeobject.analysis.exec_state import ExecState, analyse_exec_state
from asmevo.codeobject.analysis.hazard import Hazard, HazardDistances, count_wait_states
from asmevo.codeobject.analysis.hazard_rules import SUPPORTED_ARCHS
from asmevo.codeobject.analysis.identity import is_identity
from asmevo.codeobject.analysis.liveness import Liveness, analyse_liveness
from asmevo.codeobject.analysis.loops import LoopForest
from asmevo.codeobject.analysis.memory_dependence import may_order_by_wait
from asmevo.codeobject.analysis.uniformity import Uniformity, analyse_uniformity
from asmevo.codeobject.analysis.wait_state import (
    Instance,
    Waits,
    WaitViolation,
    analyse_waits,
    find_wait_violations,
)
from asmevo.errors import UsageError

if TYPE_CHECKING:
    # A listing parses operands with this package, so it cannot be imported from here.
    from asmevo.codeobject.listing import Listing

__all__ = ["KernelAnalysis", "analyse_kernel"]


@dataclass(frozen=True, kw_only=True)
class KernelAnalysis:
    """The answers of all analyses for one kernel.

    Positions number the kernel's instructions from 0 in the order of the listing;
    `program.position_of` maps ids to them. Each answer holds for every path that control may take.
    """

    listing: Listing
    kernel: str
    arch: str
    program: Program
    """Instructions, effects, blocks and edges."""

    @property
    def dominators(self) -> DominatorTree:
        """Blocks that every path from an entry passes."""
        return self.program.dominators

    @property
    def post_dominators(self) -> DominatorTree:
        """Blocks that every path to the end passes."""
        return self.program.post_dominators

    @property
    def loops(self) -> LoopForest:
        """Natural loops with their nesting, and irreducible cycles."""
        return self.program.loops

    @cached_property
    def exec_state(self) -> ExecState:
        """Where EXEC is the entry mask, and where it is not empty."""
        return analyse_exec_state(self.program)

    @cached_property
    def liveness(self) -> Liveness:
        """Registers read later."""
        return analyse_liveness(self.program, self.exec_state)

    @cached_property
    def def_use(self) -> DefUse:
        """Definitions that reach each use."""
        return analyse_def_use(self.program, self.exec_state)

    @cached_property
    def uniformity(self) -> Uniformity:
        """Vector registers with one value in all lanes."""
        return analyse_uniformity(self.program, self.exec_state)

    @cached_property
    def waits(self) -> Waits:
        """Outstanding memory operations.

        Raises:
            AnalysisRefusal: a wait has a form that is not understood.
        """
        return analyse_waits(self.program)

    @cached_property
    def wait_violations(self) -> tuple[WaitViolation, ...]:
        """Uses of registers that may still be loading."""
        return find_wait_violations(self.waits)

    @cached_property
    def distances(self) -> HazardDistances:
        """Recent hazard producers.

        Raises:
            AnalysisRefusal: no rules are known for the chip.
        """
        return HazardDistances(self.program, self.arch)

    @cached_property
    def hazards(self) -> tuple[Hazard, ...]:
        """Pairs of instructions with too few wait states between them."""
        return self.distances.find_hazards()

    @cached_property
    def wait_states(self) -> tuple[int, ...]:
        """Wait states that each instruction gives."""
        return tuple(count_wait_states(one) for one in self.program.instructions)

    @cached_property
    def outstanding_at_sync(self) -> dict[int, frozenset[Instance]]:
        """For each instruction in front of which a wait may matter, what may not be over there.

        Those are memory accesses and what synchronises; a register may be waited for anywhere, and
        is in `wait_violations`. An instance here is an instruction id and how often that was issued
        again since.
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


def analyse_kernel(listing: Listing, kernel: str) -> KernelAnalysis:
    """The analyses of one kernel of a listing.

    Raises:
        AnalysisRefusal: the kernel does something that no analysis can follow; the message says
            what.
        UsageError: the listing has no such kernel.
    """
    found = next((one for one in listing.kernels if one.name == kernel), None)
    if found is None:
        raise UsageError(f"no kernel {kernel[:120]} in the listing")
    if listing.source.target not in SUPPORTED_ARCHS:
        raise AnalysisRefusal(f"the effects of {listing.source.target} instructions are not known")
    return KernelAnalysis(
        listing=listing,
        kernel=kernel,
        arch=listing.source.target,
        program=read_program(
            listing.kernel_instructions(kernel), sorted({found.first_id, found.body_id})
        ),
    )
