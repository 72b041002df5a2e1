"""Which instructions a kernel may run: its own and those of the functions that it calls."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from asmevo.codeobject.analysis.register import RegisterSet, parse_registers
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.listing import Listing, ListingKernel
from asmevo.errors import CodeObjectError

__all__ = ["CodeMap", "CodeReach"]

_PC_RELATIVE = re.compile(r"^s(\d+), s\d+, ([^,]+)@(?:rel32|gotpcrel32)@(?:lo\+4|hi\+12)$")
_CALL: Final = "s_swappc_b64"
_JUMP: Final = "s_setpc_b64"
_ENDS: Final = frozenset({"s_endpgm", "s_endpgm_saved", "s_branch", _JUMP, "s_rfe_b64"})
# Nested functions would cost their product; real ones have one symbol, rarely two.
_MAX_OVERLAP: Final = 16
_PADDING: Final = frozenset({"s_nop", "s_code_end", ".long"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeReach:
    """The instructions, in address order, and what is not known about them."""

    instructions: tuple[Instruction, ...]
    open_ends: tuple[str, ...]
    """Why other code may run, too; empty when it cannot."""


_Span = tuple[int, int]


class CodeMap:
    """The functions of a listing, to be asked what each kernel may run."""

    def __init__(self, listing: Listing) -> None:
        """Index the listing once."""
        self.instructions = listing.instructions
        self.places = {one.id: place for place, one in enumerate(listing.instructions)}
        self.entered = frozenset(
            {one.target for one in listing.instructions if one.target is not None}
            | {one.first_id for one in listing.symbols if one.first_id is not None}
        )
        """Ids that control may come to from elsewhere."""
        self.starts = {
            one.name: self.places[one.first_id]
            for one in listing.symbols
            if one.first_id is not None
        }
        functions = [
            (self.places[one.first_id], self.places[one.last_id])
            for one in listing.symbols
            if one.type == "STT_FUNC" and one.first_id is not None and one.last_id is not None
        ]
        self.kernels = sorted(
            (self.places[one.first_id], self.places[one.last_id]) for one in listing.kernels
        )
        self.spans = sorted({*functions, *self.kernels})
        """First and last place of every function and kernel."""
        total = sum(last - first + 1 for first, last in self.spans)
        if total > _MAX_OVERLAP * len(self.instructions) + _MAX_OVERLAP:
            raise CodeObjectError("functions overlap too much: their resources are not worked out")

    def own_code(self, kernel: ListingKernel) -> tuple[Instruction, ...]:
        """The instructions of the kernel's own function."""
        first, last = self.places[kernel.first_id], self.places[kernel.last_id]
        return self.instructions[first : last + 1]

    def is_closed(self, kernel: ListingKernel) -> bool:
        """True when the kernel runs no code but its own; most do not."""
        return not _leaves(
            self.own_code(kernel),
            self.places,
            (self.places[kernel.first_id], self.places[kernel.last_id]),
        )

    def find_reach(self, kernel: ListingKernel) -> CodeReach:
        """Follow direct branches and calls of functions whose address is computed right before.

        Any other call counts as one of all functions of the object, and leaves the end open: the
        address may come from memory.
        """
        if self.is_closed(kernel):
            return CodeReach(instructions=self.own_code(kernel), open_ends=())
        return _Walk(self).run((self.places[kernel.first_id], self.places[kernel.last_id]))


def _leaves(code: Sequence[Instruction], places: Mapping[int, int], span: _Span) -> bool:
    for one in code:
        if one.mnemonic in (_CALL, _JUMP) or "@" in one.operands:
            return True
        if one.target is not None and not span[0] <= places[one.target] <= span[1]:
            return True
    return not _has_end(code)


def _has_end(instructions: Sequence[Instruction]) -> bool:
    last = next((one for one in reversed(instructions) if one.mnemonic not in _PADDING), None)
    return last is None or last.mnemonic in _ENDS


class _Walk:
    """One search over the functions of a listing; every instruction is read once."""

    def __init__(self, code: CodeMap) -> None:
        self._code = code
        self._open_ends: list[str] = []
        self._covered = bytearray(len(code.instructions))
        self._pending: list[_Span] = []
        self._has_added_outside = False

    def run(self, own: _Span) -> CodeReach:
        self._add(own)
        while self._pending:
            first, last = self._pending.pop()
            self._read((first, last), is_kernel=own[0] <= first and last <= own[1])
        return CodeReach(
            instructions=tuple(
                one
                for one, inside in zip(self._code.instructions, self._covered, strict=True)
                if inside
            ),
            open_ends=tuple(dict.fromkeys(self._open_ends)),
        )

    def _read(self, span: _Span, *, is_kernel: bool) -> None:
        code = self._code.instructions[span[0] : span[1] + 1]
        known: RegisterSet = 0
        for one in code:
            if one.id in self._code.entered:
                known = 0
            if match := _PC_RELATIVE.match(one.operands):
                if match[2] in self._code.starts:
                    self._enter(self._code.starts[match[2]])
                if one.mnemonic == "s_addc_u32":
                    known |= 0b11 << int(match[1]) - 1
                    continue
            if one.mnemonic == _CALL:
                address = parse_registers(one.operands.rpartition(", ")[2])
                if address & ~known:
                    self._call_anything("it calls functions by pointer")
                known = 0
            elif one.mnemonic == _JUMP and is_kernel:
                # A function returns with it; a kernel has nowhere to return to.
                self._call_anything("it jumps to a computed address")
            elif one.target is not None:
                self._enter(self._code.places[one.target])
            # Destinations stand first; a carry is the second operand.
            known &= ~parse_registers(",".join(one.operands.split(",")[:2]))

    def _enter(self, place: int) -> None:
        if self._covered[place]:
            return
        # Starts are sorted: the last function or kernel that begins at or before the place.
        number = bisect_right(self._code.spans, (place, len(self._covered))) - 1
        if number >= 0 and place <= self._code.spans[number][1]:
            self._add(self._code.spans[number])
        else:
            self._add_outside()

    def _call_anything(self, reason: str) -> None:
        self._open_ends.append(reason)
        self._add_outside()

    def _add_outside(self) -> None:
        """All code that belongs to no kernel."""
        if self._has_added_outside:
            return
        self._has_added_outside = True
        position = 0
        for first, last in (*self._code.kernels, (len(self._code.instructions), 0)):
            if first > position:
                self._add((position, first - 1))
            position = max(position, last + 1)

    def _add(self, span: _Span) -> None:
        """Cover what is not covered yet, and have it read."""
        first, last = span
        if not _has_end(self._code.instructions[first : last + 1]):
            self._call_anything("it runs off its end")
        at = self._covered.find(0, first, last + 1)
        while at >= 0:
            end = self._covered.find(1, at, last + 1)
            end = last + 1 if end < 0 else end
            self._covered[at:end] = b"\1" * (end - at)
            self._pending.append((at, end - 1))
            at = self._covered.find(0, end, last + 1)
