"""Software-managed distances: pairs of instructions that stand too close on some path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from asmevo.codeobject.analysis.control_flow import AnalysisRefusal, Program
from asmevo.codeobject.analysis.effect import Effect
from asmevo.codeobject.analysis.hazard_rules import SUPPORTED_ARCHS, Traits, find_requirements
from asmevo.codeobject.analysis.memory_clause import (
    CLAUSE_UNITS,
    breaks_clause,
    extend_clause,
    find_clause_faults,
)
from asmevo.codeobject.instruction import Instruction

__all__ = [
    "Distances",
    "Hazard",
    "HazardDistances",
    "count_wait_states",
    "find_hazards",
]

_LONGEST_REACH = 20
_FAR = 99

Distances = dict[int, int]
"""Wait states since the producer at each position, the least over all paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """A consumer that follows its producer too closely; both are instruction ids."""

    producer: int
    consumer: int
    rule: str
    required: int
    actual: int

    def __str__(self) -> str:
        """One sentence with both instruction ids."""
        return (
            f"{self.rule}: {self.actual} of {self.required} wait states between instructions "
            f"{self.producer} and {self.consumer}"
        )


def count_wait_states(instruction: Instruction) -> int:
    """Wait states an instruction gives: one, or N+1 for `s_nop N` (four bits of N)."""
    if instruction.mnemonic == "s_nop":
        return (int(instruction.operands, 0) & 15) + 1
    return 1


def find_hazards(program: Program, arch: str) -> tuple[Hazard, ...]:
    """All pairs too close, over all paths and loop back-edges; empty for correct code.

    Raises:
        AnalysisRefusal: no rules are known for the chip.
    """
    return HazardDistances(program, arch).find_hazards()


class HazardDistances:
    """Recent producers in front of each reachable block, loop back-edges included.

    Raises:
        AnalysisRefusal: no rules are known for the chip.
    """

    def __init__(self, program: Program, arch: str) -> None:
        """Run the data flow to its fixed point."""
        if arch not in SUPPORTED_ARCHS:
            raise AnalysisRefusal(f"no hazard rules are known for {arch}")
        self._program = program
        self._arch = arch
        self._traits = tuple(Traits(effect=effect) for effect in program.effects)
        self._before: dict[int, Distances] = {index: {} for index in program.order}
        pending = list(program.order)
        while pending:
            index = pending.pop(0)
            after = dict(self._before[index])
            for position in self._positions(index):
                after = self._advance(position, after)
            for successor in program.blocks[index].successors:
                known = self._before[successor]
                nearer = {at: d for at, d in after.items() if d < known.get(at, _FAR)}
                if nearer:
                    known.update(nearer)
                    if successor not in pending:
                        pending.append(successor)

    def before(self, block: int) -> Distances:
        """Producers in front of a block."""
        return self._before[block]

    def find_hazards(self) -> tuple[Hazard, ...]:
        """All pairs too close."""
        found: dict[tuple[int, int, str], Hazard] = {}
        for block in self._program.order:
            for position, distances in self._walk(block):
                for hazard in self._check(position, distances):
                    found[hazard.producer, hazard.consumer, hazard.rule] = hazard
        return (*found.values(), *self._find_clause_hazards())

    def _find_clause_hazards(self) -> Iterator[Hazard]:
        for first, second in find_clause_faults(self._program):
            yield Hazard(
                producer=self._program.instructions[first].id,
                consumer=self._program.instructions[second].id,
                rule="xnack-clause",
                required=1,
                actual=0,
            )

    def count_slack(self, position: int) -> int:
        """How many of an instruction's wait states no hazard across it needs, on any path."""
        program = self._program
        walk = self._walk(program.block_at[position])
        producers = next(distances for at, distances in walk if at == position)
        slack = own = count_wait_states(program.instructions[position])
        if self._parts_clauses(position):
            slack -= 1
        pending = [(at, own) for at in self._followers(position)]
        seen = set(pending)
        while pending and slack:
            at, gone = pending.pop()
            for producer, distance in producers.items():
                for one in find_requirements(self._traits[producer], self._traits[at], self._arch):
                    if one.states:
                        slack = max(min(slack, distance + gone - one.states), 0)
            gone += count_wait_states(program.instructions[at])
            if gone < _LONGEST_REACH + own:
                new = {(following, gone) for following in self._followers(at)} - seen
                seen |= new
                pending += new
        return slack

    def _parts_clauses(self, position: int) -> bool:
        """True when the runs on both sides must not become one."""
        effects = self._program.effects
        clause: tuple[Effect, ...] = ()
        start = position
        while start and effects[start - 1].unit in CLAUSE_UNITS:
            start -= 1
        for effect in effects[start:position]:
            clause = extend_clause(clause, effect)
        for effect in effects[position + 1 :]:
            if not clause or clause[-1].unit is not effect.unit:
                return False
            if breaks_clause(clause, effect):
                return True
            clause = extend_clause(clause, effect)
        return False

    def _followers(self, position: int) -> tuple[int, ...]:
        block = self._program.blocks[self._program.block_at[position]]
        if position + 1 < block.end:
            return (position + 1,)
        return tuple(self._program.blocks[successor].start for successor in block.successors)

    def _positions(self, block: int) -> range:
        return range(self._program.blocks[block].start, self._program.blocks[block].end)

    def _walk(self, block: int) -> Iterator[tuple[int, Distances]]:
        distances = self._before[block]
        for position in self._positions(block):
            yield position, distances
            distances = self._advance(position, distances)

    def _advance(self, position: int, distances: Distances) -> Distances:
        states = count_wait_states(self._program.instructions[position])
        after = {
            producer: distance + states
            for producer, distance in distances.items()
            if distance + states < self._traits[producer].reach
        }
        if self._traits[position].reach:
            after[position] = 0
        return after

    def _check(self, position: int, distances: Distances) -> Iterator[Hazard]:
        instructions, consumer = self._program.instructions, self._traits[position]
        for producer, distance in distances.items():
            for requirement in find_requirements(self._traits[producer], consumer, self._arch):
                if distance < requirement.states:
                    yield Hazard(
                        producer=instructions[producer].id,
                        consumer=instructions[position].id,
                        rule=requirement.rule,
                        required=requirement.states,
                        actual=distance,
                    )
