"""Whether a code object's descriptors and metadata give its code what the code uses."""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.codeobject.compare import Difference
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.resources import (
    CodeNeed,
    Resources,
    declared_resources,
    granules,
    measure_need,
)
from asmevo.codeobject.target import HAS_UNIFIED_REGISTERS

__all__ = ["find_resource_faults"]


def find_resource_faults(listing: Listing) -> tuple[Difference, ...]:
    """Registers, LDS and scratch beyond what the descriptors of `listing.source` give.

    The listing must be that of the object itself: this asks nothing of the edit that made it.
    Processors without a unified register file are not judged.
    """
    source = listing.source
    if source.target not in HAS_UNIFIED_REGISTERS:
        return ()
    return tuple(
        Difference(part="descriptor", name=kernel.name, detail=detail)
        for kernel in source.kernels
        for detail in _faults(declared_resources(kernel), measure_need(listing, kernel.name))
    )


def _faults(given: Resources, need: CodeNeed) -> Iterator[str]:
    registers = need.registers
    if registers.vgprs > min(given.accum_offset, given.allocated_vgprs):
        have = min(given.accum_offset, given.allocated_vgprs)
        yield f"the code uses v{registers.vgprs - 1}, the descriptor gives {have} VGPRs"
    if registers.agprs > given.allocated_agprs:
        yield (
            f"the code uses a{registers.agprs - 1}, the descriptor gives "
            f"{given.allocated_agprs} AGPRs"
        )
    if granules(need.sgprs, 16) > given.allocated_sgprs:
        yield (
            f"the code uses {need.sgprs} SGPRs with the special ones, the descriptor gives "
            f"{given.allocated_sgprs}"
        )
    if need.memory.scratch_end > given.private_segment_size and not registers.open_ends:
        yield (
            f"the code uses scratch up to byte {need.memory.scratch_end}, the descriptor gives "
            f"{given.private_segment_size}"
        )
