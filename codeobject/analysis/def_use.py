"""Which definitions may reach each use of a register, across blocks and around loops.

A definition ends earlier ones only where it certainly writes the whole register in every lane that
matters (`find_full_writes`). A vector write under a mask that may be partial, and one that keeps a
part of its destination, are merges: what they leave of the old value reaches the same uses.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from asmevo.codeobject.analysis.control_flow import Program
from asmevo.codeobject.analysis.exec_state import ExecState, find_full_writes
from asmevo.codeobject.analysis.register import RegisterSet, iterate_registers

__all__ = ["ENTRY", "DefUse", "Use", "analyse_def_use"]

ENTRY = -1
"""The definition that a register has when the kernel starts."""

Use = tuple[int, int]
"""A position, and the number of a register that it reads."""


@dataclass(frozen=True, kw_only=True)
class DefUse:
    """Definitions and uses by position; a register by its number (`register`)."""

    program: Program
    full_writes: tuple[RegisterSet, ...]
    """For each position the registers whose earlier values it ends."""
    positions: dict[int, tuple[int, ...]]
    """For each register the reachable positions that write it, in order."""
    first_bits: dict[int, int]
    """For each register the number of its entry definition; that of its writes follow."""
    reaching_blocks: dict[int, int]
    """For each reachable block the definitions that may reach its start, as bits."""

    def reaching(self, position: int, register: int) -> frozenset[int]:
        """Definitions of the register that may hold in front of the position, `ENTRY` among them.

        Positions of instructions; nothing for an unreachable position.
        """
        program = self.program
        block = program.blocks[program.block_at[position]]
        if block.index not in self.reaching_blocks:
            return frozenset()
        written = self.positions.get(register)
        if written is None:
            return frozenset((ENTRY,))
        found = []
        at = bisect_left(written, position)
        while at and written[at - 1] >= block.start:
            at -= 1
            found.append(written[at])
            if self.full_writes[written[at]] >> register & 1:
                return frozenset(found)
        return frozenset(found) | self._reaching_block(block.index, register)

    def uses(self, position: int, register: int) -> frozenset[int]:
        """Positions that may read what the position, or the entry, gives the register."""
        return self._uses.get((position, register), frozenset())

    def is_dead(self, position: int) -> bool:
        """True when nothing may read any register that the position writes."""
        writes = self.program.effects[position].writes
        return not any(self.uses(position, register) for register in iterate_registers(writes))

    @cached_property
    def chains(self) -> dict[Use, frozenset[int]]:
        """For every use of every reachable instruction the definitions that may reach it."""
        return {
            (position, register): self.reaching(position, register)
            for position, register in self._find_uses()
        }

    @cached_property
    def _uses(self) -> dict[tuple[int, int], frozenset[int]]:
        found: dict[tuple[int, int], set[int]] = {}
        for (position, register), definitions in self.chains.items():
            for definition in definitions:
                found.setdefault((definition, register), set()).add(position)
        return {key: frozenset(positions) for key, positions in found.items()}

    def _find_uses(self) -> Iterator[Use]:
        program = self.program
        for index in program.order:
            block = program.blocks[index]
            for position in range(block.start, block.end):
                for register in iterate_registers(program.effects[position].reads):
                    yield position, register

    def _reaching_block(self, block: int, register: int) -> frozenset[int]:
        written = self.positions[register]
        bits = self.reaching_blocks[block] >> self.first_bits[register]
        bits &= (1 << (len(written) + 1)) - 1
        return frozenset(written[bit - 1] if bit else ENTRY for bit in iterate_registers(bits))


def analyse_def_use(program: Program, exec_state: ExecState) -> DefUse:
    """Reaching definitions: forward data flow to a fixed point, joined by union."""
    full_writes = find_full_writes(program, exec_state)
    positions = _find_writes(program)
    first_bits: dict[int, int] = {}
    next_bit = 0
    for register, written in positions.items():
        first_bits[register] = next_bit
        next_bit += len(written) + 1
    made, kept = _summarise_blocks(program, full_writes, positions, first_bits)
    before = dict.fromkeys(program.order, 0)
    for entry in program.entries:
        for first in first_bits.values():
            before[entry] |= 1 << first
    pending = set(program.order)
    while pending:
        for index in program.order:
            if index not in pending:
                continue
            pending.discard(index)
            after = before[index] & kept[index] | made[index]
            for successor in program.blocks[index].successors:
                if after & ~before[successor]:
                    before[successor] |= after
                    pending.add(successor)
    return DefUse(
        program=program,
        full_writes=full_writes,
        positions=positions,
        first_bits=first_bits,
        reaching_blocks=before,
    )


def _find_writes(program: Program) -> dict[int, tuple[int, ...]]:
    found: dict[int, list[int]] = {}
    for index in sorted(program.order):
        block = program.blocks[index]
        for position in range(block.start, block.end):
            for register in iterate_registers(program.effects[position].writes):
                found.setdefault(register, []).append(position)
    return {register: tuple(written) for register, written in found.items()}


def _summarise_blocks(
    program: Program,
    full_writes: tuple[RegisterSet, ...],
    positions: dict[int, tuple[int, ...]],
    first_bits: dict[int, int],
) -> tuple[dict[int, int], dict[int, int]]:
    """For each block the definitions that it makes, and those that it lets through."""
    made = dict.fromkeys(program.order, 0)
    kept = dict.fromkeys(program.order, -1)
    for register, written in positions.items():
        first = first_bits[register]
        every = ((1 << (len(written) + 1)) - 1) << first
        for bit, position in enumerate(written, first + 1):
            block = program.block_at[position]
            if full_writes[position] >> register & 1:
                kept[block] &= ~every
                made[block] &= ~every
            made[block] |= 1 << bit
    return made, kept
