"""Edits patched into K0's bytes, where an object cannot be rebuilt: nothing but code changes.

Symbols, kernel entries, pc-relative code and what it refers to stay at their addresses. Between
them code may move; what an edit leaves free becomes `s_nop`, which only ever lengthens waits.
Direct branches are encoded anew. The result is decoded and compared like a rebuilt object.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from asmevo.codeobject.branch import is_direct_branch
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.compare import compare
from asmevo.codeobject.encoder import encode
from asmevo.codeobject.instruction_check import check_instruction
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.resources import KernelPlan, plan_resources
from asmevo.codeobject.toolchain import disassemble
from asmevo.errors import AssemblerError, UsageError

__all__ = ["patch_listing"]

_NOP: Final = (0xBF800000).to_bytes(4, "little")
_REACH: Final = range(-(1 << 15), 1 << 15)

_Fixed = list[tuple[int, int]]
"""Places in the edited listing and the offsets where they must begin, in order."""


def patch_listing(listing: Listing) -> bytes:
    """K0's bytes with the code of an edited in-place listing.

    Raises:
        UsageError: the edit does not fit into K0's code, or moves what must stay.
        AssemblerError: LLVM refused an instruction, or made something else of it.
    """
    source, origin = listing.source, listing.origin
    if origin is None:
        return source.data
    for plan in plan_resources(listing):
        if _grows(plan):
            raise UsageError(
                f"the edit needs more resources than {plan.kernel.name[:120]} has: "
                "it cannot be patched in place"
            )
    added = [one for one in listing.instructions if not one.data]
    encoded = {one.id: one.data for one in listing.instructions}
    encoded |= {key: one.data for key, one in encode(added, listing.arch).items()}
    offsets = _lay_out(listing, origin, encoded)
    code = _write_code(listing, encoded, offsets)
    start = source.text.offset
    data = source.data[:start] + code + source.data[start + len(code) :]
    _check_patch(listing, CodeObject.read(data), offsets)
    return data


def _grows(plan: KernelPlan) -> bool:
    """What the edit needs less of simply stays."""
    given, needed, used = plan.given, plan.needed, plan.after.registers
    metadata = plan.kernel.metadata
    pairs = (
        (given.allocated_vgprs, needed.allocated_vgprs),
        (given.accum_offset, needed.accum_offset),
        (given.allocated_agprs, used.agprs),
        (given.allocated_sgprs, needed.allocated_sgprs),
        (given.group_segment_size, needed.group_segment_size),
        (given.private_segment_size, needed.private_segment_size),
        (max(metadata.vgpr_count, plan.before.registers.total_vgprs), used.total_vgprs),
        (max(metadata.agpr_count, plan.before.registers.agprs), used.agprs),
        (max(metadata.sgpr_count, plan.before.sgprs), plan.after.sgprs),
    )
    return any(has < wants for has, wants in pairs)


def _lay_out(listing: Listing, origin: Listing, encoded: Mapping[int, bytes]) -> dict[int, int]:
    """Offset of every instruction; as much as possible keeps its own."""
    sizes = [len(encoded[one.id]) for one in listing.instructions]
    fixed = _fixed_places(listing, origin)
    kept = _longest_in_order(listing)
    strict = sorted({*fixed, *((place, listing.instructions[place].offset) for place in kept)})
    offsets = _fill(listing, strict, sizes)
    if listing.patch_limits:
        _refuse_moves(listing, origin, kept)
    elif offsets is None:
        offsets = _fill(listing, fixed, sizes)
    if offsets is None:
        raise UsageError(
            "the edited code does not fit where K0's is: it cannot be patched in place"
        )
    return offsets


def _fixed_places(listing: Listing, origin: Listing) -> _Fixed:
    places = {one.id: place for place, one in enumerate(listing.instructions)}
    addresses = {one.id: one.offset for one in origin.instructions}
    fixed = {(0, 0)} | {(places[one], addresses[one]) for one in listing.pinned}
    for now, before in zip(listing.symbols, origin.symbols, strict=True):
        if now.first_id is not None and before.first_id is not None:
            fixed.add((places[now.first_id], addresses[before.first_id]))
    for entry, original in zip(listing.kernels, origin.kernels, strict=True):
        fixed.add((places[entry.first_id], addresses[original.first_id]))
        fixed.add((places[entry.body_id], addresses[original.body_id]))
        # What follows the kernel stays there.
        behind = places[entry.last_id] + 1
        last = origin.instruction(original.last_id)
        if behind < len(listing.instructions):
            fixed.add((behind, last.offset + len(last.data)))
    return sorted(fixed)


def _longest_in_order(listing: Listing) -> list[int]:
    """Places of the most instructions of K0 that stand in K0's order."""
    tails: list[int] = []
    tail_places: list[int] = []
    before: dict[int, int] = {}
    for place, one in enumerate(listing.instructions):
        if one.offset < 0:
            continue
        at = bisect_left(tails, one.offset)
        before[place] = tail_places[at - 1] if at else -1
        tails[at : at + 1] = [one.offset]
        tail_places[at : at + 1] = [place]
    chain: list[int] = []
    place = tail_places[-1] if tail_places else -1
    while place >= 0:
        chain.append(place)
        place = before[place]
    return chain[::-1]


def _fill(listing: Listing, fixed: _Fixed, sizes: Sequence[int]) -> dict[int, int] | None:
    """Offsets with everything behind its fixed place, or None where that does not fit."""
    offsets: dict[int, int] = {}
    end = listing.source.text.size
    for number, (first, start) in enumerate(fixed):
        last, limit = fixed[number + 1] if number + 1 < len(fixed) else (len(sizes), end)
        position = start
        for place in range(first, last):
            offsets[listing.instructions[place].id] = position
            position += sizes[place]
        if position > limit:
            return None
    return offsets


def _refuse_moves(listing: Listing, origin: Listing, kept: Sequence[int]) -> None:
    """With addresses in code that are not understood, each instruction is an entry: it may become
    others or nothing, but two may not become one piece."""
    if len(kept) != sum(one.offset >= 0 for one in listing.instructions):
        raise UsageError(f"nothing can be moved in place: {listing.patch_limits[0]}")
    numbers = {one.id: number for number, one in enumerate(origin.instructions)}
    bounds = [-1, *kept, len(listing.instructions)]
    for before, after in pairwise(bounds):
        first = numbers[listing.instructions[before].id] if before >= 0 else -1
        is_end = after == len(listing.instructions)
        last = len(numbers) if is_end else numbers[listing.instructions[after].id]
        if after - before > 1 and last - first > 2:
            raise UsageError(f"neighbours cannot be replaced in place: {listing.patch_limits[0]}")


def _write_code(
    listing: Listing, encoded: Mapping[int, bytes], offsets: Mapping[int, int]
) -> bytes:
    size = listing.source.text.size
    code = bytearray(_NOP * (size // 4) + bytes(size % 4))
    for one in listing.instructions:
        at, data = offsets[one.id], bytearray(encoded[one.id])
        if is_direct_branch(one.mnemonic) and ".L" in one.operands:
            goal = size if one.target is None else offsets[one.target]
            distance = (goal - at - len(data)) // 4
            if distance not in _REACH:
                raise UsageError(f"`{one.text}` would have to go {distance} words: out of reach")
            data[:2] = distance.to_bytes(2, "little", signed=True)
        code[at : at + len(data)] = data
    return bytes(code)


def _check_patch(listing: Listing, patched: CodeObject, offsets: Mapping[int, int]) -> None:
    """Decode again: every instruction stands where it was put, and nothing but `s_nop` besides."""
    decoded = disassemble(patched.text.data, patched.target)
    at = {one.offset: place for place, one in enumerate(decoded)}
    places: dict[int, int] = {}
    covered: set[int] = set()
    for one in listing.instructions:
        offset = offsets[one.id]
        if one.needs_bytes or one.mnemonic == ".long":
            found = patched.text.data[offset : offset + len(one.data)]
            if found != one.data:
                raise AssemblerError(f"instruction {one.id}, kept as bytes, does not come back")
            covered.update(range(offset, offset + len(found), 4))
            places[one.id] = at.get(offset, -1)
            continue
        if offset not in at:
            raise AssemblerError(f"instruction {one.id} `{one.text}` is not decoded where it is")
        places[one.id] = at[offset]
        covered.add(offset)
    for one in listing.instructions:
        if not (one.needs_bytes or one.mnemonic == ".long"):
            check_instruction(one, decoded[places[one.id]], decoded, places)
    for one in decoded:
        if one.offset not in covered and one.data != _NOP:
            raise AssemblerError(f"`{one.text}` at .text+{one.offset:#x} was not asked for")
    for difference in compare(listing.source, patched):
        if difference.part != ".text":
            raise AssemblerError(f"the patch changed what it must not: {difference}")
