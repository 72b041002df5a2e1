"""Proof that addresses in code and data still mean what they meant, after an edit moved the
code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.data_section import RELATIVE64, place_of, text_label
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.pc_relative import find_goal, got_symbol
from asmevo.errors import AssemblerError

__all__ = ["check_addresses"]

_LOW = re.compile(r", ([^,]+)@(rel32|gotpcrel32)@lo\+4$")


def check_addresses(
    listing: Listing,
    rebuilt: CodeObject,
    decoded: Sequence[Instruction],
    places: Mapping[int, int],
) -> None:
    """Raise AssemblerError unless pc-relative code and pointers go where the listing's go.

    `decoded` is the code of `rebuilt`, `places` the place in it of every instruction of the
    listing.
    """
    labels = {
        one.name: decoded[places[one.first_id]].offset if one.first_id is not None else None
        for one in listing.symbols
    }
    for low in listing.instructions:
        if match := _LOW.search(low.operands):
            place = places[low.id] - 1
            goal = find_goal(rebuilt, decoded, place)
            if goal is None or not _is_meant(listing, rebuilt, labels, match, goal):
                raise AssemblerError(f"`{low.text}` does not compute the address that it is to")
    _check_pointers(listing.source, rebuilt, labels)


def _is_meant(
    listing: Listing,
    rebuilt: CodeObject,
    labels: Mapping[str, int | None],
    match: re.Match[str],
    goal: int,
) -> bool:
    name = match[1]
    if match[2] == "gotpcrel32":
        return got_symbol(rebuilt, goal) == f"@{name}"
    if name in labels:
        return goal == _text_address(rebuilt, labels[name])
    address = int(name.removeprefix(".La"), 16)
    return place_of(rebuilt, goal) == place_of(listing.source, address)


def _check_pointers(
    source: CodeObject, rebuilt: CodeObject, labels: Mapping[str, int | None]
) -> None:
    pointers = {place_of(rebuilt, one.address): one.addend for one in rebuilt.relocations}
    for one in source.relocations:
        if one.type != RELATIVE64 or not source.text.holds(one.addend):
            continue
        wanted = _text_address(rebuilt, labels[text_label(one.addend - source.text.address)])
        place = place_of(source, one.address)
        if pointers.get(place) != wanted:
            raise AssemblerError(
                f"the pointer at {place[0]}+{place[1]:#x} does not follow its code"
            )


def _text_address(rebuilt: CodeObject, offset: int | None) -> int:
    return rebuilt.text.address + (rebuilt.text.size if offset is None else offset)
