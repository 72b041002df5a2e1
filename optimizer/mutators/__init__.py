"""Deterministic rewrites, one module each; the ids are those of the rewrite catalogue."""

from __future__ import annotations

from asmevo.optimizer.mutators.block_schedule import BlockSchedule, Policy
from asmevo.optimizer.mutators.dead_code import DeadCode
from asmevo.optimizer.mutators.hoisted_load import HoistedLoad
from asmevo.optimizer.mutators.implied_wait import ImpliedWait
from asmevo.optimizer.mutators.merged_wait import MergedWait
from asmevo.optimizer.mutators.mutator import Mutator
from asmevo.optimizer.mutators.relaxed_wait import RelaxedWait
from asmevo.optimizer.mutators.shrunk_nop import ShrunkNop
from asmevo.optimizer.mutators.sunk_wait import SunkWait

__all__ = ["MUTATORS", "Mutator"]

MUTATORS: tuple[Mutator, ...] = (
    ImpliedWait(),
    DeadCode(),
    ShrunkNop(),
    RelaxedWait(),
    SunkWait(),
    BlockSchedule(Policy.CRITICAL_PATH),
    BlockSchedule(Policy.LOADS_FIRST),
    BlockSchedule(Policy.FILL_STALLS),
    HoistedLoad(),
    MergedWait(),
)
"""In the order in which the search tries them: by risk and cost."""
