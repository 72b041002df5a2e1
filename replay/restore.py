"""The memory of a bundle at its captured addresses: restore, snapshot, compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from asmevo.capture.bundle import Bundle, Moment
from asmevo.capture.manifest import Region
from asmevo.replay import layout
from asmevo.replay.address_hold import AddressTakenError, unmap
from asmevo.replay.compare import RegionComparer
from asmevo.replay.comparison import Comparison, GuardDifference, RegionFacts
from asmevo.replay.hip_runtime import HipRuntime
from asmevo.replay.numeric import Bytes
from asmevo.replay.rules import ElementRule

__all__ = ["CHUNK_BYTES", "Chunks", "MemoryImage", "RestoredMemory", "read_chunks"]

CHUNK_BYTES = 4 << 20
"""Memory is compared and kept in chunks of this size."""
# A result that depends on bytes outside every region differs between launches with the one and
# with the other.
_GUARD_PATTERNS = (0xA5, 0x5C)

Chunks = Iterator[tuple[int, Bytes]]


def read_chunks(pieces: Iterable[bytes], *, size_bytes: int = CHUNK_BYTES) -> Chunks:
    """Cut a stream into chunks of one size, each with its offset; the last may be shorter."""
    offset, rest = 0, bytearray()
    for piece in pieces:
        rest += piece
        while len(rest) >= size_bytes:
            yield offset, np.frombuffer(bytes(rest[:size_bytes]), dtype=np.uint8)
            del rest[:size_bytes]
            offset += size_bytes
    if rest:
        yield offset, np.frombuffer(bytes(rest), dtype=np.uint8)


class MemoryImage:
    """Contents of all regions: those of a base image but for the chunks that differ from it."""

    def __init__(self, base: Mapping[int, Bytes], changed: Mapping[tuple[int, int], Bytes]) -> None:
        """`base` by region index; `changed` by region index and offset."""
        self._base = base
        self._changed = changed

    def chunks(self, region: Region) -> Chunks:
        """A region's content."""
        content = self._base[region.index]
        for offset in range(0, content.size, CHUNK_BYTES):
            changed = self._changed.get((region.index, offset))
            yield offset, content[offset : offset + CHUNK_BYTES] if changed is None else changed


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

    def restore(self, *, second_state: bool = False) -> None:
        """Bring everything to the state before the dispatch, guards to one of two patterns."""
        for region in self.regions:
            content = self._pristine[region.index]
            for offset in range(0, content.size, CHUNK_BYTES):
                chunk = content[offset : offset + CHUNK_BYTES]
                self._runtime.write(region.address + offset, chunk)
        self._pattern = int(second_state)
        for guard in self._guards():
            fill = np.full(guard.size_bytes, _GUARD_PATTERNS[self._pattern], dtype=np.uint8)
            self._runtime.write(guard.address, fill)

    def snapshot(self) -> MemoryImage:
        """The present contents of all regions."""
        changed = {}
        for region in self.regions:
            pristine = self._pristine[region.index]
            for offset in range(0, pristine.size, CHUNK_BYTES):
                expected = pristine[offset : offset + CHUNK_BYTES]
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
        launch: str = "",
        rule: Callable[[int], ElementRule | None] = lambda _: None,
        guards: bool = True,
    ) -> Comparison:
        """Compare the present contents with expected ones, and the guards with their pattern.

        Args:
            expected: the content of a region, None for one that is not compared.
            facts: what to say about each region.
            against: what the expected contents are.
            launch: how the launch differed from the usual one.
            rule: by region index; byte-exact where None.
            guards: whether to compare them.
        """
        differences, outcomes = [], []
        for region in self.regions:
            chunks = expected(region)
            if chunks is None:
                continue
            comparer = RegionComparer(facts[region.index], rule(region.index))
            for offset, chunk in chunks:
                comparer.feed(offset, chunk, self._read(region.address + offset, chunk.size))
            outcomes.append(comparer.outcome())
            if (difference := comparer.finish()) is not None:
                differences.append(difference)
        return Comparison(
            against=against,
            launch=launch,
            outcomes=tuple(outcomes),
            guard_bytes=sum(guard.size_bytes for guard in self._guards()) if guards else 0,
            differences=tuple(differences),
            guard_difference=self.find_guard_difference() if guards else None,
        )

    def chunks(self, region: Region) -> Chunks:
        """The present content of a region."""
        for offset in range(0, region.size_bytes, CHUNK_BYTES):
            size = min(CHUNK_BYTES, region.size_bytes - offset)
            yield offset, self._read(region.address + offset, size)

    def find_guard_difference(self) -> GuardDifference | None:
        """The first guard byte that the launch changed."""
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
