"""Which mappings hold the regions of a bundle, and what of them is left around the regions.

Mappings come in whole granules, regions do not: regions that share a granule share a mapping, and
the bytes of a mapping that belong to no region are guards, filled with a pattern that a launch must
leave alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from asmevo.capture.manifest import Region, RegionKind
from asmevo.errors import ReplayError

__all__ = ["PAGE_BYTES", "Guard", "Mapping", "Memory", "plan_hold", "plan_mappings"]

PAGE_BYTES = 4096
_DEVICE_GRANULE_BYTES = 2 << 20
"""What ROCm's runtime maps device memory in."""
_ADDRESS_END = 1 << 64


class Memory(StrEnum):
    """What a mapping is made of."""

    DEVICE = "device"
    PINNED = "pinned"
    PAGEABLE = "pageable"


_MEMORY_OF_KIND = {
    RegionKind.DEVICE: Memory.DEVICE,
    RegionKind.MANAGED: Memory.DEVICE,
    RegionKind.PINNED_HOST: Memory.PINNED,
    RegionKind.PAGEABLE_HOST: Memory.PAGEABLE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Bytes of a mapping outside every region."""

    address: int
    size_bytes: int
    region: int
    """The region that it follows, or, at a mapping's start, precedes."""
    edge: int
    """Where that region ends, or, for a guard before it, starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """A contiguous range of whole granules, and the regions in it in ascending order."""

    address: int
    size_bytes: int
    memory: Memory
    regions: tuple[Region, ...]

    @property
    def end(self) -> int:
        """The first address after it."""
        return self.address + self.size_bytes

    def guards(self) -> tuple[Guard, ...]:
        """The parts outside its regions."""
        found = []
        first = self.regions[0]
        if first.address > self.address:
            found.append(
                Guard(
                    address=self.address,
                    size_bytes=first.address - self.address,
                    region=first.index,
                    edge=first.address,
                )
            )
        ends = [region.address for region in self.regions[1:]] + [self.end]
        for region, end in zip(self.regions, ends, strict=True):
            start = region.address + region.size_bytes
            if start < end:
                found.append(
                    Guard(
                        address=start,
                        size_bytes=end - start,
                        region=region.index,
                        edge=start,
                    )
                )
        return tuple(found)


def plan_hold(regions: Sequence[Region]) -> tuple[Mapping, ...]:
    """The mappings to reserve before the runtime says how large its granules are.

    Raises:
        ReplayError: The regions cannot be mapped at all.
    """
    try:
        return plan_mappings(regions, device_granularity=_DEVICE_GRANULE_BYTES)
    except ReplayError:  # two kinds of memory in a large granule: fine where granules are pages
        return plan_mappings(regions, device_granularity=PAGE_BYTES)


def plan_mappings(regions: Sequence[Region], *, device_granularity: int) -> tuple[Mapping, ...]:
    """The mappings that hold all regions, ascending; device memory in granules of the given size.

    Module globals are not among them: they are where the loader puts them.

    Raises:
        ReplayError: Two kinds of memory share a granule, or a region has no place.
    """
    planned: list[Mapping] = []
    for region in sorted(regions, key=lambda region: region.address):
        if region.kind is RegionKind.MODULE_GLOBAL:
            continue
        memory = _MEMORY_OF_KIND[region.kind]
        granule = device_granularity if memory is Memory.DEVICE else PAGE_BYTES
        start = region.address // granule * granule
        end = -(-(region.address + region.size_bytes) // granule) * granule
        if end > _ADDRESS_END:
            raise ReplayError(f"region {region.index} ends beyond the address space")
        if not planned or planned[-1].end <= start:
            planned.append(
                Mapping(address=start, size_bytes=end - start, memory=memory, regions=(region,))
            )
            continue
        last = planned[-1]
        if last.memory is not memory:
            raise ReplayError(
                f"regions {last.regions[-1].index} ({last.memory}) and {region.index} ({memory}) "
                f"share a granule of {granule} bytes at 0x{start:x}"
            )
        planned[-1] = Mapping(
            address=last.address,
            size_bytes=max(last.end, end) - last.address,
            memory=memory,
            regions=(*last.regions, region),
        )
    return tuple(planned)
