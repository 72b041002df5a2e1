"""Where the instructions of a listing stand, and the bytes of its code.

This is what the assembler makes of the listing's text, without the assembler: kept instructions
keep their bytes, branches and pc-relative sequences get their distances.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from asmevo.codeobject.branch import END_LABEL, is_direct_branch, label_of
from asmevo.codeobject.encoder import Encoding, encode
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.listing_identity import Identity
from asmevo.errors import AssemblerError

__all__ = ["PC_RELATIVE", "Placement", "place_instructions"]

PC_RELATIVE: Final = re.compile(r", ([^,]+)@(rel32|gotpcrel32)@(lo\+4|hi\+12)$")
"""Operands of the two additions to a program counter: symbol, kind, half."""
_NOP: Final = bytes.fromhex("000080bf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Offsets of all instructions, and what has to be looked at beyond the kept bytes."""

    offsets: Mapping[int | None, int]
    """By instruction id; None for the end of the code."""
    code: bytes
    """Without the distances of branches and pc-relative sequences."""
    branches: tuple[Instruction, ...]
    """Direct branches that name their target by label."""
    pc_relative: tuple[Instruction, ...]
    """Additions that name a symbol."""
    encodings: Mapping[int, Encoding]
    """Of added instructions."""

    def branch_bytes(self, one: Instruction) -> bytes | None:
        """The first word of a branch with its distance; None when that has too few bits."""
        offset = self.offsets[one.id]
        size = len(one.data) or len(self.encodings[one.id].data)
        words = (self.offsets[one.target] - offset - size) // 4
        if not -0x8000 <= words <= 0x7FFF:
            return None
        return (words & 0xFFFF).to_bytes(2, "little") + self.code[offset + 2 : offset + 4]

    def complete(self, text_address: int, address_of: Callable[[str, str], int]) -> bytes | None:
        """The code for `.text` at an address; None when a branch is too long.

        `address_of` gives the address of a symbol, or of its slot for `gotpcrel32`.
        """
        code = bytearray(self.code)
        for one in self.branches:
            word = self.branch_bytes(one)
            if word is None:
                return None
            offset = self.offsets[one.id]
            code[offset : offset + 4] = word
        for one in self.pc_relative:
            match = PC_RELATIVE.search(one.operands)
            assert match
            is_low = match[3].startswith("lo")
            offset = self.offsets[one.id]
            # Both halves count from the first addition, the instruction behind s_getpc_b64.
            low = text_address + offset - (0 if is_low else 8)
            distance = address_of(match[1], match[2]) - low
            half = distance & 0xFFFFFFFF if is_low else distance >> 32 & 0xFFFFFFFF
            code[offset + 4 : offset + 8] = half.to_bytes(4, "little")
        return bytes(code)


def place_instructions(listing: Listing) -> Placement:
    """Lay the instructions out, with the alignment that symbols ask for.

    Raises:
        AssemblerError: LLVM refuses an added instruction, or one that has bytes is not K0's.
    """
    origin = _read_origin(Identity(listing.origin or listing))
    instructions = listing.instructions
    others = [one for one in instructions if id(one) not in origin.identities]
    _refuse_tampering(others, origin.instructions)
    encodings = encode([one for one in others if not one.data], listing.arch)
    pieces = [one.data or encodings[one.id].data for one in instructions]
    offsets, code = _lay_out(listing, [one.id for one in instructions], pieces)
    special = [
        one for one in instructions if id(one) in origin.special or id(one) not in origin.identities
    ]
    return Placement(
        offsets=offsets,
        code=code,
        branches=tuple(one for one in special if _is_labelled(one)),
        pc_relative=tuple(one for one in special if _is_pc_relative(one)),
        encodings=encodings,
    )


def _lay_out(
    listing: Listing, ids: Sequence[int], pieces: Sequence[bytes]
) -> tuple[dict[int | None, int], bytes]:
    """Offsets by id and the code, with padding where a symbol asks for alignment."""
    alignments: dict[int | None, int] = {}
    for symbol in listing.symbols:
        if symbol.alignment > 4:
            most = alignments.get(symbol.first_id, 4)
            alignments[symbol.first_id] = max(symbol.alignment, most)
    places = dict(zip(ids, range(len(ids)), strict=True)) if alignments else {}
    cuts = sorted((places[one], by) for one, by in alignments.items() if one is not None)
    offsets: dict[int | None, int] = {}
    parts: list[bytes] = []
    offset = start = 0
    for end, alignment in (*cuts, (len(ids), alignments.get(None, 4))):
        steps = itertools.accumulate(map(len, pieces[start:end]), initial=offset)
        # The last step is where the next piece begins: no id for it here.
        offsets.update(zip(ids[start:end], steps, strict=False))
        code = b"".join(pieces[start:end])
        offset += len(code)
        padding = -offset % alignment
        parts += [code, _NOP * (padding // 4)]
        offset, start = offset + padding, end
    offsets[None] = offset
    return offsets, b"".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """What is known of a recovered listing for all its edits."""

    instructions: tuple[Instruction, ...]
    identities: frozenset[int]
    """`id()` of each instruction: an edit keeps the objects that it does not change."""
    special: frozenset[int]
    """Of branches and pc-relative additions."""


@lru_cache(maxsize=4)
def _read_origin(key: Identity) -> _Origin:
    instructions = key.listing.instructions
    return _Origin(
        instructions=instructions,
        identities=frozenset(map(id, instructions)),
        special=frozenset(
            id(one) for one in instructions if _is_labelled(one) or _is_pc_relative(one)
        ),
    )


def _is_labelled(one: Instruction) -> bool:
    """True for a direct branch that names its target by label."""
    has_label = one.target is not None or one.operands.endswith(END_LABEL)
    return has_label and not one.needs_bytes and is_direct_branch(one.mnemonic)


def _is_pc_relative(one: Instruction) -> bool:
    if "@" not in one.operands or one.needs_bytes:
        return False
    return PC_RELATIVE.search(one.operands) is not None


def _refuse_tampering(others: Sequence[Instruction], known: Sequence[Instruction]) -> None:
    """An instruction with bytes stands for what was decoded from them: only the target of a branch
    may be another one."""
    for one in others:
        if not one.data:
            continue
        was = known[one.id] if one.id < len(known) else None
        if was is None or one != replace(was, operands=one.operands, target=one.target):
            raise AssemblerError(f"instruction {one.id} `{one.text}` has bytes of another one")
        if one.operands != was.operands and not _is_retargeted(one, was):
            raise AssemblerError(f"`{one.text}` has the bytes of `{was.text}`")


def _is_retargeted(one: Instruction, was: Instruction) -> bool:
    label = END_LABEL if one.target is None else label_of(one.target)
    head, comma, _ = was.operands.rpartition(", ")
    return is_direct_branch(one.mnemonic) and one.operands == f"{head}{comma}{label}"
