"""Times a candidate against K0 on a GPU: in turns, under the same conditions.

Both are launched on restored memory. Clocks, temperature and other users of the machine change both
alike when launches alternate, so that what counts is how the two compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from asmevo.replay.hip_runtime import HipRuntime, Kernel
from asmevo.replay.launcher import Launcher
from asmevo.replay.options import CacheState, OracleOptions
from asmevo.replay.restore import RestoredMemory

__all__ = ["PairTimes", "Timer"]

_FLUSH_BYTES = 512 << 20
"""More than the L2s and the Infinity Cache of an MI300X (8 x 4 MiB and 256 MiB) hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTimes:
    """Event times in milliseconds, in the order of the launches."""

    k0_ms: tuple[float, ...]
    candidate_ms: tuple[float, ...]


class Timer:
    """Times pairs of kernels on one restored bundle."""

    def __init__(
        self,
        runtime: HipRuntime,
        memory: RestoredMemory,
        launcher: Launcher,
        options: OracleOptions,
    ) -> None:
        """Nothing is launched yet."""
        self._runtime, self._memory, self._launcher = runtime, memory, launcher
        self._options = options

    def time_pair(self, k0: Kernel, candidate: Kernel) -> PairTimes:
        """Warm both up, then launch them by turns; who is first alternates as well."""
        times: dict[bool, list[float]] = {False: [], True: []}
        with self._flusher() as flush:
            for round_number in range(self._options.warm_up + self._options.timing_rounds):
                for is_candidate in (round_number % 2 == 1, round_number % 2 == 0):
                    kernel = candidate if is_candidate else k0
                    self._memory.find_globals(kernel)
                    self._memory.restore()
                    flush()
                    time_ms = self._launcher.time(kernel)
                    if round_number >= self._options.warm_up:
                        times[is_candidate].append(time_ms)
        return PairTimes(k0_ms=tuple(times[False]), candidate_ms=tuple(times[True]))

    @contextmanager
    def _flusher(self) -> Iterator[Callable[[], None]]:
        """What empties the caches before a launch; nothing when they are to be warm."""
        if self._options.caches is CacheState.WARM:
            yield lambda: None
            return
        memory = self._runtime.create_memory(_FLUSH_BYTES)
        address = self._runtime.reserve(_FLUSH_BYTES)
        self._runtime.map_memory(address, memory)
        try:
            yield lambda: self._runtime.fill(address, 0, _FLUSH_BYTES)
        finally:
            self._runtime.unmap_memory(address, memory)
            self._runtime.release(address, memory)
