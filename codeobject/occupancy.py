"""How many waves and workgroups of a kernel a compute unit of gfx90a, gfx942 or gfx950 holds.

Limits: 8 wave slots, 512 vector registers a lane and 800 SGPRs for each of 4 SIMDs; LDS in granules
(LLVM GCNSubtarget and AMDGPUBaseInfo, ROCclr's occupancy for SGPRs); 16 barriers a compute unit.
All waves of a workgroup are on one compute unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from asmevo.codeobject.resource_records import Resources, lds_bytes, round_up
from asmevo.codeobject.target import HAS_UNIFIED_REGISTERS
from asmevo.errors import UsageError

__all__ = ["MAX_WORKGROUP", "Occupancy", "compute_occupancy"]

_WAVE_SIZE: Final = 64
_SIMDS: Final = 4
_WAVE_SLOTS: Final = 8
_VGPRS: Final = 512
_SGPRS: Final = 800
_BARRIERS: Final = 16
MAX_WORKGROUP: Final = 1024
"""Work-items."""
_LDS_GRANULE: Final = {"gfx950": 1280}
_USUAL_LDS_GRANULE: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """What fits at once."""

    workgroups: int
    """Of a compute unit; 0: not even one."""
    waves_per_simd: int
    """The most that one SIMD holds with these workgroups."""
    limit: str
    """What allows no more: `waves`, `vgprs`, `sgprs`, `lds` or `barriers`."""


def compute_occupancy(
    resources: Resources, target: str, *, workgroup_size: int, dynamic_lds: int = 0
) -> Occupancy:
    """For launches with workgroups of `workgroup_size` work-items and so much dynamic LDS."""
    if target not in HAS_UNIFIED_REGISTERS:
        raise UsageError(f"occupancy of {target} is not known")
    if not 1 <= workgroup_size <= MAX_WORKGROUP or dynamic_lds < 0:
        raise UsageError(
            f"no workgroup has {workgroup_size} work-items, {dynamic_lds} bytes of LDS"
        )
    waves = -(-workgroup_size // _WAVE_SIZE)
    slots = {
        "waves": _WAVE_SLOTS,
        "vgprs": _VGPRS // resources.allocated_vgprs,
        "sgprs": _SGPRS // resources.allocated_sgprs,
    }
    # Waves of a workgroup are spread over the SIMDs.
    workgroups = {name: _SIMDS * count // waves for name, count in slots.items()}
    if waves > 1:
        workgroups["barriers"] = _BARRIERS
    granule = _LDS_GRANULE.get(target, _USUAL_LDS_GRANULE)
    if lds := round_up(resources.group_segment_size + dynamic_lds, granule):
        workgroups["lds"] = lds_bytes(target) // lds
    limit = min(workgroups, key=lambda name: workgroups[name])
    count = workgroups[limit]
    return Occupancy(workgroups=count, waves_per_simd=-(-count * waves // _SIMDS), limit=limit)
