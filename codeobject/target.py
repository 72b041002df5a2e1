"""Names of AMDGPU processors and how ELF headers and target ids spell them."""

from __future__ import annotations

import re
from typing import Final

from asmevo.errors import UsageError

__all__ = [
    "ELF_MACHINE_AMDGPU",
    "HAS_ARCHITECTED_FLAT_SCRATCH",
    "HAS_UNIFIED_REGISTERS",
    "MACHINES",
    "elf_flags",
    "feature_state",
    "minimum_llvm",
    "parse_target_id",
    "target_id",
]

ELF_MACHINE_AMDGPU: Final = 224

# EF_AMDGPU_MACH_AMDGCN_*, LLVM AMDGPUUsage "AMDGPU e_flags".
MACHINES: Final[dict[int, str]] = {
    0x2C: "gfx900",
    0x2F: "gfx906",
    0x30: "gfx908",
    0x3F: "gfx90a",
    0x40: "gfx940",
    0x4B: "gfx941",
    0x4C: "gfx942",
    0x4F: "gfx950",
    0x36: "gfx1030",
    0x41: "gfx1100",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x44: "gfx1103",
    0x48: "gfx1200",
    0x4E: "gfx1201",
}

HAS_ARCHITECTED_FLAT_SCRATCH: Final = ("gfx940", "gfx941", "gfx942", "gfx950")
"""Processors whose hardware sets FLAT_SCRATCH up."""
HAS_UNIFIED_REGISTERS: Final = ("gfx90a", *HAS_ARCHITECTED_FLAT_SCRATCH)
"""Processors with VGPRs and AGPRs in one file, parted by accum_offset."""

# First LLVM that knows the processor well enough for recovery; older ones print and encode some
# forms differently.
_MINIMUM_LLVM: Final[dict[str, int]] = {"gfx950": 20, "gfx1200": 20, "gfx1201": 20}
_DEFAULT_MINIMUM_LLVM: Final = 19

_FEATURE_STATES: Final = ("unsupported", "any", "off", "on")
_TARGET_ID = re.compile(r"(gfx[0-9a-f]{3,4})((?::(?:xnack|sramecc)[+-])*)")


def minimum_llvm(processor: str) -> int:
    """Major version of the oldest LLVM that serves `processor`."""
    return _MINIMUM_LLVM.get(processor, _DEFAULT_MINIMUM_LLVM)


def feature_state(flags: int, *, shift: int) -> str:
    """Two-bit feature field of `e_flags` (code object v4 and later): xnack at bit 8, sramecc at bit
    10."""
    return _FEATURE_STATES[flags >> shift & 3]


def target_id(processor: str, *, sramecc: str, xnack: str) -> str:
    """`gfx942:sramecc+:xnack-`, leaving out what is not fixed."""
    signs = {"on": "+", "off": "-"}
    parts = [processor]
    parts += [f"sramecc{signs[sramecc]}"] if sramecc in signs else []
    parts += [f"xnack{signs[xnack]}"] if xnack in signs else []
    return ":".join(parts)


def parse_target_id(arch: str) -> tuple[str, tuple[str, ...]]:
    """Split a target id into processor and features (`("gfx942", ("sramecc+", "xnack-"))`)."""
    match = _TARGET_ID.fullmatch(arch)
    if match is None or match[1] not in MACHINES.values():
        raise UsageError(
            f"unknown architecture {arch[:60]!r}",
            hint="for example gfx942 or gfx942:sramecc+:xnack-",
        )
    return match[1], tuple(match[2].split(":")[1:])


def elf_flags(processor: str) -> int:
    """`e_flags` of an object for `processor` with both features "any"."""
    machine = next(number for number, name in MACHINES.items() if name == processor)
    return machine | 0x100 | 0x400
