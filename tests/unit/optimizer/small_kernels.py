"""Kernels around a body, assembled for gfx942, and stand-ins for a device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path

from asmevo.codeobject.code_object import content_hash
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover
from asmevo.codeobject.toolchain import assemble, link
from asmevo.optimizer.kernel_view import KernelView, view_kernel
from asmevo.optimizer.mutators import Mutator
from asmevo.optimizer.proposal import Proposal, apply_edits
from asmevo.replay.records import Measurement, ObjectResult
from asmevo.verdict import Status, Verdict

__all__ = [
    "FakeReplayer",
    "apply_and_rebuild",
    "build_kernel",
    "count_issue_slots",
    "only_proposal",
    "propose",
    "texts_of",
    "view_of",
]

_TEMPLATE = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl work
.p2align 8
.type work,@function
work:
{body}
  s_endpgm
.Lend:
.size work, .Lend-work
.rodata
.p2align 6
.amdhsa_kernel work
  .amdhsa_group_segment_fixed_size 4096
  .amdhsa_kernarg_size 16
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 64
  .amdhsa_next_free_sgpr 32
  .amdhsa_accum_offset 64
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx942
amdhsa.kernels:
  - .name: work
    .symbol: work.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 4096
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 32
    .vgpr_count: 64
    .agpr_count: 0
    .max_flat_workgroup_size: 256
    .args:
      - {{.name: out, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.name: x, .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}}
...
.end_amdgpu_metadata
"""


@functools.cache
def build_kernel(body: str) -> bytes:
    """The code object of a kernel named `work`."""
    return link(assemble(_TEMPLATE.format(body=body), "gfx942"))


def view_of(body: str) -> KernelView:
    """The view of a kernel with this body."""
    return view_kernel(recover(build_kernel(body)), "work")


def propose(mutator: Mutator, body: str) -> list[Proposal]:
    """All proposals for a kernel with this body."""
    return list(mutator.propose(view_of(body)))


def only_proposal(mutator: Mutator, body: str) -> Proposal:
    """The one proposal for a kernel with this body."""
    (proposal,) = propose(mutator, body)
    return proposal


def apply_and_rebuild(body: str, proposals: Iterable[Proposal]) -> KernelView:
    """Through bytes and back: the view of what the proposals make of the kernel."""
    listing = recover(build_kernel(body))
    edits = [edit for proposal in proposals for edit in proposal.edits]
    return view_kernel(recover(rebuild_listing(apply_edits(listing, edits))), "work")


def texts_of(view: KernelView) -> list[str]:
    """Instruction texts up to the end of the program."""
    texts = [instruction.text for instruction in view.program.instructions]
    return texts[: texts.index("s_endpgm")]


def count_issue_slots(data: bytes) -> int:
    """A stand-in for a cycle model: nops count what they wait, everything else one."""
    slots = 0
    for instruction in recover(data).instructions:
        slots += int(instruction.operands) + 1 if instruction.mnemonic == "s_nop" else 1
    return 100 * slots


class FakeReplayer:
    """Takes objects for equivalent unless `is_equal` denies it; `cost` is its cycle model."""

    def __init__(
        self,
        k0: bytes,
        *,
        cost: Callable[[bytes], int] = count_issue_slots,
        is_equal: Callable[[bytes], bool] = lambda data: True,
    ) -> None:
        self._k0 = k0
        self._cost = cost
        self._is_equal = is_equal
        self.runs = 0

    @property
    def k0(self) -> ObjectResult:
        return self._judge(self._k0)

    def run(self, path: Path) -> ObjectResult:
        self.runs += 1
        return self._judge(path.read_bytes())

    def _judge(self, data: bytes) -> ObjectResult:
        verdict = Verdict(status=Status.PASSED)
        if not self._is_equal(data):
            verdict = Verdict(status=Status.DIVERGENT, reasons=("element 0 differs",))
        return ObjectResult(
            name="object",
            sha256=content_hash(data),
            verdict=verdict,
            measurement=Measurement(modelled_cycles=self._cost(data)),
        )
