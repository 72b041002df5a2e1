"""Software-managed distances: pairs of instructions that stand too close on some path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from asmevo.codeobject.analysis.control_flow import AnalysisRefusal, Program
from asmevo.codeobject.analysis.hazard_rules import SUPPORTED_ARCHS, Traits, find_requirements
from asmevo.codeobject.instruction import Instruction

__all__ = ["Distances", "Hazard", "analyse_distances", "count_wait_states", "find_hazards"]

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
    if arch not in SUPPORTED_ARCHS:
        raise AnalysisRefusal(f"no hazard rules are known for {arch}")
    traits = tuple(Traits(effect=effect) for effect in program.effects)
    before = _analyse(program, traits)
    found: dict[tuple[int, int, str], Hazard] = {}
    for block in program.order:
        for position, distances in _walk(program, traits, block, before[block]):
            for hazard in _check(program, traits, position, distances, arch):
                found[hazard.producer, hazard.consumer, hazard.rule] = hazard
    return tuple(found.values())


def analyse_distances(program: Program) -> dict[int, Distances]:
    """Recent producers in front of each reachable block, loop back-edges included."""
    return _analyse(program, tuple(Traits(effect=effect) for effect in program.effects))


def _analyse(program: Program, traits: tuple[Traits, ...]) -> dict[int, Distances]:
    before: dict[int, Distances] = {index: {} for index in program.order}
    pending = list(program.order)
    while pending:
        index = pending.pop(0)
        after = dict(before[index])
        for position in _positions(program, index):
            after = _advance(program, traits, position, after)
        for successor in program.blocks[index].successors:
            known = before[successor]
            nearer = {at: d for at, d in after.items() if d < known.get(at, 99)}
            if nearer:
                known.update(nearer)
                if successor not in pending:
                    pending.append(successor)
    return before


def _positions(program: Program, block: int) -> range:
    return range(program.blocks[block].start, program.blocks[block].end)


def _walk(
    program: Program, traits: tuple[Traits, ...], block: int, distances: Distances
) -> Iterator[tuple[int, Distances]]:
    for position in _positions(program, block):
        yield position, distances
        distances = _advance(program, traits, position, distances)


def _advance(
    program: Program, traits: tuple[Traits, ...], position: int, distances: Distances
) -> Distances:
    states = count_wait_states(program.instructions[position])
    after = {
        producer: distance + states
        for producer, distance in distances.items()
        if distance + states < traits[producer].reach
    }
    if traits[position].reach:
        after[position] = 0
    return after


def _check(
    program: Program,
    traits: tuple[Traits, ...],
    position: int,
    distances: Distances,
    arch: str,
) -> Iterator[Hazard]:
    for producer, distance in distances.items():
        for requirement in find_requirements(traits[producer], traits[position], arch):
            if distance < requirement.states:
                yield Hazard(
                    producer=program.instructions[producer].id,
                    consumer=program.instructions[position].id,
                    rule=requirement.rule,
                    required=requirement.states,
                    actual=distance,
                )
