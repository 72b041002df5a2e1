"""What a kernel's code does, proved over all paths: the one way in for every later stage.

`analyse_kernel(listing, name)` gives a `KernelAnalysis`. An analysis answers, or refuses with an
`AnalysisRefusal` that says why. See `docs/analysis.md`.
"""

from __future__ import annotations

from asmevo.codeobject.analysis.control_flow import AnalysisRefusal, Block, Program
from asmevo.codeobject.analysis.def_use import ENTRY, DefUse
from asmevo.codeobject.analysis.dominance import DominatorTree
from asmevo.codeobject.analysis.effect import Access, Effect, MemoryAccess, Space, Unit
from asmevo.codeobject.analysis.exec_state import ExecState
from asmevo.codeobject.analysis.hazard import Hazard, HazardDistances
from asmevo.codeobject.analysis.kernel_analysis import KernelAnalysis, analyse_kernel
from asmevo.codeobject.analysis.liveness import Liveness
from asmevo.codeobject.analysis.loops import Loop, LoopForest
from asmevo.codeobject.analysis.uniformity import Uniformity
from asmevo.codeobject.analysis.wait_state import Counter, Instance, Waits, WaitState, WaitViolation

__all__ = [
    "ENTRY",
    "Access",
    "AnalysisRefusal",
    "Block",
    "Counter",
    "DefUse",
    "DominatorTree",
    "Effect",
    "ExecState",
    "Hazard",
    "HazardDistances",
    "Instance",
    "KernelAnalysis",
    "Liveness",
    "Loop",
    "LoopForest",
    "MemoryAccess",
    "Program",
    "Space",
    "Uniformity",
    "Unit",
    "WaitState",
    "WaitViolation",
    "Waits",
    "analyse_kernel",
]
