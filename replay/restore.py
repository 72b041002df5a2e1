"""The memory of a bundle at its captured addresses: restore, snapshot, compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from asmevo.capture.bundle import Bundle
from asmevo.capture.manifest import Region, RegionKind
from asmevo.replay import layout
from asmevo.replay.address_hold import AddressTakenError, unmap
from asmevo.replay.compare import RegionComparer
from asmevo.replay.comparison import Comparison, GuardDifference, RegionFacts
from asmevo.replay.hip_runtime import HipFailure, HipRuntime, Kernel, PhysicalMemory
from asmevo.replay.numeric import Bytes
from asmevo.replay.pristine import PristineCopy
from asmevo.replay.restore_chunks import CHUNK_BYTES, Chunks
from asmevo.replay.rules import ElementRule

__all__ = ["MemoryImage", "RestoredMemory"]

# A result that depends on bytes outside every region differs between launches with the one and
# with the other.
_GUARD_PATTERNS = (0xA5, 0x5C)


class MemoryImage:
    """Contents of all regions: those of the pristine copy but for the chunks that differ."""

    def __init__(self, pristine: PristineCopy, changed: Mapping[tuple[int, int], Bytes]) -> None:
        """`changed` by region index and offset."""
        self._pristine = pristine
        self._changed = changed

    def chunks(self, region: Region) -> Chunks:
        """A region's content; the pristine copy must be mapped."""
        for offset in range(0, region.size_bytes, CHUNK_BYTES):
            content = self._changed.get((region.index, offset))
            if content is None:
                size = min(CHUNK_BYTES, region.size_bytes - offset)
                content = self._pristine.read(region, offset, size)
            yield offset, content


class RestoredMemory:
    """A bundle's regions in the memory of this process, and their contents before the dispatch."""

    def __init__(
        self,
        bundle: Bundle,
        runtime: HipRuntime,
        held: Iterable[layout.Mapping],
        old_image: tuple[int, int] | None = None,
    ) -> None:
        """Put memory behind the held addresses and take the contents from the bundle.

        Args:
            bundle: What to restore.
            runtime: The device.
            held: What was reserved for it.
            old_image: Where nothing in the contents may point: K0 is not there any more.

        Raises:
            AddressTakenError: Something is where a mapping must be.
            ReplayError: The contents point into the old image.
        """
        self.regions: Sequence[Region] = bundle.manifest.regions
        self._runtime = runtime
        self._pattern = 0
        for mapping in held:
            if mapping.memory is layout.Memory.DEVICE:
                unmap(mapping.address, mapping.size_bytes)
        self._mappings = layout.plan_mappings(
            self.regions, device_granularity=runtime.granularity_bytes()
        )
        self._private = self._place()
        self._places = {
            region.index: region.address
            for region in self.regions
            if region.kind is not RegionKind.MODULE_GLOBAL
        }
        self.pristine = PristineCopy(bundle, runtime, behind=self._private, old_image=old_image)

    def _place(self) -> list[tuple[layout.Mapping, PhysicalMemory]]:
        """Put memory behind all mappings; those that are copy-on-write."""
        runtime = self._runtime
        devices = [item for item in self._mappings if item.memory is layout.Memory.DEVICE]
        for mapping in devices:
            if not runtime.reserve_at(mapping.address, mapping.size_bytes):
                raise AddressTakenError(mapping.address, mapping.size_bytes)
        private = []
        for mapping in devices:
            memory = runtime.create_memory(mapping.size_bytes)
            if runtime.has_copy_on_write:
                private.append((mapping, memory))
            else:
                runtime.map_memory(mapping.address, memory)
        for mapping in self._mappings:
            if mapping.memory is not layout.Memory.DEVICE:
                runtime.register_host(mapping.address, mapping.size_bytes)
        return private

    def find_globals(self, kernel: Kernel) -> None:
        """Note where the loader put the module globals of a code object that is about to run.

        Raises:
            HipFailure: It has no such variable, or a smaller one.
        """
        for region in self.regions:
            if region.kind is not RegionKind.MODULE_GLOBAL:
                continue
            assert region.symbol is not None  # the engine refuses a bundle without
            address, size = kernel.find_global(region.symbol)
            if size < region.size_bytes:
                raise HipFailure(
                    f"{region.symbol} has {size} bytes, {region.size_bytes} were captured"
                )
            self._places[region.index] = address

    def restore(self, *, second_state: bool = False) -> None:
        """Bring everything to the state before the dispatch, guards to one of two patterns."""
        for mapping, memory in self._private:
            self._runtime.map_copy_on_write(mapping.address, memory)
        self.pristine.copy_to([(region, self._places[region.index]) for region in self.regions])
        self._pattern = int(second_state)
        for guard in self._guards():
            self._runtime.fill(guard.address, _GUARD_PATTERNS[self._pattern], guard.size_bytes)

    def snapshot(self) -> MemoryImage:
        """The present contents of all regions."""
        changed = {}
        with self.pristine.mapped():
            for region in self.regions:
                pairs = zip(self.pristine.chunks(region), self.chunks(region), strict=True)
                for (offset, expected), (_, actual) in pairs:
                    if not np.array_equal(actual, expected):
                        changed[region.index, offset] = actual.copy()
        return MemoryImage(self.pristine, changed)

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
        with self.pristine.mapped():
            for region in self.regions:
                chunks = expected(region)
                if chunks is None:
                    continue
                comparer = RegionComparer(facts[region.index], rule(region.index))
                place = self._places[region.index]
                for offset, chunk in chunks:
                    comparer.feed(offset, chunk, self._runtime.look_at(place + offset, chunk.size))
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
        """The present content of a region, each piece of which is there until the next launch."""
        for offset in range(0, region.size_bytes, CHUNK_BYTES):
            size = min(CHUNK_BYTES, region.size_bytes - offset)
            yield offset, self._runtime.look_at(self._places[region.index] + offset, size)

    def find_guard_difference(self) -> GuardDifference | None:
        """The first guard byte that the launch changed."""
        first, count = None, 0
        for guard in self._guards():
            actual = self._runtime.look_at(guard.address, guard.size_bytes)
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
