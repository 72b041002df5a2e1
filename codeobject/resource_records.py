"""What kernels use and what they are given: registers, LDS and scratch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from asmevo.codeobject.code_object import Kernel
from asmevo.codeobject.memory_use import MemoryUse
from asmevo.codeobject.register_use import RegisterUse
from asmevo.errors import CodeObjectError

__all__ = [
    "SGPR_GRANULE",
    "VGPR_GRANULE",
    "CodeNeed",
    "ResourceRefusal",
    "Resources",
    "declared_resources",
    "granules",
    "lds_bytes",
    "round_up",
]

VGPR_GRANULE: Final = 8
SGPR_GRANULE: Final = 16
_LDS_BYTES: Final = {"gfx950": 160 << 10}
_USUAL_LDS_BYTES: Final = 64 << 10


class ResourceRefusal(CodeObjectError):
    """What a kernel needs after an edit cannot be told, or no hardware has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a kernel is given."""

    accum_offset: int
    """First AGPR in the unified file, and how many VGPRs there are before it."""
    allocated_vgprs: int
    """VGPRs and AGPRs of a lane, with the gap between them."""
    allocated_sgprs: int
    group_segment_size: int
    private_segment_size: int

    @property
    def allocated_agprs(self) -> int:
        """AGPRs of a lane."""
        return max(0, self.allocated_vgprs - self.accum_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeNeed:
    """What the code of a kernel and of the functions that it calls uses."""

    registers: RegisterUse
    memory: MemoryUse
    sgprs: int
    """Numbered SGPRs and the special ones behind them."""

    @property
    def accum_offset(self) -> int:
        """Least start of the AGPRs."""
        return round_up(max(1, self.registers.vgprs), 4)


def declared_resources(kernel: Kernel) -> Resources:
    """What the descriptor of a kernel gives it."""
    fields = kernel.fields
    return Resources(
        accum_offset=fields.accum_offset,
        allocated_vgprs=fields.allocated_vgprs,
        allocated_sgprs=round_up(fields.allocated_sgprs, SGPR_GRANULE),
        group_segment_size=fields.group_segment_size,
        private_segment_size=fields.private_segment_size,
    )


def granules(count: int, granule: int) -> int:
    """Registers that are allocated for `count`: at least one granule."""
    return round_up(max(1, count), granule)


def round_up(value: int, granule: int) -> int:
    """The next multiple of `granule`."""
    return -(-value // granule) * granule


def lds_bytes(target: str) -> int:
    """LDS of a compute unit, and the most that one workgroup may have."""
    return _LDS_BYTES.get(target, _USUAL_LDS_BYTES)
