"""Edits that break a kernel in the ways that programmers and optimizers do.

An edit is chosen by what it looks like; whether it changes what the kernel does is found out by
running it (`behaviour`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from asmevo.capture.bundle import Bundle
from asmevo.codeobject.code_object import Kernel
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover
from asmevo.errors import AsmevoError

__all__ = ["WRONG_EDITS", "Mutant", "find_mutants"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One edit, and the code object with it."""

    mutation: str
    text: str
    """The instruction that was edited."""
    offset: int
    code_object: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A kernel to break."""

    listing: Listing
    kernel: Kernel
    kernarg: bytes

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        return self.listing.kernel_instructions(self.kernel.name)


Edit = tuple[Instruction, Callable[[], Listing]]
"""Where, and what gives the edited listing or refuses."""
_STRICTER = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}
_BOUND = re.compile(r"(?P<start>[vs]_cmpx?_)(?P<test>lt|le|gt|ge)(?P<type>_[iu]\d+)(?P<rest>\w*)")
_MEMORY = re.compile(r"(buffer|global|ds)_")


def _operands(instruction: Instruction) -> list[str]:
    return re.split(r",\s*(?![^\[]*\])", instruction.operands)


def _replaced(source: Source, one: Instruction, *texts: str) -> Edit:
    return one, lambda: source.listing.replace(one.id, texts)


def _without(source: Source, one: Instruction) -> Edit:
    return one, lambda: source.listing.delete((one.id,))


def _off_by_one(source: Source) -> Iterator[Edit]:
    for one in source.instructions:
        if match := _BOUND.fullmatch(one.mnemonic):
            mnemonic = "".join(
                (match["start"], _STRICTER[match["test"]], match["type"], match["rest"])
            )
            yield _replaced(source, one, f"{mnemonic} {one.operands}")


def _deleted(mnemonic: str) -> Callable[[Source], Iterator[Edit]]:
    def edit(source: Source) -> Iterator[Edit]:
        for one in source.instructions:
            if one.mnemonic == mnemonic:
                yield _without(source, one)

    return edit


_ORDERED = re.compile(r"v_(sub|subrev|cndmask|fma|mad|perm|and_or|lshl_or|bfe|div_fixup)\w*")


def _swapped_registers(source: Source) -> Iterator[Edit]:
    for one in source.instructions:
        operands = _operands(one)
        if not _ORDERED.fullmatch(one.mnemonic) or len(operands) < 3 or "sdwa" in one.mnemonic:
            continue
        first, second = operands[-2:] if len(operands) > 3 else operands[1:3]
        if one.mnemonic.startswith("v_cndmask"):
            first, second = operands[1:3]
        if first == second or not all(re.fullmatch(r"-?v\d+", text) for text in (first, second)):
            continue
        swapped = [
            second if text == first else first if text == second else text for text in operands[1:]
        ]
        yield _replaced(source, one, f"{one.mnemonic} {', '.join([operands[0], *swapped])}")


def _wrong_register(source: Source) -> Iterator[Edit]:
    """A source register replaced by the one after it."""
    for one in source.instructions:
        match = re.fullmatch(r"(v\d+, v\d+, )v(\d+)", one.operands)
        if match and re.match(r"v_(add|mul|max|sub)_", one.mnemonic):
            yield _replaced(source, one, f"{one.mnemonic} {match[1]}v{max(0, int(match[2]) - 1)}")


def _truncated_offset(source: Source) -> Iterator[Edit]:
    for one in source.instructions:
        if _MEMORY.match(one.mnemonic) and (match := re.search(r" offset:(\d+)", one.operands)):
            operands = one.operands.replace(match[0], f" offset:{int(match[1]) & 0x1F}")
            if operands != one.operands:
                yield _replaced(source, one, f"{one.mnemonic} {operands}")
        elif match := re.fullmatch(r"v_(add_lshl|lshl_add)_u32", one.mnemonic):
            operands_list = _operands(one)
            at = 3 if match[1] == "add_lshl" else 2
            if operands_list[at].isdigit() and int(operands_list[at]) > 0:
                operands_list[at] = str(int(operands_list[at]) - 1)
                yield _replaced(source, one, f"{one.mnemonic} {', '.join(operands_list)}")


def _skipped_tail(source: Source) -> Iterator[Edit]:
    """Conditional branches that are never or always taken; loops then end early."""
    for one in source.instructions:
        if one.mnemonic.startswith("s_cbranch"):
            yield _without(source, one)


def _writes_past_end(source: Source) -> Iterator[Edit]:
    """The mask of a store dropped: its address, or EXEC around it, no longer depends on it."""
    listed = source.instructions
    for at, one in enumerate(listed):
        if not re.match(r"(buffer|global)_(store|atomic)", one.mnemonic):
            continue
        operands = _operands(one)
        address = operands[1] if one.mnemonic.startswith("buffer") else operands[0]
        for before in reversed(listed[:at]):
            own = _operands(before)
            if before.mnemonic.startswith("v_cndmask_b32") and own[0] == address:
                yield _replaced(source, before, f"v_mov_b32_e32 {own[0]}, {own[2]}")
                break
            if before.mnemonic == "s_and_saveexec_b64":
                yield _replaced(source, before, f"s_mov_b64 {own[0]}, exec")
                break
            if own[0] == address:
                break


def _unwritten_lds(source: Source) -> Iterator[Edit]:
    for one in source.instructions:
        if one.mnemonic.startswith("ds_write"):
            yield _without(source, one)
        elif one.mnemonic.startswith("ds_read") and "offset" not in one.operands:
            yield _replaced(source, one, f"{one.mnemonic} {one.operands} offset:4")


def _captured_size(source: Source) -> Iterator[Edit]:
    """A size argument replaced by its captured value, as constant specialisation does."""
    listed = source.instructions
    for argument in source.kernel.arguments:
        if argument.is_hidden or argument.is_pointer or argument.size != 4:
            continue
        value = int.from_bytes(source.kernarg[argument.offset :][:4], "little")
        found = _find_argument(source, argument.offset)
        if found is None or value == 0:
            continue
        at, register = found
        yield _followed(source, listed[at], f"s_mov_b32 s{register}, {value:#x}")


def _followed(source: Source, one: Instruction, text: str) -> Edit:
    return one, lambda: source.listing.insert_after(one.id, (text,))


def _find_argument(source: Source, offset: int) -> tuple[int, int] | None:
    """Position after which an SGPR holds the kernarg dword, and which SGPR."""
    fields, listed = source.kernel.fields, source.instructions
    dword = offset // 4
    first = fields.preload_offset
    if first <= dword < first + fields.preload_length:
        at = sum(size for bit, size in ((1, 4), (2, 2), (4, 2), (8, 2)) if fields.properties & bit)
        # The body begins behind the compatibility prologue, which ends with a branch.
        branch = next(i for i, one in enumerate(listed) if one.mnemonic == "s_branch")
        body = next(i for i, one in enumerate(listed) if i > branch and one.mnemonic != "s_nop")
        return body, at + dword - first
    for index, one in enumerate(listed):
        match = re.fullmatch(r"s\[?(\d+)(?::(\d+))?\]?, s\[\d+:\d+\], (0x[0-9a-f]+)", one.operands)
        if one.mnemonic.startswith("s_load_dword") and match:
            start, base = int(match[3], 16), int(match[1])
            if start <= offset <= start + 4 * (int(match[2] or base) - base):
                wait = next(
                    i
                    for i, later in enumerate(listed)
                    if i > index
                    and later.mnemonic == "s_waitcnt"
                    and "lgkmcnt(0)" in later.operands
                )
                return wait, base + (offset - start) // 4
    return None


def _wrong_constant(source: Source) -> Iterator[Edit]:
    for one in source.instructions:
        match = re.fullmatch(r"(s\d+|v\d+), (0x[0-9a-f]{5,8})", one.operands)
        if match and one.mnemonic in ("s_mov_b32", "v_mov_b32_e32"):
            yield _replaced(source, one, f"{one.mnemonic} {match[1]}, {int(match[2], 16) + 4:#x}")


def _dropped_instruction(source: Source) -> Iterator[Edit]:
    for one in source.instructions:
        if re.match(r"v_(add|mul|max|fma|exp|lshlrev|xor)", one.mnemonic):
            yield _without(source, one)


def _unwritten_register(source: Source) -> Iterator[Edit]:
    """The maximum with a register that nobody wrote: the device's usual NaN does not show."""
    free = source.kernel.fields.accum_offset - 1
    if any(re.search(rf"\bv{free}\b", one.operands) for one in source.instructions):
        return
    for one in source.instructions:
        result = _operands(one)[0]
        is_float = re.match(r"v_(add|mul|max|exp|fma|fmac)_f32", one.mnemonic)
        if is_float and re.fullmatch(r"v\d+", result):
            yield _followed(source, one, f"v_max_f32_e32 {result}, {result}, v{free}")


def _early_barrier(source: Source) -> Iterator[Edit]:
    """The barrier in front of the LDS wait that it stood behind."""
    listed = source.instructions
    for before, one in pairwise(listed):
        if one.mnemonic == "s_barrier" and before.mnemonic == "s_waitcnt":
            yield _exchanged(source, before, one)


def _exchanged(source: Source, before: Instruction, one: Instruction) -> Edit:
    return one, lambda: source.listing.replace(before.id, (one.text,)).replace(
        one.id, (before.text,)
    )


WRONG_EDITS: dict[str, Callable[[Source], Iterator[Edit]]] = {
    "off-by-one bound": _off_by_one,
    "dropped wait": _deleted("s_waitcnt"),
    "swapped registers": _swapped_registers,
    "wrong register": _wrong_register,
    "lost barrier": _deleted("s_barrier"),
    "barrier before its wait": _early_barrier,
    "truncated offset": _truncated_offset,
    "skipped tail": _skipped_tail,
    "write past the end": _writes_past_end,
    "unwritten LDS": _unwritten_lds,
    "unwritten register": _unwritten_register,
    "captured size only": _captured_size,
    "wrong constant": _wrong_constant,
    "dropped instruction": _dropped_instruction,
    "dropped wait states": _deleted("s_nop"),
}
"""By what was done to the kernel."""


def find_mutants(bundle: Bundle, limit: int) -> Iterator[Mutant]:
    """At most `limit` mutants of each kind, spread over the kernel."""
    data = bundle.code_object()
    listing = recover(data)
    kernel = next(
        one for one in listing.source.kernels if one.name == bundle.manifest.dispatch.kernel
    )
    source = Source(listing=listing, kernel=kernel, kernarg=bundle.kernarg())
    for mutation, edit in WRONG_EDITS.items():
        yield from _spread(mutation, list(edit(source)), limit)


def _spread(mutation: str, edits: list[Edit], limit: int) -> Iterator[Mutant]:
    step = max(1, len(edits) // limit)
    count = 0
    for one, apply in edits[::step]:
        try:
            data = rebuild_listing(apply())
        except AsmevoError:  # an instruction that the listing pins, or text that is no instruction
            continue
        yield Mutant(mutation=mutation, text=one.text, offset=one.offset, code_object=data)
        count += 1
        if count == limit:
            return
