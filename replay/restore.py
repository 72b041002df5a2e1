"""The memory of a bundle at its captured addresses: restore, snapshot, compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from asmevo.capture.bundle import Bundle, Moment
from asmevo.capture.manifest import Region
from asmevo.replay import layout
from asmevo.replay.address_hold import AddressTakenError, unmap
from asmevo.replay.compare import Bytes, RegionComparer
from asmevo.replay.hip_runtime import HipRuntime
from asmevo.replay.records import Comparison, GuardDifference, RegionFacts

__all__ = ["Chunks", "MemoryImage", "RestoredMemory", "read_chunks"]

_CHUNK_BYTES = 4 << 20
# Launches alternate between the two, so that a result which depends on bytes outside every region
# differs between launches.
_GUARD_PATTERNS = (0xA5, 0x5C)

Chunks = Iterator[tuple[int, Bytes]]


def read_chunks(pieces: Iterable[bytes]) -> Chunks:
    """Cut a stream into chunks at multiples of eight bytes, each with its offset."""
    offset, rest = 0, b""
    for piece in pieces:
        data = rest + piece if rest else piece
        size = len(data) // 8 * 8
        rest = data[size:]
        if size:
            yield offset, np.frombuffer(data, dtype=np.uint8, count=size)
            offset += size
    if rest:
        yield offset, np.frombuffer(rest, dtype=np.uint8)


class MemoryImage:
    """Contents of all regions: those of a base image but for the chunks that differ from it."""

    def __init__(self, base: Mapping[int, Bytes], changed: Mapping[tuple[int, int], Bytes]) -> None:
        """`base` by region index; `changed` by region index and offset."""
        self._base = base
        self._changed = changed

    def chunks(self, region: Region) -> Chunks:
        """A region's content."""
        content = self._base[region.index]
        for offset in range(0, content.size, _CHUNK_BYTES):
            changed = self._changed.get((region.index, offset))
            yield offset, content[offset : offset + _CHUNK_BYTES] if changed is None else changed


class RestoredMemory:
    """A bundle's regions in the memory of this process, and their contents before the dispatch."""

    def __init__(self, bundle: Bundle, runtime: HipRuntime, held: Iterable[layout.Mapping]) -> None:
        """Put memory behind the held addresses and read the contents from the bundle.

        Raises:
            AddressTakenError: Something is where a mapping must be.
        """
        self.regions: Sequence[Region] = bundle.manifest.regions
        self._bundle, self._runtime = bundle, runtime
        self._pattern = 0
        for mapping in held:
            if mapping.memory is layout.Memory.DEVICE:
                unmap(mapping.address, mapping.size_bytes)
        self._mappings = layout.plan_mappings(
            self.regions, device_granularity=runtime.granularity_bytes()
        )
        self._place()
        self._pristine = {region.index: self._load(region) for region in self.regions}

    def _place(self) -> None:
        runtime = self._runtime
        devices = [item for item in self._mappings if item.memory is layout.Memory.DEVICE]
        for mapping in devices:
            if not runtime.reserve_at(mapping.address, mapping.size_bytes):
                raise AddressTakenError(mapping.address, mapping.size_bytes)
        for mapping in devices:
            runtime.back(mapping.address, mapping.size_bytes)
        for mapping in self._mappings:
            if mapping.memory is not layout.Memory.DEVICE:
                runtime.register_host(mapping.address, mapping.size_bytes)

    def _load(self, region: Region) -> Bytes:
        content = np.empty(region.size_bytes, dtype=np.uint8)
        for offset, chunk in read_chunks(self._bundle.region_chunks(region, Moment.BEFORE)):
            content[offset : offset + chunk.size] = chunk
        return content

    def restore(self) -> None:
        """Bring everything to the state before the dispatch, guards to the other pattern."""
        for region in self.regions:
            content = self._pristine[region.index]
            for offset in range(0, content.size, _CHUNK_BYTES):
                chunk = content[offset : offset + _CHUNK_BYTES]
                self._runtime.write(region.address + offset, chunk)
        self._pattern = (self._pattern + 1) % len(_GUARD_PATTERNS)
        for guard in self._guards():
            fill = np.full(guard.size_bytes, _GUARD_PATTERNS[self._pattern], dtype=np.uint8)
            self._runtime.write(guard.address, fill)

    def snapshot(self) -> MemoryImage:
        """The present contents of all regions."""
        changed = {}
        for region in self.regions:
            pristine = self._pristine[region.index]
            for offset in range(0, pristine.size, _CHUNK_BYTES):
                expected = pristine[offset : offset + _CHUNK_BYTES]
                actual = self._read(region.address + offset, expected.size)
                if not np.array_equal(actual, expected):
                    changed[region.index, offset] = actual
        return MemoryImage(self._pristine, changed)

    def compare(
        self,
        expected: Callable[[Region], Chunks | None],
        facts: Mapping[int, RegionFacts],
        *,
        against: str,
    ) -> Comparison:
        """Compare the present contents with expected ones, and the guards with their pattern.

        Args:
            expected: the content of a region, None for one that is not compared.
            facts: what to say about each region.
            against: what the expected contents are.
        """
        differences, regions, size = [], 0, 0
        for region in self.regions:
            chunks = expected(region)
            if chunks is None:
                continue
            comparer = RegionComparer(facts[region.index])
            for offset, chunk in chunks:
                comparer.feed(offset, chunk, self._read(region.address + offset, chunk.size))
            regions += 1
            size += region.size_bytes
            if (difference := comparer.finish()) is not None:
                differences.append(difference)
        return Comparison(
            against=against,
            regions=regions,
            bytes_compared=size,
            guard_bytes=sum(guard.size_bytes for guard in self._guards()),
            differences=tuple(differences),
            guard_difference=self._check_guards(),
        )

    def _check_guards(self) -> GuardDifference | None:
        first, count = None, 0
        for guard in self._guards():
            actual = self._read(guard.address, guard.size_bytes)
            changed = np.flatnonzero(actual != _GUARD_PATTERNS[self._pattern])
            count += changed.size
            if changed.size and first is None:
                address = guard.address + int(changed[0])
                first = (address, guard.region, address - guard.edge)
        if first is None:
            return None
        address, region, distance = first
        return GuardDifference(
            address=address, nearest_region=region, distance=distance, differing_bytes=count
        )

    def _guards(self) -> Iterator[layout.Guard]:
        for mapping in self._mappings:
            yield from mapping.guards()

    def _read(self, address: int, size_bytes: int) -> Bytes:
        content = np.empty(size_bytes, dtype=np.uint8)
        self._runtime.read(address, content)
        return content
