"""A code object taken apart: instructions with stable ids and what stands around them; edits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from asmevo.codeobject.branch import END_LABEL, label_of
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.instruction_text import parse_instruction
from asmevo.errors import UsageError

__all__ = ["Demand", "Listing", "ListingKernel", "TextSymbol"]

# Old id to the id that takes its place; None for "none is left on that side".
_Redirect = Mapping[int, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSymbol:
    """A symbol of `.text`, tied to instructions instead of addresses."""

    name: str
    first_id: int | None
    """Instruction that it stands before; None for the end of the text."""
    last_id: int | None
    """Last instruction that its size covers; None for a symbol without a size."""
    type: str
    binding: str
    visibility: str
    alignment: int
    """Bytes that its address must stay a multiple of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingKernel:
    """The instructions of one kernel, from its entry to the end that its symbol's size gives."""

    name: str
    symbol: str
    first_id: int
    last_id: int
    body_id: int
    """Where the body starts: `first_id`, with kernarg preload the instruction at entry + 256."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Memory that an edit asks for beyond what can be read off its code, in bytes."""

    group_segment_size: int = 0
    private_segment_size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Recovered assembly of one code object. Immutable: every edit gives a new listing."""

    source: CodeObject
    """The object that this was recovered from, K0: descriptors, metadata and data come from it."""
    base: CodeObject
    """The object that LLVM makes of the text of the unedited listing, compared with `source`."""
    instructions: tuple[Instruction, ...]
    kernels: tuple[ListingKernel, ...]
    symbols: tuple[TextSymbol, ...]
    pinned: frozenset[int]
    """Ids that no edit may replace, delete or move (kernarg-preload prologue, pc-relative code)."""
    glued: frozenset[int]
    """Ids behind which nothing may be put."""
    edit_blockers: tuple[str, ...]
    """Why this listing cannot be edited at all; empty when it can."""
    next_id: int
    raw_descriptors: frozenset[str]
    """Kernels whose descriptor is kept as bytes, since no directives express it."""
    has_raw_metadata: bool
    """True when the metadata note is kept as bytes."""
    demands: Mapping[str, Demand] = field(default_factory=dict)
    """Memory asked for, by kernel name."""
    origin: Listing | None = None
    """The listing as recovered, that this is an edit of; None for that one itself."""
    is_in_place: bool = False
    """True when the object cannot be rebuilt and edits are patched into its bytes."""
    patch_limits: tuple[str, ...] = ()
    """Why, in place, instructions must not move at all."""

    @property
    def arch(self) -> str:
        """Target id for the assembler."""
        return self.source.target_id

    @property
    def is_edited(self) -> bool:
        """True when this is not the listing that was recovered."""
        return self.origin is not None

    def to_assembly(self) -> str:
        """The whole object as assembly text that `rebuild` takes; in place, its code to read."""
        from asmevo.codeobject.emit import emit, emit_code

        return emit_code(self) if self.is_in_place else emit(self).text

    def index(self, identifier: int) -> int:
        """Position of an instruction in `instructions`."""
        for place, one in enumerate(self.instructions):
            if one.id == identifier:
                return place
        raise UsageError(f"no instruction with id {identifier} in the listing")

    def instruction(self, identifier: int) -> Instruction:
        """The instruction with this id."""
        return self.instructions[self.index(identifier)]

    def kernel_instructions(self, name: str) -> tuple[Instruction, ...]:
        """The instructions of one kernel."""
        for kernel in self.kernels:
            if kernel.name == name:
                first, last = self.index(kernel.first_id), self.index(kernel.last_id)
                return self.instructions[first : last + 1]
        raise UsageError(f"no kernel {name[:120]} in the listing")

    def replace(self, identifier: int, texts: Sequence[str]) -> Listing:
        """Put other instructions in the place of one; branches to it go to the first of them."""
        place = self._editable(identifier)
        if not texts:
            return self.delete((identifier,))
        added = self._make(texts)
        kept = self.instructions
        changed = (*kept[:place], *added, *kept[place + 1 :])
        return self._rebased(changed, {identifier: added[0].id}, {identifier: added[-1].id}, added)

    def insert_after(self, identifier: int, texts: Sequence[str]) -> Listing:
        """Put instructions behind one; branches to what followed it skip them."""
        self._refuse_blocked()
        place = self.index(identifier)
        self._refuse_glued(identifier)
        added = self._make(texts)
        if not added:
            return self
        kept = self.instructions
        changed = (*kept[: place + 1], *added, *kept[place + 1 :])
        return self._rebased(changed, {}, {identifier: added[-1].id}, added)

    def delete(self, identifiers: Iterable[int]) -> Listing:
        """Remove instructions; branches to them go to the next one that stays."""
        gone = frozenset(identifiers)
        for identifier in gone:
            self._editable(identifier)
        changed = tuple(one for one in self.instructions if one.id not in gone)
        return self._rebased(changed, self._successors(gone), self._predecessors(gone), ())

    def move(self, identifier: int, after_id: int) -> Listing:
        """Put an instruction behind another one of the same kernel.

        Branches to it go to what followed it: labels stay in their place.
        """
        self._editable(identifier)
        self.index(after_id)
        self._refuse_glued(after_id)
        if identifier == after_id:
            raise UsageError(f"instruction {identifier} cannot be moved behind itself")
        if self._functions_of(identifier) != self._functions_of(after_id):
            raise UsageError(f"instructions {identifier} and {after_id} are in different functions")
        gone = frozenset((identifier,))
        forward, backward = self._successors(gone), self._predecessors(gone)
        if backward[identifier] == after_id:
            return self
        moved = self.instruction(identifier)
        rest = [one for one in self.instructions if one.id != identifier]
        place = next(number for number, one in enumerate(rest) if one.id == after_id) + 1
        changed = (*rest[:place], moved, *rest[place:])
        # A range that ended with `after_id` now ends with what was put behind it.
        backward = {
            key: identifier if value == after_id else value for key, value in backward.items()
        }
        backward.setdefault(after_id, identifier)
        return self._rebased(changed, forward, backward, ())

    def reserve(
        self, kernel: str, *, group_segment_size: int = 0, private_segment_size: int = 0
    ) -> Listing:
        """Ask for LDS of a workgroup and scratch of a lane, in bytes, for kernel `kernel`.

        K0's sizes stay the least. What launches add as dynamic LDS comes on top.
        """
        if all(one.name != kernel for one in self.kernels):
            raise UsageError(f"no kernel {kernel[:120]} in the listing")
        if min(group_segment_size, private_segment_size) < 0 or private_segment_size % 4:
            raise UsageError("sizes to reserve must not be negative, scratch in whole dwords")
        demand = Demand(
            group_segment_size=group_segment_size, private_segment_size=private_segment_size
        )
        return dataclasses.replace(
            self, demands={**self.demands, kernel: demand}, origin=self.origin or self
        )

    def demand(self, kernel: str) -> Demand:
        """Memory asked for by edits of kernel `kernel`."""
        return self.demands.get(kernel, Demand())

    def _refuse_blocked(self) -> None:
        if self.edit_blockers:
            raise UsageError(f"the listing cannot be edited: {self.edit_blockers[0]}")

    def _refuse_glued(self, identifier: int) -> None:
        if identifier in self.glued:
            raise UsageError(f"nothing can be put behind instruction {identifier}: it is pinned")

    def _editable(self, identifier: int) -> int:
        self._refuse_blocked()
        place = self.index(identifier)
        if identifier in self.pinned:
            raise UsageError(
                f"instruction {identifier} is pinned (kernarg preload entry or pc-relative code)"
            )
        return place

    def _make(self, texts: Sequence[str]) -> tuple[Instruction, ...]:
        known = {one.id for one in self.instructions}
        return tuple(
            parse_instruction(text, identifier=self.next_id + number, known=known)
            for number, text in enumerate(texts)
        )

    def _functions_of(self, identifier: int) -> frozenset[str]:
        places = self._places()
        place = places[identifier]
        return frozenset(
            symbol.name
            for symbol in self.symbols
            if symbol.first_id is not None
            and symbol.last_id is not None
            and places[symbol.first_id] <= place <= places[symbol.last_id]
        )

    def _places(self) -> dict[int, int]:
        return {one.id: place for place, one in enumerate(self.instructions)}

    def _successors(self, gone: frozenset[int]) -> dict[int, int | None]:
        """For every id of `gone`, the next instruction that stays; None at the end of the text."""
        following: dict[int, int | None] = {}
        after: int | None = None
        for one in reversed(self.instructions):
            if one.id in gone:
                following[one.id] = after
            else:
                after = one.id
        return following

    def _predecessors(self, gone: frozenset[int]) -> dict[int, int | None]:
        preceding: dict[int, int | None] = {}
        before: int | None = None
        for one in self.instructions:
            if one.id in gone:
                preceding[one.id] = before
            else:
                before = one.id
        return preceding

    def _rebased(
        self,
        instructions: tuple[Instruction, ...],
        firsts: _Redirect,
        lasts: _Redirect,
        added: tuple[Instruction, ...],
    ) -> Listing:
        """The listing with `instructions`, references by first and by last id redirected."""
        edited = dataclasses.replace(
            self,
            instructions=tuple(_retarget(one, firsts) for one in instructions),
            symbols=tuple(_rebase_symbol(one, firsts, lasts) for one in self.symbols),
            kernels=tuple(_rebase_kernel(one, firsts, lasts) for one in self.kernels),
            next_id=self.next_id + len(added),
            origin=self.origin or self,
        )
        edited._refuse_empty_ranges()
        return edited

    def _refuse_empty_ranges(self) -> None:
        places = self._places()
        for symbol in self.symbols:
            first, last = symbol.first_id, symbol.last_id
            if last is not None and (first is None or places[first] > places[last]):
                raise UsageError(f"{symbol.name} would have no instructions left")


def _rebase_symbol(symbol: TextSymbol, firsts: _Redirect, lasts: _Redirect) -> TextSymbol:
    first, last = symbol.first_id, symbol.last_id
    if last is not None and lasts.get(last, last) is None:
        raise UsageError(f"{symbol.name} would have no instructions left")
    return dataclasses.replace(
        symbol,
        first_id=firsts.get(first, first) if first is not None else None,
        last_id=lasts.get(last, last) if last is not None else None,
    )


def _rebase_kernel(
    kernel: ListingKernel,
    firsts: _Redirect,
    lasts: _Redirect,
) -> ListingKernel:
    first = firsts.get(kernel.first_id, kernel.first_id)
    last = lasts.get(kernel.last_id, kernel.last_id)
    body = firsts.get(kernel.body_id, kernel.body_id)
    if first is None or last is None or body is None:
        raise UsageError(f"kernel {kernel.name} would have no instructions left")
    return dataclasses.replace(kernel, first_id=first, last_id=last, body_id=body)


def _retarget(one: Instruction, firsts: _Redirect) -> Instruction:
    if one.target is None or one.target not in firsts:
        return one
    target = firsts[one.target]
    head, comma, _ = one.operands.rpartition(", ")
    label = END_LABEL if target is None else label_of(target)
    return dataclasses.replace(one, operands=f"{head}{comma}{label}", target=target)
