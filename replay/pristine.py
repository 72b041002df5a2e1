"""Contents from before the dispatch, kept on the device, where no launch can reach them.

The copy is mapped while memory is restored or compared with it, and nowhere while a kernel runs: a
candidate's stray store cannot change what the next one starts from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from asmevo.capture.bundle import Bundle, Moment
from asmevo.capture.manifest import Region
from asmevo.errors import ReplayError
from asmevo.replay.hip_runtime import HipRuntime, PhysicalMemory
from asmevo.replay.numeric import Bytes
from asmevo.replay.restore_chunks import CHUNK_BYTES, Chunks, read_chunks

__all__ = ["PristineCopy"]

_ALIGNMENT = 256


class PristineCopy:
    """The `before` contents of all regions of a bundle."""

    def __init__(
        self, bundle: Bundle, runtime: HipRuntime, old_image: tuple[int, int] | None = None
    ) -> None:
        """Stream them from the bundle to the device.

        Raises:
            ReplayError: They point into the old image of K0.
        """
        self._old_image = old_image
        self._runtime = runtime
        self._offsets: dict[int, int] = {}
        end = 0
        for region in bundle.manifest.regions:
            self._offsets[region.index] = end
            end += -(-region.size_bytes // _ALIGNMENT) * _ALIGNMENT
        granule = runtime.granularity_bytes()
        size = max(1, -(-end // granule)) * granule
        self._memory: PhysicalMemory = runtime.create_memory(size)
        self._address = runtime.reserve(size)
        self._depth = 0
        with self.mapped():
            for region in bundle.manifest.regions:
                self._load(bundle, region)

    def _load(self, bundle: Bundle, region: Region) -> None:
        for offset, chunk in read_chunks(bundle.region_chunks(region, Moment.BEFORE)):
            if self._old_image is not None:
                _refuse_pointers(region, offset, chunk, self._old_image)
            self._runtime.write(self._place(region) + offset, chunk)

    def _place(self, region: Region) -> int:
        return self._address + self._offsets[region.index]

    @contextmanager
    def mapped(self) -> Iterator[None]:
        """Within it the copy has an address; may be nested."""
        if self._depth == 0:
            self._runtime.map_memory(self._address, self._memory)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._runtime.unmap_memory(self._address, self._memory)

    def copy_to(self, regions: Sequence[tuple[Region, int]]) -> None:
        """Bring the contents of regions to these addresses."""
        with self.mapped():
            for region, address in regions:
                self._runtime.copy(address, self._place(region), region.size_bytes)

    def read(self, region: Region, offset: int, size_bytes: int) -> Bytes:
        """A piece of a region's content; the copy must be mapped."""
        content = np.empty(size_bytes, dtype=np.uint8)
        self._runtime.read(self._place(region) + offset, content)
        return content

    def chunks(self, region: Region) -> Chunks:
        """A region's content; the copy must be mapped."""
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
