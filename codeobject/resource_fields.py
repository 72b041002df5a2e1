"""Recomputed resources as the fields of descriptors and metadata: the object that an edit means."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]

from asmevo.codeobject.code_object import CodeObject, Kernel
from asmevo.codeobject.descriptor import KernelDescriptor
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.listing_identity import Identity
from asmevo.codeobject.metadata import read_kernels
from asmevo.codeobject.resource_records import granules
from asmevo.codeobject.resources import KernelPlan, Resources, plan_resources

__all__ = ["expect_object"]

# kernel_descriptor_t: byte of each field.
_GROUP_SIZE_AT: Final = 0
_PRIVATE_SIZE_AT: Final = 4
_RSRC3_AT: Final = 44
_RSRC1_AT: Final = 48
_RSRC2_AT: Final = 52
_VGPR_BITS: Final = 0x3F
_SGPR_BITS: Final = 0xF << 6
_ACCUM_BITS: Final = 0x3F


def expect_object(listing: Listing) -> CodeObject:
    """K0 with the descriptors and metadata that the listing's code needs; its code is K0's still.

    Raises:
        ResourceRefusal: what a kernel needs cannot be told, or is more than the hardware has.
    """
    if listing.origin is None:
        return listing.source
    return _expect(Identity(listing))


@lru_cache(maxsize=4)
def _expect(key: Identity) -> CodeObject:
    """Emitting and checking ask for the same listing one after the other."""
    listing, source = key.listing, key.listing.source
    plans = plan_resources(listing)
    kernels = tuple(_rewrite(plan) for plan in plans)
    tree = _write_metadata(source, plans)
    has_same_tree = tree == source.metadata
    if has_same_tree and all(plan.given == plan.needed for plan in plans):
        return source
    records = {one.symbol: one for one in read_kernels(tree)}
    return dataclasses.replace(
        source,
        kernels=tuple(dataclasses.replace(one, metadata=records[one.symbol]) for one in kernels),
        metadata=MappingProxyType(tree),
        metadata_note=source.metadata_note if has_same_tree else bytes(msgpack.packb(tree)),
    )


def _rewrite(plan: KernelPlan) -> Kernel:
    descriptor = _write_descriptor(plan.kernel.descriptor, plan.given, plan.needed)
    return dataclasses.replace(
        plan.kernel, descriptor=descriptor, fields=KernelDescriptor.parse(descriptor)
    )


def _write_descriptor(descriptor: bytes, given: Resources, needed: Resources) -> bytes:
    """Only the fields whose resource changed: K0 may spell the same allocation otherwise."""
    data = bytearray(descriptor)
    if needed.group_segment_size != given.group_segment_size:
        struct.pack_into("<I", data, _GROUP_SIZE_AT, needed.group_segment_size)
    if needed.private_segment_size != given.private_segment_size:
        struct.pack_into("<I", data, _PRIVATE_SIZE_AT, needed.private_segment_size)
        if needed.private_segment_size:
            _set_bits(data, _RSRC2_AT, 1, 1)
    if needed.accum_offset != given.accum_offset:
        _set_bits(data, _RSRC3_AT, _ACCUM_BITS, needed.accum_offset // 4 - 1)
    if needed.allocated_vgprs != given.allocated_vgprs:
        _set_bits(data, _RSRC1_AT, _VGPR_BITS, needed.allocated_vgprs // 8 - 1)
    if needed.allocated_sgprs != given.allocated_sgprs:
        # gfx9 counts granules of 16 in steps of two.
        _set_bits(data, _RSRC1_AT, _SGPR_BITS, 2 * (needed.allocated_sgprs // 16 - 1) << 6)
    return bytes(data)


def _set_bits(data: bytearray, at: int, mask: int, value: int) -> None:
    (word,) = struct.unpack_from("<I", data, at)
    struct.pack_into("<I", data, at, word & ~mask | value)


def _write_metadata(source: CodeObject, plans: Sequence[KernelPlan]) -> dict[str, Any]:
    entries = source.metadata["amdhsa.kernels"]
    changed = [
        {**entry, **_counts(entry, plan)} for entry, plan in zip(entries, plans, strict=True)
    ]
    return {**source.metadata, "amdhsa.kernels": changed}


def _counts(entry: Mapping[str, Any], plan: KernelPlan) -> dict[str, int]:
    """Numbers that change, so that they agree with the descriptor as much as K0's did."""
    before, after, given, needed = plan.before, plan.after, plan.given, plan.needed
    found = {}
    for key, old, new, had, has, granule in (
        (
            ".vgpr_count",
            before.registers.total_vgprs,
            after.registers.total_vgprs,
            given.allocated_vgprs,
            needed.allocated_vgprs,
            8,
        ),
        (
            ".sgpr_count",
            before.sgprs,
            after.sgprs,
            given.allocated_sgprs,
            needed.allocated_sgprs,
            16,
        ),
    ):
        count = entry.get(key)
        if count is None or (new == old and has == had):
            continue
        agrees = granules(count, granule) == had
        if agrees and (count == old or has != had):
            found[key] = new if granules(new, granule) == has else has
        else:
            # A limit of K0's own, or a number that never agreed.
            found[key] = max(count, new)
    agprs = after.registers.agprs
    if ".agpr_count" in entry and agprs != before.registers.agprs:
        follows = entry[".agpr_count"] == before.registers.agprs and not after.registers.open_ends
        found[".agpr_count"] = agprs if follows else max(entry[".agpr_count"], agprs)
    if needed.group_segment_size != given.group_segment_size:
        found[".group_segment_fixed_size"] = needed.group_segment_size
    if needed.private_segment_size != given.private_segment_size:
        found[".private_segment_fixed_size"] = needed.private_segment_size
        if needed.private_segment_size == 0 and entry.get(".vgpr_spill_count"):
            # They were spilled to scratch, which is gone. SGPRs may be spilled to VGPRs.
            found[".vgpr_spill_count"] = 0
    return found
