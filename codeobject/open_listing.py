"""A listing of any code object that can be read: to rebuild, or else to patch in place."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence

from asmevo.codeobject.branch import is_direct_branch
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.computed_jump import find_computed_jumps
from asmevo.codeobject.data_section import RELATIVE64, text_label
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.instruction_assembly import find_unfaithful
from asmevo.codeobject.listing import Listing, TextSymbol
from asmevo.codeobject.pc_relative import find_goal
from asmevo.codeobject.recover import find_kernel, find_prologue, recover, tie_symbol
from asmevo.codeobject.symbol_name import writable_symbols
from asmevo.codeobject.toolchain import disassemble
from asmevo.codeobject.unwind import find_code_pointers
from asmevo.errors import AssemblerError, CodeObjectError

__all__ = ["open_listing", "take_in_place"]

_log = logging.getLogger(__name__)


def open_listing(data: bytes) -> Listing:
    """Recover the object; where that fails or edits are blocked, a listing for edits in place.

    Raises:
        CodeObjectError: not a usable code object.
    """
    try:
        listing = recover(data)
    except (CodeObjectError, AssemblerError) as error:
        _log.info("edits are patched in place: %s", error)
        return take_in_place(data)
    if not listing.edit_blockers:
        return listing
    _log.info("edits are patched in place: %s", listing.edit_blockers[0])
    return take_in_place(data)


def take_in_place(data: bytes) -> Listing:
    """A listing whose edits are patched into `data`: they must fit, and nothing else changes.

    Raises:
        CodeObjectError: not a usable code object.
    """
    source = CodeObject.read(data)
    if not source.kernels:
        raise CodeObjectError("code object without kernels")
    decoded = disassemble(source.text.data, source.target)
    starts = {one.offset: one.id for one in decoded}
    unfaithful = find_unfaithful(
        [one for one in decoded if one.mnemonic != ".long"], source.target_id
    )
    sequences, goals, limits = _find_sequences(source, decoded)
    symbols, more = _tie_symbols(source, decoded, starts, goals)
    astray = [one for one in decoded if is_direct_branch(one.mnemonic) and ".L" not in one.operands]
    understood = frozenset(one for ids in sequences if len(ids) == 3 for one in ids)
    firsts = {one.first_id for one in symbols if one.type == "STT_FUNC"}
    functions = frozenset(one.offset for one in decoded if one.id in firsts)
    limits += [*more, *find_computed_jumps(decoded, understood, functions)]
    limits += [f"branch at .text+{one.offset:#x} does not go to an instruction" for one in astray]
    prologue = find_prologue(source, starts)
    return Listing(
        source=source,
        base=source,
        instructions=tuple(
            dataclasses.replace(one, needs_bytes=one.id in unfaithful) for one in decoded
        ),
        kernels=tuple(find_kernel(one, source, decoded, starts) for one in source.kernels),
        symbols=symbols,
        pinned=prologue.union(*sequences, (one.id for one in astray)),
        glued=prologue.union(*(ids[:2] for ids in sequences)),
        edit_blockers=(),
        next_id=len(decoded),
        raw_descriptors=frozenset(),
        has_raw_metadata=False,
        is_in_place=True,
        patch_limits=tuple(limits),
    )


def _find_sequences(
    source: CodeObject, decoded: Sequence[Instruction]
) -> tuple[list[tuple[int, ...]], set[int], list[str]]:
    """Ids of pc-relative sequences, the text offsets that they mean, and what is not understood."""
    sequences: list[tuple[int, ...]] = []
    goals: set[int] = set()
    limits = []
    for place, one in enumerate(decoded):
        if one.mnemonic != "s_getpc_b64":
            continue
        goal = find_goal(source, decoded, place)
        if goal is None:
            sequences.append((one.id,))
            limits.append(f"s_getpc_b64 at .text+{one.offset:#x} is not understood")
            continue
        sequences.append((one.id, decoded[place + 1].id, decoded[place + 2].id))
        if source.text.holds(goal):
            goals.add(goal - source.text.address)
    return sequences, goals, limits


def _tie_symbols(
    source: CodeObject,
    decoded: Sequence[Instruction],
    starts: dict[int, int],
    goals: set[int],
) -> tuple[tuple[TextSymbol, ...], list[str]]:
    """Everything that has an address in the code; what stands inside an instruction is a limit."""
    text = source.text
    entries = {one.entry_offset for one in source.kernels}
    symbols, limits = [], []
    for one in writable_symbols(source):
        if one.section != text.index:
            continue
        try:
            is_entry = one.value - text.address in entries
            symbols.append(tie_symbol(one, source, decoded, starts, is_entry=is_entry))
        except CodeObjectError as error:
            limits.append(str(error))
    pointed = {one.addend for one in source.relocations if one.type == RELATIVE64}
    pointed |= {one.goal for one in find_code_pointers(source)}
    goals = goals | {one - text.address for one in pointed if text.holds(one)}
    for offset in sorted(goals):
        if offset not in starts:
            limits.append(f"an address inside an instruction, .text+{offset:#x}, is referred to")
            continue
        symbols.append(
            TextSymbol(
                name=text_label(offset),
                first_id=starts[offset],
                last_id=None,
                type="STT_NOTYPE",
                binding="STB_LOCAL",
                visibility="STV_DEFAULT",
                alignment=4,
            )
        )
    return tuple(symbols), limits
