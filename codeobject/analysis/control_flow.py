"""Basic blocks, edges, reachability, dominators and loops of one kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from asmevo.codeobject.analysis.dominance import (
    DominatorTree,
    build_dominator_tree,
    reverse_post_order,
)
from asmevo.codeobject.analysis.effect import Effect
from asmevo.codeobject.analysis.effects import effect_of
from asmevo.codeobject.analysis.loops import LoopForest, find_loops
from asmevo.codeobject.instruction import Instruction
from asmevo.errors import CodeObjectError

__all__ = ["AnalysisRefusal", "Block", "Program", "read_program"]


class AnalysisRefusal(CodeObjectError):
    """An analysis does not answer for this kernel; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Instructions at positions `start` to `end` (exclusive) that always run together."""

    index: int
    start: int
    end: int
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Program:
    """One kernel: instructions by position, their effects, and how control flows between blocks."""

    instructions: tuple[Instruction, ...]
    effects: tuple[Effect, ...]
    blocks: tuple[Block, ...]
    entries: tuple[int, ...]
    """Indices of the blocks where the hardware may start."""

    @cached_property
    def position_of(self) -> dict[int, int]:
        """Position of each instruction id."""
        return {instruction.id: at for at, instruction in enumerate(self.instructions)}

    @cached_property
    def block_at(self) -> tuple[int, ...]:
        """Index of the block of each position."""
        return tuple(block.index for block in self.blocks for _ in range(block.start, block.end))

    @cached_property
    def reachable(self) -> frozenset[int]:
        """Indices of the blocks that some path from an entry reaches."""
        return frozenset(self.order)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Reachable blocks in reverse post-order: predecessors first, save for loop back-edges."""
        return reverse_post_order(self._successors, self.entries)

    @cached_property
    def dominators(self) -> DominatorTree:
        """Which reachable blocks every path from an entry to a block passes."""
        return build_dominator_tree(self._successors, self._predecessors, self.entries)

    @cached_property
    def post_dominators(self) -> DominatorTree:
        """Which blocks every path from a reachable block to the end of the program passes.

        A block from which no path leads to an end (of an endless loop) is not in the tree.
        """
        ends = [index for index in self.order if not self.blocks[index].successors]
        reachable = self.reachable
        backward = [
            [at for at in block.predecessors if at in reachable] if block.index in reachable else []
            for block in self.blocks
        ]
        return build_dominator_tree(backward, self._successors, ends)

    @cached_property
    def loops(self) -> LoopForest:
        """Natural loops with their nesting, and cycles that are none."""
        return find_loops(self.order, self._successors, self._predecessors, self.dominators)

    @cached_property
    def _successors(self) -> tuple[tuple[int, ...], ...]:
        return tuple(block.successors for block in self.blocks)

    @cached_property
    def _predecessors(self) -> tuple[tuple[int, ...], ...]:
        return tuple(block.predecessors for block in self.blocks)


def read_program(instructions: Sequence[Instruction], entries: Iterable[int]) -> Program:
    """Blocks and effects of the instructions of one kernel that starts at the ids `entries`.

    Raises:
        AnalysisRefusal: a reachable instruction is unknown, control leaves the kernel, or an entry
            is missing.
    """
    listed = tuple(instructions)
    if not listed:
        raise AnalysisRefusal("the kernel has no instructions")
    effects = tuple(effect_of(instruction) for instruction in listed)
    positions = {instruction.id: at for at, instruction in enumerate(listed)}
    missing = [entry for entry in entries if entry not in positions]
    if missing:
        raise AnalysisRefusal(f"the entry {missing[0]} is not an instruction of the kernel")
    starts = _find_block_starts(listed, effects, positions, entries)
    blocks = _connect(listed, effects, positions, starts)
    block_of = {block.start: block.index for block in blocks}
    entry_blocks = tuple(sorted({block_of[positions[entry]] for entry in entries}))
    program = Program(instructions=listed, effects=effects, blocks=blocks, entries=entry_blocks)
    _refuse_what_is_not_understood(program)
    return program


def _find_block_starts(
    instructions: tuple[Instruction, ...],
    effects: tuple[Effect, ...],
    positions: dict[int, int],
    entries: Iterable[int],
) -> list[int]:
    starts = {0} | {positions[entry] for entry in entries}
    for at, (instruction, effect) in enumerate(zip(instructions, effects, strict=True)):
        if effect.is_terminator and at + 1 < len(instructions):
            starts.add(at + 1)
        if instruction.target is not None and instruction.target in positions:
            starts.add(positions[instruction.target])
    return sorted(starts)


def _connect(
    instructions: tuple[Instruction, ...],
    effects: tuple[Effect, ...],
    positions: dict[int, int],
    starts: list[int],
) -> tuple[Block, ...]:
    index_of = {start: index for index, start in enumerate(starts)}
    successors: list[tuple[int, ...]] = []
    predecessors: list[list[int]] = [[] for _ in starts]
    for index in range(len(starts)):
        end = starts[index + 1] if index + 1 < len(starts) else len(instructions)
        last, effect = instructions[end - 1], effects[end - 1]
        following: list[int] = []
        if last.target is not None and last.target in positions:
            following.append(index_of[positions[last.target]])
        falls = not effect.is_terminator or effect.base.startswith("s_cbranch")
        if falls and end < len(instructions):
            following.append(index_of[end])
        successors.append(tuple(dict.fromkeys(following)))
        for at in successors[-1]:
            predecessors[at].append(index)
    ends = [*starts[1:], len(instructions)]
    return tuple(
        Block(
            index=index,
            start=start,
            end=end,
            successors=successors[index],
            predecessors=tuple(predecessors[index]),
        )
        for index, (start, end) in enumerate(zip(starts, ends, strict=True))
    )


def _refuse_what_is_not_understood(program: Program) -> None:
    for index in program.order:
        block = program.blocks[index]
        for at in range(block.start, block.end):
            effect, instruction = program.effects[at], program.instructions[at]
            if effect.unknown is not None:
                raise AnalysisRefusal(f"{instruction.text!r} is not understood: {effect.unknown}")
            is_branch = effect.is_terminator and effect.base != "s_endpgm"
            if is_branch and instruction.target not in program.position_of:
                raise AnalysisRefusal(f"{instruction.text!r} leaves the kernel")
        last = program.effects[block.end - 1]
        conditional = last.base.startswith("s_cbranch")
        if (not last.is_terminator or conditional) and block.end == len(program.instructions):
            raise AnalysisRefusal("control runs off the end of the kernel")
