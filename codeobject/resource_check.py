"""Whether a code object's descriptors and metadata give its code what the code uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from asmevo.codeobject.code_object import CodeObject, Kernel
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.recover import take_apart
from asmevo.codeobject.resource_records import declared_resources, granules
from asmevo.codeobject.resources import CodeNeed, Resources, measure_need
from asmevo.codeobject.target import HAS_UNIFIED_REGISTERS

__all__ = ["ResourceFault", "find_resource_faults"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFault:
    """One thing that a kernel uses and is not given."""

    kernel: str
    detail: str
    hint: str
    """What to write instead."""

    def __str__(self) -> str:
        """One line without the hint."""
        return f"kernel {self.kernel[:120]}: {self.detail}"


def find_resource_faults(
    listing: Listing, k0: CodeObject | None = None
) -> tuple[ResourceFault, ...]:
    """Registers and scratch beyond what the descriptors of `listing.source` give.

    `listing` must be that of the object itself. With `k0`, what the object was made from, counts in
    the metadata must cover the code where K0's do. Processors without a unified register file are
    not judged.
    """
    source = listing.source
    if source.target not in HAS_UNIFIED_REGISTERS:
        return ()
    faults = []
    for kernel in source.kernels:
        need = measure_need(listing, kernel.name)
        found = [*_faults(declared_resources(kernel), need), *_count_faults(kernel, need, k0)]
        faults += [ResourceFault(kernel=kernel.name, detail=one, hint=hint) for one, hint in found]
    return tuple(faults)


def _faults(given: Resources, need: CodeNeed) -> Iterator[tuple[str, str]]:
    registers = need.registers
    # Without AGPRs, accum_offset parts nothing.
    vgprs = given.accum_offset if registers.agprs else given.allocated_vgprs
    if registers.vgprs > vgprs:
        total = need.accum_offset + registers.agprs
        yield (
            f"the code uses v{registers.vgprs - 1}, the descriptor gives {vgprs} VGPRs",
            f".amdhsa_accum_offset {need.accum_offset} and .amdhsa_next_free_vgpr {total} do",
        )
    elif registers.agprs > given.allocated_agprs:
        yield (
            f"the code uses a{registers.agprs - 1}, the descriptor gives "
            f"{given.allocated_agprs} AGPRs",
            f".amdhsa_next_free_vgpr {given.accum_offset + registers.agprs} does",
        )
    if granules(need.sgprs, 16) > given.allocated_sgprs:
        yield (
            f"the code uses {need.sgprs} SGPRs, special ones included, the descriptor gives "
            f"{given.allocated_sgprs}",
            f".amdhsa_next_free_sgpr {need.sgprs} does",
        )
    if need.memory.scratch_end > given.private_segment_size and not registers.open_ends:
        end = need.memory.scratch_end
        yield (
            f"the code uses {end} bytes of scratch, the descriptor gives "
            f"{given.private_segment_size}",
            f".amdhsa_private_segment_fixed_size {end} does",
        )


def _count_faults(
    kernel: Kernel, need: CodeNeed, k0: CodeObject | None
) -> Iterator[tuple[str, str]]:
    """Counts of the metadata that the edit left behind; what K0 itself has wrong may stay."""
    if k0 is None or all(one.name != kernel.name for one in k0.kernels):
        return
    had = _counts(k0.kernel(kernel.name))
    has, used = _counts(kernel), _used(need)
    short = [key for key in used if has[key] < used[key]]
    before = _used(measure_need(take_apart(k0), kernel.name)) if short else {}
    for key in short:
        if has[key] != had[key] or had[key] >= before[key]:
            detail = f"the code uses {used[key]}, the metadata has .{key} {has[key]}"
            yield detail, f".{key}: {used[key]} does"


def _counts(kernel: Kernel) -> dict[str, int]:
    metadata = kernel.metadata
    return {
        "vgpr_count": metadata.vgpr_count,
        "agpr_count": metadata.agpr_count,
        "sgpr_count": metadata.sgpr_count,
    }


def _used(need: CodeNeed) -> dict[str, int]:
    return {
        "vgpr_count": need.registers.total_vgprs,
        "agpr_count": need.registers.agprs,
        "sgpr_count": need.sgprs,
    }
