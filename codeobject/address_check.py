"""Proof that addresses in code and data still mean what they meant, after an edit moved the
code."""

from __future__ import annotations

from collections.abc import Mapping

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.data_section import RELATIVE64, place_of, text_label
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.pc_relative import got_symbol
from asmevo.codeobject.placement import PC_RELATIVE
from asmevo.errors import AssemblerError

__all__ = ["check_addresses"]


def check_addresses(
    listing: Listing,
    rebuilt: CodeObject,
    offsets: Mapping[int | None, int],
    pc_relative: tuple[Instruction, ...],
) -> None:
    """Raise AssemblerError unless pc-relative code and pointers go where the listing's go.

    `offsets` says where each instruction of the listing stands in `rebuilt`, `pc_relative` which
    ones add a symbol's distance, two in a row.
    """
    labels = {one.name: offsets[one.first_id] for one in listing.symbols}
    for low, high in zip(pc_relative[::2], pc_relative[1::2], strict=True):
        match = PC_RELATIVE.search(low.operands)
        if match is None or offsets[high.id] != offsets[low.id] + len(low.data):
            raise AssemblerError(f"`{low.text}` and `{high.text}` are not together")
        goal = _goal(rebuilt, offsets[low.id], offsets[high.id])
        name, kind = match[1], match[2]
        if kind == "gotpcrel32":
            is_meant = got_symbol(rebuilt, goal) == f"@{name}"
        elif name in labels:
            is_meant = goal == rebuilt.text.address + labels[name]
        else:
            address = int(name.removeprefix(".La"), 16)
            is_meant = place_of(rebuilt, goal) == place_of(listing.source, address)
        if not is_meant:
            raise AssemblerError(f"`{low.text}` does not compute the address that it is to")
    _check_pointers(listing.source, rebuilt, labels)


def _goal(rebuilt: CodeObject, low: int, high: int) -> int:
    """Address that two additions to the program counter compute, by their literals."""
    code = rebuilt.text.data
    halves = code[low + 4 : low + 8] + code[high + 4 : high + 8]
    return rebuilt.text.address + low + int.from_bytes(halves, "little", signed=True)


def _check_pointers(source: CodeObject, rebuilt: CodeObject, labels: Mapping[str, int]) -> None:
    pointers = {place_of(rebuilt, one.address): one.addend for one in rebuilt.relocations}
    for one in source.relocations:
        if one.type != RELATIVE64 or not source.text.holds(one.addend):
            continue
        offset = labels[text_label(one.addend - source.text.address)]
        place = place_of(source, one.address)
        if pointers.get(place) != rebuilt.text.address + offset:
            raise AssemblerError(
                f"the pointer at {place[0]}+{place[1]:#x} does not follow its code"
            )
