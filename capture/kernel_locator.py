"""Which code object does a launched function come from?

The runtime tells a function's name and a few attributes, not its code object, and one name is
commonly loaded several times: Triton compiles a kernel for each set of constants. What name and
attributes leave open is decided by looking into the function object itself, which leads to the
address of its kernel descriptor in a few steps. No answer is better than a wrong one: what stays
ambiguous is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from asmevo.capture.loaded_objects import LoadedKernel
from asmevo.capture.target_process import ProcessMemory
from asmevo.errors import CaptureError

__all__ = ["locate_kernel"]

# Bytes of each structure that are looked into. The narrowest view that shows a descriptor decides:
# a wide one runs on into whatever the heap has put behind the structure.
_VIEW_BYTES = (128, 256, 512, 1024)
_MAX_DEPTH = 4
_MAX_STRUCTURES = 4096

# hipFunction_attribute: max threads per block, shared size, local size, registers.
MAX_THREADS, SHARED_SIZE, LOCAL_SIZE, REGISTERS = 0, 1, 3, 4


def locate_kernel(
    candidates: Sequence[LoadedKernel],
    *,
    function: int,
    attributes: Mapping[int, int],
    memory: ProcessMemory,
    needs_address: bool = False,
) -> LoadedKernel:
    """Choose the loaded kernel behind a `hipFunction_t`.

    Args:
        candidates: Loaded kernels with the function's name.
        function: The handle, an address in the target; 0 if there is none.
        attributes: What hipFuncGetAttribute answered, by attribute number.
        memory: The target's memory.
        needs_address: Of equal code loaded several times it must be the right one: it has
            variables.

    Raises:
        CaptureError: There is none, or several with different code are possible.
    """
    if not candidates:
        raise CaptureError("no loaded code object defines it")
    fitting = [one for one in candidates if _fits(one, attributes)] or list(candidates)
    if len(fitting) > 1 and (needs_address or len(_contents(fitting)) > 1) and function:
        addresses = {one.descriptor_address: one for one in fitting if one.is_placed}
        found = next(
            filter(None, (_search(memory, function, addresses, n) for n in _VIEW_BYTES)), ()
        )
        fitting = [addresses[address] for address in found]
    if len(_contents(fitting)) != 1:
        raise CaptureError(
            f"{len(_contents(candidates))} loaded code objects define it and its handle does not "
            "tell which it is from"
        )
    if needs_address and not fitting[0].is_placed:
        raise CaptureError("its code object has variables, and nothing tells where it was loaded")
    if needs_address and len(fitting) != 1:
        raise CaptureError(
            f"its code object has variables and is loaded {len(fitting)} times: its handle does "
            "not tell which it is from"
        )
    return fitting[0]


def _contents(kernels: Iterable[LoadedKernel]) -> set[str]:
    return {one.code_object.sha256 for one in kernels}


def _fits(loaded: LoadedKernel, attributes: Mapping[int, int]) -> bool:
    metadata = loaded.kernel.metadata
    expected = {
        MAX_THREADS: metadata.max_workgroup_size,
        SHARED_SIZE: metadata.group_segment_size,
        LOCAL_SIZE: metadata.private_segment_size,
        REGISTERS: metadata.vgpr_count,
    }
    return all(attributes.get(key, -1) in (-1, value) for key, value in expected.items())


def _search(memory: ProcessMemory, start: int, wanted: Iterable[int], view_bytes: int) -> set[int]:
    """The wanted addresses that are nearest to `start` in steps through pointers."""
    targets = set(wanted)
    level, visited = [start], {start}
    for _ in range(_MAX_DEPTH):
        found: set[int] = set()
        following: list[int] = []
        for address in level:
            words = _read_words(memory, address, view_bytes)
            found.update(targets.intersection(words))
            for word in words:
                if word % 8 == 0 and 1 << 16 <= word < 1 << 47 and word not in visited:
                    visited.add(word)
                    following.append(word)
        if found or len(visited) > _MAX_STRUCTURES:
            return found
        level = following
    return set()


def _read_words(memory: ProcessMemory, address: int, view_bytes: int) -> tuple[int, ...]:
    data = memory.read_some(address, view_bytes)
    return struct.unpack(f"={len(data) // 8}Q", data[: len(data) // 8 * 8])
