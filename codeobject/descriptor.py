"""The 64-byte kernel descriptor (`amdhsa::kernel_descriptor_t`, LLVM AMDGPUUsage "Kernel
Descriptor")."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from asmevo.errors import CodeObjectError

__all__ = ["DESCRIPTOR_BYTES", "PRELOAD_PROLOGUE_BYTES", "KernelDescriptor"]

DESCRIPTOR_BYTES: Final = 64
# Firmware with kernarg preload enters 256 bytes behind the entry, older firmware runs the loads
# before it.
PRELOAD_PROLOGUE_BYTES: Final = 256
_LAYOUT: Final = struct.Struct("<IIIIq20sIIIHHI")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelDescriptor:
    """The descriptor's words as they stand, and the derived values that several stages want."""

    group_segment_size: int
    private_segment_size: int
    kernarg_size: int
    entry_offset: int
    """Signed distance from the descriptor to the kernel's first instruction."""
    rsrc1: int
    rsrc2: int
    rsrc3: int
    properties: int
    preload: int
    has_reserved_bits: bool
    """True when reserved bytes are not zero."""

    @classmethod
    def parse(cls, data: bytes) -> KernelDescriptor:
        """Read the 64 bytes of a descriptor."""
        if len(data) != DESCRIPTOR_BYTES:
            raise CodeObjectError(f"kernel descriptor of {len(data)} bytes instead of 64")
        (
            group,
            private,
            kernarg,
            gap0,
            entry,
            gap1,
            rsrc3,
            rsrc1,
            rsrc2,
            properties,
            preload,
            gap2,
        ) = _LAYOUT.unpack(data)
        return cls(
            group_segment_size=group,
            private_segment_size=private,
            kernarg_size=kernarg,
            entry_offset=entry,
            rsrc1=rsrc1,
            rsrc2=rsrc2,
            rsrc3=rsrc3,
            properties=properties,
            preload=preload,
            has_reserved_bits=bool(gap0 or any(gap1) or gap2),
        )

    @property
    def preload_length(self) -> int:
        """Kernarg dwords that the firmware loads into SGPRs; 0 without preload."""
        return self.preload & 0x7F

    @property
    def preload_offset(self) -> int:
        """First preloaded kernarg dword."""
        return self.preload >> 7

    @property
    def user_sgpr_count(self) -> int:
        """SGPRs that are set before the wave starts."""
        return self.rsrc2 >> 1 & 0x1F

    @property
    def initial_sgpr_count(self) -> int:
        """SGPRs that hold something when the wave starts: user SGPRs, workgroup ids, workgroup
        info and the scratch offset; preloaded arguments are user SGPRs."""
        return self.user_sgpr_count + (self.rsrc2 >> 7 & 0xF).bit_count() + (self.rsrc2 & 1)

    @property
    def enables_private_segment(self) -> bool:
        """True when scratch is set up for the wave."""
        return bool(self.rsrc2 & 1)

    @property
    def uses_dynamic_stack(self) -> bool:
        """True when the size of the private segment is not all that the code may use."""
        return bool(self.properties >> 11 & 1)

    @property
    def accum_offset(self) -> int:
        """First AGPR in the unified register file of gfx90a and gfx94x, 4 to 256."""
        return ((self.rsrc3 & 0x3F) + 1) * 4

    @property
    def allocated_vgprs(self) -> int:
        """VGPRs and AGPRs allocated per lane on gfx90a, gfx942 and gfx950 (granule 8)."""
        return ((self.rsrc1 & 0x3F) + 1) * 8

    @property
    def allocated_sgprs(self) -> int:
        """SGPRs that the descriptor asks for: gfx9's granules of 8, which hardware rounds up to
        16."""
        return ((self.rsrc1 >> 6 & 0xF) + 1) * 8
