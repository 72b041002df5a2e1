"""Software-managed distances: pairs of instructions that stand too close on some path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from asmevo.codeobject.analysis.control_flow import AnalysisRefusal, Program
from asmevo.codeobject.analysis.effect import Effect
from asmevo.codeobject.analysis.hazard_rules import (
    SUPPORTED_ARCHS,
    Requirement,
    Traits,
    find_requirements,
)
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
        self._states = tuple(count_wait_states(one) for one in program.instructions)
        self._before: dict[int, Distances] = {index: {} for index in program.order}
        own = {index: self._summarise(index) for index in program.order}
        pending = set(program.order)
        while pending:
            for index in program.order:
                if index not in pending:
                    continue
                pending.discard(index)
                after = self._pass_block(index, *own[index])
                for successor in program.blocks[index].successors:
                    known = self._before[successor]
                    nearer = {at: d for at, d in after.items() if d < known.get(at, _FAR)}
                    if nearer:
                        known.update(nearer)
                        pending.add(successor)

    def _summarise(self, block: int) -> tuple[Distances, int]:
        """The block's own producers by their distance from its end, and its wait states."""
        own: Distances = {}
        distance = 0
        for position in reversed(self._positions(block)):
            if distance >= _LONGEST_REACH:
                break
            if distance < self._traits[position].reach:
                own[position] = distance
            distance += self._states[position]
        return own, distance

    def _pass_block(self, block: int, own: Distances, states: int) -> Distances:
        after = {
            producer: distance + states
            for producer, distance in self._before[block].items()
            if distance + states < self._traits[producer].reach
        }
        return after | own

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
        slack = own = self._states[position]
        if self._parts_clauses(position):
            slack -= 1
        pending = [(at, own) for at in self._followers(position)]
        seen = set(pending)
        while pending and slack:
            at, gone = pending.pop()
            for producer, distance in producers.items():
                for one in self._requirements(producer, at):
                    if one.states:
                        slack = max(min(slack, distance + gone - one.states), 0)
            gone += self._states[at]
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
        """Each position with the producers in front of it that are not out of reach."""
        distances = self._before[block]
        for position in self._positions(block):
            yield position, distances
            states = self._states[position]
            distances = {
                producer: distance + states
                for producer, distance in distances.items()
                if distance + states < self._traits[producer].reach
            }
            if self._traits[position].reach:
                distances[position] = 0

    def _requirements(self, producer: int, consumer: int) -> Iterator[Requirement]:
        first, second = self._traits[producer], self._traits[consumer]
        if first.triggers & second.touches:
            yield from find_requirements(first, second, self._arch)

    def _check(self, position: int, distances: Distances) -> Iterator[Hazard]:
        instructions = self._program.instructions
        for producer, distance in distances.items():
            for requirement in self._requirements(producer, position):
                if distance < requirement.states:
                    yield Hazard(
                        producer=instructions[producer].id,
                        consumer=instructions[position].id,
                        rule=requirement.rule,
                        required=requirement.states,
                        actual=distance,
                    )
