"""Address computations from the program counter: `s_getpc_b64` and what is added to it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.data_section import address_label, data_sections, text_label
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.symbol_name import quote_symbol

__all__ = ["PcRelative", "find_goal", "got_symbol", "symbolize_pc_relative", "undefined_symbols"]

_PAIR = re.compile(r"s\[(\d+):(\d+)\]")
# Literals stand in the second word; a hand-written sum may use inline constants, which no
# relocation can fill.
_LITERAL_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PcRelative:
    """What symbolizing found."""

    instructions: tuple[Instruction, ...]
    """The input with `symbol@rel32@lo+4` and `symbol@rel32@hi+12` as addends."""
    sequence_ids: tuple[tuple[int, int, int], ...]
    """Ids of `s_getpc_b64`, `s_add_u32` and `s_addc_u32` of each understood sequence."""
    text_offsets: frozenset[int]
    """Offsets of `.text` that sequences refer to."""
    problems: tuple[str, ...]
    """One line for each sequence that is not understood."""


def symbolize_pc_relative(source: CodeObject, instructions: Sequence[Instruction]) -> PcRelative:
    """Give every understood sequence a symbol, so that code can move under it.

    Understood is the form that LLVM emits: the three instructions in a row on the same register
    pair, with literals, to an address inside a section that recovery emits.
    """
    changed = list(instructions)
    sequences: list[tuple[int, int, int]] = []
    text_offsets: set[int] = set()
    problems: list[str] = []
    for place, one in enumerate(instructions):
        if one.mnemonic != "s_getpc_b64":
            continue
        goal = find_goal(source, instructions, place)
        name = _name_of(source, goal) if goal is not None else None
        if goal is None or name is None:
            problems.append(
                f"s_getpc_b64 at .text+{one.offset:#x} is used in a way that is not understood"
            )
            continue
        if source.text.holds(goal):
            text_offsets.add(goal - source.text.address)
        kind = "gotpcrel32" if name.startswith("@") else "rel32"
        for number, suffix in ((place + 1, f"@{kind}@lo+4"), (place + 2, f"@{kind}@hi+12")):
            step = instructions[number]
            head, comma, _ = step.operands.rpartition(", ")
            changed[number] = dataclasses.replace(
                step, operands=f"{head}{comma}{name.lstrip('@')}{suffix}"
            )
        sequences.append((one.id, instructions[place + 1].id, instructions[place + 2].id))
    return PcRelative(
        instructions=tuple(changed),
        sequence_ids=tuple(sequences),
        text_offsets=frozenset(text_offsets),
        problems=tuple(problems),
    )


def find_goal(source: CodeObject, instructions: Sequence[Instruction], place: int) -> int | None:
    """Address that the sequence at `place` computes, or None when it is not of the understood
    form."""
    pair = _PAIR.fullmatch(instructions[place].operands)
    if pair is None or place + 2 >= len(instructions):
        return None
    low, high = instructions[place + 1], instructions[place + 2]
    for step, name, register in ((low, "s_add_u32", pair[1]), (high, "s_addc_u32", pair[2])):
        parts = step.operands.split(", ")
        if step.mnemonic != name or len(step.data) != _LITERAL_BYTES or len(parts) != 3:
            return None
        if parts[:2] != [f"s{register}", f"s{register}"]:
            return None
    base = source.text.address + low.offset
    addend = int.from_bytes(low.data[4:] + high.data[4:], "little", signed=True)
    return base + addend


def _name_of(source: CodeObject, goal: int) -> str | None:
    if source.text.holds(goal):
        return text_label(goal - source.text.address)
    got = source.section(".got")
    if got is not None and got.holds(goal, 8):
        return got_symbol(source, goal)
    if any(one.holds(goal, 0) for one in data_sections(source)):
        return address_label(goal)
    return None


def got_symbol(source: CodeObject, slot: int) -> str | None:
    """`@name` of the symbol whose address the linker put into this slot of the table."""
    for relocation in source.relocations:
        if relocation.address != slot:
            continue
        if relocation.symbol:
            return f"@{quote_symbol(relocation.symbol)}"
        for symbol in (*source.dynamic_symbols, *source.symbols):
            if (
                symbol.value == relocation.addend
                and symbol.section
                and symbol.binding != "STB_LOCAL"
            ):
                return f"@{quote_symbol(symbol.name)}"
        return None
    name = undefined_symbols(source).get(slot)
    return f"@{quote_symbol(name)}" if name else None


def undefined_symbols(source: CodeObject) -> dict[int, str]:
    """Slots of the table that stay null, with the weak symbols that are not defined anywhere.

    The linker resolves them when they are hidden. It fills the table in the order of the code, and
    a stripped object needs other names.
    """
    got = source.section(".got")
    if got is None or not got.is_allocated:
        return {}
    relocated = {one.address for one in source.relocations}
    empty = [
        got.address + at
        for at in range(0, len(got.data) - 7, 8)
        if got.address + at not in relocated and not any(got.data[at : at + 8])
    ]
    names = [
        one.name
        for one in source.symbols
        if one.binding == "STB_WEAK" and one.section is None and not one.is_absolute and one.name
    ]
    if len(names) != len(empty):
        names = [f"asmevo.undefined.{number}" for number in range(len(empty))]
    return dict(zip(empty, names, strict=True))
