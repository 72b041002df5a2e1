"""How many registers a kernel must be given after an edit; the rule is in `resources`."""

from __future__ import annotations

from asmevo.codeobject.code_object import Kernel
from asmevo.codeobject.resource_records import (
    SGPR_GRANULE,
    VGPR_GRANULE,
    CodeNeed,
    ResourceRefusal,
    Resources,
    granules,
)

__all__ = ["allocate_scalar_registers", "allocate_vector_registers"]


def allocate_vector_registers(
    given: Resources, before: CodeNeed, after: CodeNeed
) -> dict[str, int]:
    """`accum_offset` and `allocated_vgprs`."""
    used = after.registers
    if before.registers.vgprs > given.accum_offset:
        return _overlapping_registers(given, before, after)
    is_open = bool(used.open_ends or before.registers.open_ends)
    explained = given.accum_offset == before.accum_offset and given.allocated_vgprs == granules(
        before.registers.total_vgprs, VGPR_GRANULE
    )
    if explained and not is_open:
        return {
            "accum_offset": after.accum_offset,
            "allocated_vgprs": granules(used.total_vgprs, VGPR_GRANULE),
        }
    offset = max(given.accum_offset, after.accum_offset)
    if is_open and offset != given.accum_offset and before.registers.agprs:
        # What is reached by number may lie behind it, where AGPRs would move away.
        raise ResourceRefusal(
            f"accum_offset cannot move: {(used.open_ends or before.registers.open_ends)[0]}"
        )
    agprs = max(used.agprs, given.allocated_agprs if is_open else 0)
    total = max(given.allocated_vgprs, offset + agprs if agprs else used.vgprs)
    return {"accum_offset": offset, "allocated_vgprs": granules(total, VGPR_GRANULE)}


def _overlapping_registers(given: Resources, before: CodeNeed, after: CodeNeed) -> dict[str, int]:
    """For a K0 with VGPRs at and behind accum_offset, as AITER's paged attention has: they are the
    registers that are also named a0 and following. Fine while nothing is."""
    old, used = before.registers, after.registers
    offset = given.accum_offset
    if old.agprs and (used.vgprs > old.vgprs or used.agprs > old.agprs):
        raise ResourceRefusal("VGPRs and AGPRs of the kernel overlap: neither can grow")
    if used.agprs and not old.agprs:
        offset = max(offset, after.accum_offset)
    total = max(given.allocated_vgprs, used.vgprs, offset + used.agprs if used.agprs else 0)
    return {"accum_offset": offset, "allocated_vgprs": granules(total, VGPR_GRANULE)}


def allocate_scalar_registers(
    kernel: Kernel, given: Resources, before: CodeNeed, after: CodeNeed
) -> int:
    """`allocated_sgprs` of `Resources`."""
    needed = granules(after.sgprs, SGPR_GRANULE)
    explained = given.allocated_sgprs == granules(before.sgprs, SGPR_GRANULE)
    if not explained or after.registers.open_ends or before.registers.open_ends:
        return max(given.allocated_sgprs, needed)
    # The hardware writes these before the first instruction, whether it reads them or not.
    start = kernel.fields.initial_sgpr_count
    least = min(
        given.allocated_sgprs, granules(start + after.sgprs - after.registers.sgprs, SGPR_GRANULE)
    )
    return max(needed, least)
