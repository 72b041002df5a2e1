"""Contents from before the dispatch, kept on the device, where no launch can reach them.

The copy is mapped while memory is restored or compared with it, and nowhere while a kernel runs: a
candidate's stray store cannot change what the next one starts from.

On a GPU it is a copy of its own. The emulated device can map memory copy-on-write: there the memory
behind a mapping is itself the copy, and restoring means mapping it anew, which takes back whatever
was stored. Contents are then in memory once, and restoring costs what a launch changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from asmevo.capture.bundle import Bundle, Moment
from asmevo.capture.manifest import Region
from asmevo.errors import ReplayError
from asmevo.replay.hip_runtime import HipRuntime, PhysicalMemory
from asmevo.replay.layout import Mapping
from asmevo.replay.numeric import Bytes
from asmevo.replay.restore_chunks import CHUNK_BYTES, Chunks, read_chunks

__all__ = ["PristineCopy"]

_ALIGNMENT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Memory that holds the contents of some regions, and the addresses where it is mapped."""

    memory: PhysicalMemory
    window: int


class PristineCopy:
    """The `before` contents of all regions of a bundle."""

    def __init__(
        self,
        bundle: Bundle,
        runtime: HipRuntime,
        *,
        behind: Sequence[tuple[Mapping, PhysicalMemory]] = (),
        old_image: tuple[int, int] | None = None,
    ) -> None:
        """Stream them from the bundle to the device.

        Args:
            bundle: Where they are.
            runtime: The device.
            behind: Mappings that are copy-on-write, and the memory behind each.
            old_image: Where nothing in the contents may point: K0 is not there any more.

        Raises:
            ReplayError: They point into the old image of K0.
        """
        self._runtime = runtime
        self._parts: list[_Part] = []
        self._places: dict[int, int] = {}
        self._behind: set[int] = set()
        self._depth = 0
        for mapping, memory in behind:
            window = self._add_part(memory)
            for region in mapping.regions:
                self._places[region.index] = window + region.address - mapping.address
                self._behind.add(region.index)
        self._add_copies([one for one in bundle.manifest.regions if one.index not in self._behind])
        with self.mapped():
            for region in bundle.manifest.regions:
                self._load(bundle, region, old_image)

    def _add_part(self, memory: PhysicalMemory) -> int:
        window = self._runtime.reserve(memory.size_bytes)
        self._parts.append(_Part(memory=memory, window=window))
        return window

    def _add_copies(self, regions: Sequence[Region]) -> None:
        """One part for the regions whose contents have no memory yet."""
        offsets, end = {}, 0
        for region in regions:
            offsets[region.index] = end
            end += -(-region.size_bytes // _ALIGNMENT) * _ALIGNMENT
        if not offsets:
            return
        granule = self._runtime.granularity_bytes()
        window = self._add_part(self._runtime.create_memory(-(-end // granule) * granule))
        self._places |= {index: window + offset for index, offset in offsets.items()}

    def _load(self, bundle: Bundle, region: Region, old_image: tuple[int, int] | None) -> None:
        for offset, chunk in read_chunks(bundle.region_chunks(region, Moment.BEFORE)):
            if old_image is not None:
                _refuse_pointers(region, offset, chunk, old_image)
            self._runtime.write(self._places[region.index] + offset, chunk)

    @contextmanager
    def mapped(self) -> Iterator[None]:
        """Within it the copy has addresses; may be nested."""
        if self._depth == 0:
            for part in self._parts:
                self._runtime.map_memory(part.window, part.memory)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                for part in self._parts:
                    self._runtime.unmap_memory(part.window, part.memory)

    def copy_to(self, places: Sequence[tuple[Region, int]]) -> None:
        """Bring the contents of regions to these addresses, where they are not behind them."""
        copied = [(region, place) for region, place in places if region.index not in self._behind]
        if not copied:
            return
        with self.mapped():
            for region, place in copied:
                self._runtime.copy(place, self._places[region.index], region.size_bytes)

    def read(self, region: Region, offset: int, size_bytes: int) -> Bytes:
        """A piece of a region's content, which is there while the copy is mapped."""
        return self._runtime.look_at(self._places[region.index] + offset, size_bytes)

    def chunks(self, region: Region) -> Chunks:
        """A region's content, each piece of which is there while the copy is mapped."""
        for offset in range(0, region.size_bytes, CHUNK_BYTES):
            yield offset, self.read(region, offset, min(CHUNK_BYTES, region.size_bytes - offset))


def _refuse_pointers(region: Region, offset: int, content: Bytes, image: tuple[int, int]) -> None:
    """Words at multiples of eight bytes of the program's addresses, as pointers stand."""
    skipped = -(region.address + offset) % 8
    words = content[skipped : skipped + (content.size - skipped) // 8 * 8].view("<u8")
    inside = np.flatnonzero((words >= np.uint64(image[0])) & (words < np.uint64(image[1])))
    if inside.size:
        at = offset + skipped + 8 * int(inside[0])
        raise ReplayError(
            f"region {region.index} points into K0's old image (0x{int(words[inside[0]]):x} at "
            f"offset {at}): the loader puts K0 elsewhere, so it cannot be replayed"
        )
