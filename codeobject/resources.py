"""Registers, LDS and scratch that a kernel must be given, recomputed from its code.

Counts: LLVM AMDGPUUsage, "compute_pgm_rsrc1/3 for GFX90A, GFX940": VGPRs and AGPRs share one file
in granules of 8, AGPRs start at accum_offset, a multiple of 4; SGPRs in granules of 16, VCC,
XNACK_MASK and FLAT_SCRATCH counted behind the numbered ones.

The rule. A count of K0 that K0's code explains follows the code, up and down. One that is higher
than its code explains is K0's choice (registers reached by number, calls by pointer, a limit on
occupancy) and stays the least. LDS and scratch grow to what constant addresses prove or to what
was asked for; they vanish only with the last instruction that could reach them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from asmevo.codeobject.code_object import CodeObject, Kernel
from asmevo.codeobject.code_reach import CodeMap
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.listing import Demand, Listing, ListingKernel
from asmevo.codeobject.listing_identity import Identity
from asmevo.codeobject.memory_use import find_memory_use
from asmevo.codeobject.occupancy import MAX_WORKGROUP, compute_occupancy
from asmevo.codeobject.register_allocation import (
    allocate_scalar_registers,
    allocate_vector_registers,
)
from asmevo.codeobject.register_use import RegisterUse, find_register_use, is_register_indexing
from asmevo.codeobject.resource_records import (
    CodeNeed,
    ResourceRefusal,
    Resources,
    declared_resources,
    lds_bytes,
    round_up,
)
from asmevo.codeobject.target import HAS_ARCHITECTED_FLAT_SCRATCH, HAS_UNIFIED_REGISTERS

__all__ = [
    "CodeNeed",
    "KernelPlan",
    "ResourceRefusal",
    "Resources",
    "compute_resources",
    "measure_need",
    "plan_resources",
]

_MAX_TOTAL_VGPRS: Final = 512
_MAX_ACCUM_OFFSET: Final = 256
_MAX_SCRATCH_BYTES: Final = 128 << 10
_DYNAMIC_LDS: Final = ("dynamic_shared_pointer", "hidden_dynamic_lds_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPlan:
    """What an edit does to the resources of one kernel."""

    kernel: Kernel
    """As K0 has it."""
    given: Resources
    needed: Resources
    before: CodeNeed
    after: CodeNeed


def measure_need(listing: Listing, name: str) -> CodeNeed:
    """What the code of kernel `name` uses as the listing stands."""
    return _measure(CodeMap(listing), _entry(listing, name), listing.source)


def compute_resources(listing: Listing, name: str) -> Resources:
    """What kernel `name` must be given; for an unedited listing what K0 gives it.

    Raises:
        ResourceRefusal: it cannot be told, or is more than the hardware has.
    """
    kernel = listing.source.kernel(name)
    if listing.origin is None:
        return declared_resources(kernel)
    return next(one.needed for one in plan_resources(listing) if one.kernel.name == kernel.name)


def plan_resources(listing: Listing) -> tuple[KernelPlan, ...]:
    """For an edited listing, the resources of every kernel before and after.

    Raises:
        ResourceRefusal: as for `compute_resources`.
    """
    origin = listing.origin or listing
    old, new = _code_map(Identity(origin)), CodeMap(listing)
    plans = []
    for kernel, entry in zip(listing.source.kernels, listing.kernels, strict=True):
        before = _cached_need(Identity(origin), kernel.name)
        first = _entry(origin, kernel.name)
        untouched = new.own_code(entry) == old.own_code(first) and new.is_closed(entry)
        after = before if untouched else _measure(new, entry, listing.source)
        plans.append(_plan_kernel(listing, kernel, before, after))
    return tuple(plans)


def _plan_kernel(listing: Listing, kernel: Kernel, before: CodeNeed, after: CodeNeed) -> KernelPlan:
    given = declared_resources(kernel)
    needed = given
    if after is not before or listing.demand(kernel.name) != Demand():
        if listing.source.target not in HAS_UNIFIED_REGISTERS:
            _refuse_growth(listing, kernel.name, before, after)
            return KernelPlan(kernel=kernel, given=given, needed=given, before=before, after=before)
        _refuse_new_indexing(listing, before, after)
        needed = Resources(
            **allocate_vector_registers(given, before, after),
            allocated_sgprs=allocate_scalar_registers(kernel, given, before, after),
            group_segment_size=_group_segment(listing, kernel, before, after),
            private_segment_size=_private_segment(listing, kernel, before, after),
        )
        _refuse_beyond_hardware(needed, listing.source.target, kernel.name)
        _refuse_workgroup(kernel, given, needed, listing.source.target)
    return KernelPlan(kernel=kernel, given=given, needed=needed, before=before, after=after)


def _entry(listing: Listing, name: str) -> ListingKernel:
    return next(one for one in listing.kernels if one.name == name)


def _measure(code: CodeMap, entry: ListingKernel, source: CodeObject) -> CodeNeed:
    reach = code.find_reach(entry)
    registers = find_register_use(reach.instructions, reach.open_ends)
    return CodeNeed(
        registers=registers,
        memory=find_memory_use(reach.instructions, code.entered),
        sgprs=registers.sgprs + _extra_sgprs(registers, source, source.kernel(entry.name)),
    )


@lru_cache(maxsize=4)
def _code_map(origin: Identity) -> CodeMap:
    return CodeMap(origin.listing)


@lru_cache(maxsize=1024)
def _cached_need(origin: Identity, name: str) -> CodeNeed:
    listing = origin.listing
    return _measure(_code_map(origin), _entry(listing, name), listing.source)


def _refuse_growth(listing: Listing, name: str, before: CodeNeed, after: CodeNeed) -> None:
    """Processors whose granules are not known here keep what K0 gives."""
    old, new = before.registers, after.registers
    pairs = (
        (old.vgprs, new.vgprs),
        (old.agprs, new.agprs),
        (before.sgprs, after.sgprs),
        (before.memory.lds_end, after.memory.lds_end),
        (before.memory.scratch_end, after.memory.scratch_end),
        (len(old.open_ends), len(new.open_ends)),
    )
    if any(used > had for had, used in pairs) or listing.demand(name) != Demand():
        raise ResourceRefusal(
            f"the edit uses more than K0; resources of {listing.source.target} are not recomputed"
        )


def _refuse_new_indexing(listing: Listing, before: CodeNeed, after: CodeNeed) -> None:
    """K0's counts bound what its own code reaches without naming it; nothing bounds new code."""
    known = set(before.registers.open_ends)
    reasons = [one for one in after.registers.open_ends if one not in known]
    reasons += [
        f"the edit adds {one.mnemonic}"
        for one in listing.instructions
        if one.offset < 0 and _is_open(one)
    ]
    if reasons:
        raise ResourceRefusal(f"registers cannot be recomputed: {reasons[0]}")


def _is_open(one: Instruction) -> bool:
    return is_register_indexing(one) or one.mnemonic in ("s_swappc_b64", "s_setpc_b64")


def _group_segment(listing: Listing, kernel: Kernel, before: CodeNeed, after: CodeNeed) -> int:
    given = kernel.fields.group_segment_size
    asked = listing.demand(kernel.name).group_segment_size
    if before.memory.may_use_lds and not after.memory.may_use_lds and not after.registers.open_ends:
        return asked
    size = max(given, asked)
    end = after.memory.lds_end
    if end <= max(size, before.memory.lds_end):
        return size
    takes_dynamic = given == 0 or any(one.value_kind in _DYNAMIC_LDS for one in kernel.arguments)
    if takes_dynamic and not asked:
        raise ResourceRefusal(
            f"the edit uses LDS up to byte {end}; what a launch adds to the {given} bytes of "
            f"{kernel.name[:120]} is not known",
            hint="ask for the size with Listing.reserve",
        )
    return end


def _private_segment(listing: Listing, kernel: Kernel, before: CodeNeed, after: CodeNeed) -> int:
    given = kernel.fields.private_segment_size
    asked = listing.demand(kernel.name).private_segment_size
    gone = before.memory.may_use_scratch and not after.memory.may_use_scratch
    if gone and not after.registers.open_ends and not kernel.fields.uses_dynamic_stack:
        return asked
    size = max(given, asked)
    if after.memory.scratch_end > before.memory.scratch_end:
        size = max(size, round_up(after.memory.scratch_end, 4))
    target = listing.source.target
    is_set_up = kernel.fields.enables_private_segment or target in HAS_ARCHITECTED_FLAT_SCRATCH
    if size > given and not is_set_up:
        raise ResourceRefusal(
            f"{kernel.name[:120]} has no scratch, and on {target} its code would have to set it up"
        )
    return size


def _extra_sgprs(registers: RegisterUse, source: CodeObject, kernel: Kernel) -> int:
    """VCC, XNACK_MASK, FLAT_SCRATCH: pairs at the top of the allocation, each implying those below
    (LLVM IsaInfo::getNumExtraSGPRs; without scratch, flat accesses have no use for FLAT_SCRATCH:
    AMDGPUResourceUsageAnalysis)."""
    uses_scratch = registers.uses_flat_scratch
    uses_scratch |= registers.uses_flat and kernel.fields.enables_private_segment
    if source.target in HAS_ARCHITECTED_FLAT_SCRATCH or uses_scratch:
        return 6
    if source.xnack in ("any", "on"):
        return 4
    return 2 if registers.uses_vcc else 0


def _refuse_workgroup(kernel: Kernel, given: Resources, needed: Resources, target: str) -> None:
    """A workgroup as large as K0 takes must fit on one compute unit still."""
    size = kernel.metadata.max_workgroup_size
    if needed == given or not 1 <= size <= MAX_WORKGROUP:
        return
    before, after = (compute_occupancy(one, target, workgroup_size=size) for one in (given, needed))
    if before.workgroups and not after.workgroups:
        raise ResourceRefusal(
            f"{kernel.name[:120]} takes workgroups of {size}; one would not fit any more: "
            f"{needed.allocated_vgprs} vector registers, {needed.allocated_sgprs} SGPRs a wave"
        )


def _refuse_beyond_hardware(needed: Resources, target: str, name: str) -> None:
    limits = (
        ("vector registers", needed.allocated_vgprs, _MAX_TOTAL_VGPRS),
        ("VGPRs", needed.accum_offset, _MAX_ACCUM_OFFSET),
        ("bytes of LDS", needed.group_segment_size, lds_bytes(target)),
        ("bytes of scratch", needed.private_segment_size, _MAX_SCRATCH_BYTES),
    )
    for what, count, most in limits:
        if count > most:
            raise ResourceRefusal(f"{name[:120]} would need {count} {what}, above {most}")
