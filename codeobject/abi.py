"""What a launch sees of a code object: frozen in every candidate, bit by bit against K0.

Free are the code, the resources that code decides (registers, LDS, scratch) and what these alone
change in the metadata. Everything else is how the runtime launches the kernel: its symbols, the
kernarg segment, preload, workgroup limits, hidden arguments, modes and what the hardware sets up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from asmevo.codeobject.code_object import CodeObject, Kernel
from asmevo.codeobject.compare import Difference, compare
from asmevo.codeobject.descriptor import PRELOAD_PROLOGUE_BYTES
from asmevo.codeobject.target import HAS_ARCHITECTED_FLAT_SCRATCH, HAS_UNIFIED_REGISTERS
from asmevo.codeobject.unwind import SECTION_NAME

__all__ = ["check_abi"]

_ENTRY_ALIGNMENT: Final = 256
# Bits of kernel_descriptor_t that resources decide, as (byte, width in bytes, mask).
_SIZES: Final = ((0, 4, 0xFFFFFFFF), (4, 4, 0xFFFFFFFF))
_ENTRY: Final = (16, 8, (1 << 64) - 1)
_REGISTER_GRANULES: Final = (48, 4, 0x3FF)
_ACCUM_OFFSET: Final = (44, 4, 0x3F)
_ENABLE_PRIVATE_SEGMENT: Final = (52, 4, 1)
_GROUP_KEY: Final = ".group_segment_fixed_size"
_PRIVATE_KEY: Final = ".private_segment_fixed_size"
_RESOURCE_KEYS: Final = (
    ".vgpr_count",
    ".agpr_count",
    ".sgpr_count",
    _GROUP_KEY,
    _PRIVATE_KEY,
    ".vgpr_spill_count",
)
_COUNT: Final = re.compile(
    rf"/amdhsa\.kernels/\d+/(?:{'|'.join(re.escape(key) for key in _RESOURCE_KEYS)})"
)


def check_abi(k0: CodeObject, candidate: CodeObject) -> tuple[Difference, ...]:
    """Everything by which a launch of `candidate` would differ from one of `k0`; empty if nothing.

    Whether the resources cover the code is not asked here: see `resource_check`.
    """
    return (*_check_kernels(k0, candidate), *_check_rest(k0, candidate))


def _check_kernels(k0: CodeObject, candidate: CodeObject) -> Iterator[Difference]:
    names = [(one.name, one.symbol) for one in k0.kernels]
    if names != [(one.name, one.symbol) for one in candidate.kernels]:
        yield Difference(part="descriptor", name="", detail="other kernels, or in another order")
        return
    for one, other in zip(k0.kernels, candidate.kernels, strict=True):
        yield from _check_descriptor(one, other, k0.target)
        yield from _check_entry(one, other, k0, candidate)
    yield from _check_counts(k0, candidate)


def _check_descriptor(one: Kernel, other: Kernel, target: str) -> Iterator[Difference]:
    free = [*_SIZES, _ENTRY, _REGISTER_GRANULES]
    if target in HAS_UNIFIED_REGISTERS:
        free.append(_ACCUM_OFFSET)
    if target in HAS_ARCHITECTED_FLAT_SCRATCH and not one.fields.enables_private_segment:
        free.append(_ENABLE_PRIVATE_SEGMENT)
    mine, theirs = (_without(kernel.descriptor, free) for kernel in (one, other))
    for at in range(0, len(mine), 4):
        if mine[at : at + 4] != theirs[at : at + 4]:
            detail = f"byte {at}: {mine[at : at + 4].hex()} and {theirs[at : at + 4].hex()}"
            yield Difference(part="descriptor", name=one.name, detail=detail)


def _without(descriptor: bytes, free: list[tuple[int, int, int]]) -> bytes:
    data = bytearray(descriptor)
    for at, width, mask in free:
        word = int.from_bytes(data[at : at + width], "little") & ~mask
        data[at : at + width] = word.to_bytes(width, "little")
    return bytes(data)


def _check_entry(
    one: Kernel, other: Kernel, k0: CodeObject, candidate: CodeObject
) -> Iterator[Difference]:
    # COMPUTE_PGM_LO holds the address without its last 8 bits.
    address = candidate.text.address + other.entry_offset
    if address % _ENTRY_ALIGNMENT and (k0.text.address + one.entry_offset) % _ENTRY_ALIGNMENT == 0:
        detail = f"starts at {address:#x}, not at a multiple of {_ENTRY_ALIGNMENT}"
        yield Difference(part="descriptor", name=one.name, detail=detail)
    if one.preload_length:
        prologues = [
            each.text.data[kernel.entry_offset : kernel.entry_offset + PRELOAD_PROLOGUE_BYTES]
            for each, kernel in ((k0, one), (candidate, other))
        ]
        if prologues[0] != prologues[1]:
            detail = "the code before the entry for preloaded arguments"
            yield Difference(part=".text", name=one.name, detail=detail)


def _check_counts(k0: CodeObject, candidate: CodeObject) -> Iterator[Difference]:
    """Sizes in the metadata follow the descriptor; the same keys are there as in K0."""
    kernels = "amdhsa.kernels"
    before, after = k0.metadata.get(kernels, []), candidate.metadata.get(kernels, [])
    if len(before) != len(after):
        return
    for old, new, one, other in zip(before, after, k0.kernels, candidate.kernels, strict=True):
        for key in sorted(_RESOURCE_KEYS):
            if (key in old) != (key in new):
                yield Difference(part="metadata", name=f"{one.name}{key}", detail="came or went")
        for key, had, has in (
            (_GROUP_KEY, one.fields.group_segment_size, other.fields.group_segment_size),
            (_PRIVATE_KEY, one.fields.private_segment_size, other.fields.private_segment_size),
        ):
            if key in old and key in new and new[key] != (has if has != had else old[key]):
                detail = f"{new[key]} where the descriptor has {has}"
                yield Difference(part="metadata", name=f"{one.name}{key}", detail=detail)


def _check_rest(k0: CodeObject, candidate: CodeObject) -> Iterator[Difference]:
    for one in compare(k0, candidate):
        is_code = one.part in (".text", "descriptor") or one.is_move
        is_unwind = one.part == "section" and one.name == SECTION_NAME
        # A note that means the same, or a count that resources decide.
        is_count = one.part == "metadata" and (not one.name or _COUNT.fullmatch(one.name))
        if not (is_code or is_unwind or is_count):
            yield one
