"""Which memory operations may be outstanding at each point, and how wait counters order them.

For every outstanding operation the analysis keeps how many younger operations of the same counter
were issued behind it, the least over all paths: `s_waitcnt vmcnt(n)` retires it when n is at most
that. vmcnt is one in-order queue of loads and stores on gfx9; lgkmcnt is in order for LDS alone,
while scalar loads and messages return out of order, so with one of them outstanding only lgkmcnt(0)
proves anything; FLAT breaks the order of both (LLVM's SIInsertWaitcnts draws the same lines).

A loop issues the same instruction again while its last results are still on their way: a wait that
leaves one iteration outstanding differs from one that leaves two. Instances tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from asmevo.codeobject.analysis.control_flow import AnalysisRefusal, Program
from asmevo.codeobject.analysis.effect import Access, Effect, Space, Unit
from asmevo.codeobject.analysis.register import RegisterSet, format_registers
from asmevo.codeobject.instruction import Instruction

__all__ = [
    "COUNTER_LIMITS",
    "Counter",
    "Instance",
    "WaitState",
    "WaitViolation",
    "Waits",
    "analyse_waits",
    "find_wait_violations",
    "format_wait",
    "parse_wait",
    "raises",
    "step_wait_state",
]


class Counter(StrEnum):
    """Wait counters of gfx9, in the order in which LLVM prints them.

    Exports and GDS raise EXP; both are refused, so that it is 0 wherever there is an answer.
    """

    VM = "vmcnt"
    EXP = "expcnt"
    LGKM = "lgkmcnt"


COUNTER_LIMITS: Mapping[Counter, int] = {Counter.VM: 63, Counter.EXP: 7, Counter.LGKM: 15}

Instance = tuple[int, int]
"""A position, and how often it was issued again since: 0 is its last execution."""

_PARTS = re.compile(r"(vmcnt|expcnt|lgkmcnt)\((\d+)\)")


def parse_wait(instruction: Instruction) -> dict[Counter, int]:
    """The counts an s_waitcnt asks for; a counter that is not named is not waited for.

    Raises:
        AnalysisRefusal: the operand has another form.
    """
    text = instruction.operands
    rest = _PARTS.sub("", text).replace("&", "").replace(",", "").strip()
    if rest or not text:
        if text == "0":
            return dict.fromkeys(Counter, 0)
        raise AnalysisRefusal(f"the wait {instruction.text!r} is not understood")
    named = {name: int(count) for name, count in _PARTS.findall(text)}
    return {counter: named[counter] for counter in Counter if counter.value in named}


def raises(effect: Effect, counter: Counter) -> bool:
    """True when the instruction raises the counter until it is done."""
    if counter is Counter.VM:
        return effect.counts_vm
    return counter is Counter.LGKM and effect.counts_lgkm


def format_wait(counts: Mapping[Counter, int]) -> str:
    """The instruction that waits for the counts; counters in the order LLVM prints them."""
    parts = (f"{counter.value}({counts[counter]})" for counter in Counter if counter in counts)
    return "s_waitcnt " + " ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitViolation:
    """An instruction touches a register that an outstanding operation may still fill."""

    consumer: int
    producer: int
    registers: RegisterSet

    def __str__(self) -> str:
        """One sentence with both instruction ids."""
        return (
            f"instruction {self.consumer} uses {format_registers(self.registers)} "
            f"that instruction {self.producer} may still be loading"
        )


class WaitState:
    """Outstanding operations at one point. Changes as `step` walks over instructions."""

    __slots__ = ("_issued", "_younger_base", "most_outstanding", "out_of_order")

    def __init__(self) -> None:
        """Nothing is outstanding."""
        # Per counter: operations seen, and for each outstanding position the count at its issue.
        self._issued = dict.fromkeys(Counter, 0)
        self._younger_base: dict[Counter, dict[Instance, int]] = {
            counter: {} for counter in Counter
        }
        self.most_outstanding = dict.fromkeys(Counter, 0)
        self.out_of_order = dict.fromkeys(Counter, False)

    def copy(self) -> WaitState:
        """An independent state with the same content."""
        other = WaitState()
        other._issued = dict(self._issued)
        other._younger_base = {counter: dict(held) for counter, held in self._younger_base.items()}
        other.most_outstanding = dict(self.most_outstanding)
        other.out_of_order = dict(self.out_of_order)
        return other

    def younger(self, counter: Counter) -> dict[Instance, int]:
        """Outstanding instances of the counter, with the least number of younger operations."""
        issued, limit = self._issued[counter], COUNTER_LIMITS[counter]
        held = self._younger_base[counter]
        return {instance: min(issued - base, limit) for instance, base in held.items()}

    def instances(self) -> frozenset[Instance]:
        """All operations that may be outstanding in some counter."""
        return frozenset().union(*self._younger_base.values())

    def outstanding(self) -> frozenset[int]:
        """Positions of all operations that may be outstanding in some counter."""
        return frozenset(position for position, _ in self.instances())

    def issue(
        self, counter: Counter, position: int, *, unordered: bool, is_counted: bool = True
    ) -> None:
        """One more operation of the counter, which may not be counted by the hardware at all."""
        self._issued[counter] += is_counted
        limit = COUNTER_LIMITS[counter]
        self._age(self._younger_base[counter], position, limit, self._issued[counter])
        self.most_outstanding[counter] = min(self.most_outstanding[counter] + 1, limit + 1)
        self.out_of_order[counter] |= unordered
        if not self.out_of_order[counter]:
            # The hardware does not issue what its counter cannot count, this operation included.
            oldest = self._issued[counter] - limit
            held = self._younger_base[counter]
            if len(held) >= limit:
                self._younger_base[counter] = {
                    instance: base for instance, base in held.items() if base > oldest
                }

    @staticmethod
    def _age(held: dict[Instance, int], position: int, limit: int, base: int) -> None:
        """Enter a new instance; those of the same position become one issue older."""
        for generation in range(limit + 1):
            previous = held.get((position, generation))
            held[position, generation] = base
            if previous is None:
                return
            base = previous

    def wait(self, counter: Counter, count: int) -> None:
        """What `counter(count)` proves."""
        self.most_outstanding[counter] = min(self.most_outstanding[counter], count)
        if count == 0:
            self._younger_base[counter] = {}
            self.out_of_order[counter] = False
        elif not self.out_of_order[counter]:
            younger = self.younger(counter)
            held = self._younger_base[counter]
            self._younger_base[counter] = {
                instance: base for instance, base in held.items() if younger[instance] < count
            }

    def retired(self, counts: Mapping[Counter, int]) -> frozenset[Instance]:
        """What may be outstanding and is certainly over behind a wait for the counts.

        An operation that raised two counters is over when both say so.
        """
        after = self.copy()
        for counter, count in counts.items():
            after.wait(counter, count)
        return self.instances() - after.instances()

    def is_ordered_overwrite(self, first: Effect, second: Effect) -> bool:
        """True when `second` loads what `first` fills, behind it in the same in-order queue."""
        if second.reads & first.loaded or _is_unordered(second):
            return False
        if (first.counts_vm, first.counts_lgkm) != (second.counts_vm, second.counts_lgkm):
            return False
        counters = ((Counter.VM, first.counts_vm), (Counter.LGKM, first.counts_lgkm))
        return not any(counts and self.out_of_order[counter] for counter, counts in counters)

    def join(self, other: WaitState) -> bool:
        """Take in what may be outstanding on another path; true when that added anything."""
        changed = False
        for counter in Counter:
            held = self._younger_base[counter]
            oldest = other._issued[counter] - COUNTER_LIMITS[counter]
            shift = self._issued[counter] - other._issued[counter]
            for instance, its_base in other._younger_base[counter].items():
                base = (its_base if its_base > oldest else oldest) + shift
                known = held.get(instance)
                if known is None or known < base:
                    held[instance] = base
                    changed = True
            if other.most_outstanding[counter] > self.most_outstanding[counter]:
                self.most_outstanding[counter] = other.most_outstanding[counter]
                changed = True
            if other.out_of_order[counter] and not self.out_of_order[counter]:
                self.out_of_order[counter] = True
                changed = True
        return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Result of the analysis: the state in front of each reachable block."""

    program: Program
    block_states: dict[int, WaitState]

    def walk(self, block: int) -> Iterator[tuple[int, WaitState]]:
        """Each position of the block with the state in front of it, good until the next step."""
        state = self.block_states[block].copy()
        bounds = self.program.blocks[block]
        for position in range(bounds.start, bounds.end):
            yield position, state
            step_wait_state(self.program, state, position)

    def after(self, block: int) -> WaitState:
        """State behind the last instruction of a block."""
        state = self.block_states[block].copy()
        bounds = self.program.blocks[block]
        for position in range(bounds.start, bounds.end):
            step_wait_state(self.program, state, position)
        return state

    def retired(self, position: int) -> frozenset[Instance]:
        """What the wait at a position covers: may be outstanding before it, is over behind it.

        Nothing for other instructions.
        """
        if self.program.effects[position].base != "s_waitcnt":
            return frozenset()
        return self.before(position).retired(parse_wait(self.program.instructions[position]))

    def pending_registers(self, position: int) -> RegisterSet:
        """Registers that some operation may still fill in front of a position."""
        found = 0
        for producer in self.before(position).outstanding():
            found |= self.program.effects[producer].loaded
        return found

    def before(self, position: int) -> WaitState:
        """State in front of one instruction."""
        for at, state in self.walk(self.program.block_at[position]):
            if at == position:
                return state.copy()
        raise AssertionError("a position is in its block")


def analyse_waits(program: Program) -> Waits:
    """Forward data flow to a fixed point over all paths, loop back-edges included.

    Raises:
        AnalysisRefusal: a wait has a form that is not understood.
    """
    states = {index: WaitState() for index in program.order}
    events = {index: _find_events(program, index) for index in program.order}
    pending = set(program.order)
    while pending:
        for index in program.order:
            if index not in pending:
                continue
            pending.discard(index)
            state = states[index]
            if events[index]:
                state = state.copy()
                for position in events[index]:
                    step_wait_state(program, state, position)
            for successor in program.blocks[index].successors:
                if states[successor].join(state):
                    pending.add(successor)
    return Waits(program=program, block_states=states)


def _find_events(program: Program, block: int) -> tuple[int, ...]:
    """Positions of a block that change the state."""
    bounds = program.blocks[block]
    effects = program.effects
    return tuple(
        position
        for position in range(bounds.start, bounds.end)
        if effects[position].base == "s_waitcnt"
        or any(raises(effects[position], counter) for counter in Counter)
    )


def step_wait_state(program: Program, state: WaitState, position: int) -> None:
    """Change the state as executing the instruction does."""
    effect = program.effects[position]
    if effect.base == "s_waitcnt":
        for counter, count in parse_wait(program.instructions[position]).items():
            state.wait(counter, count)
        return
    is_flat = effect.memory is not None and effect.memory.space is Space.FLAT
    if effect.counts_vm:
        # LLVM's SIInsertWaitcnts does not count buffer_inv and buffer_wbl2, yet waits for them.
        is_counted = effect.memory is None or effect.memory.access is not Access.CACHE
        state.issue(Counter.VM, position, unordered=is_flat, is_counted=is_counted)
    if effect.counts_lgkm:
        unordered = is_flat or effect.unit is not Unit.LDS
        state.issue(Counter.LGKM, position, unordered=unordered)


def find_wait_violations(waits: Waits) -> tuple[WaitViolation, ...]:
    """Uses of registers that an operation may still be filling; none in a correct kernel."""
    found = []
    program = waits.program
    for block in program.order:
        for position, state in waits.walk(block):
            effect = program.effects[position]
            touched = effect.reads | effect.writes
            if not touched:
                continue
            for producer in state.outstanding():
                shared = program.effects[producer].loaded & touched
                if shared and not state.is_ordered_overwrite(program.effects[producer], effect):
                    found.append(
                        WaitViolation(
                            consumer=program.instructions[position].id,
                            producer=program.instructions[producer].id,
                            registers=shared,
                        )
                    )
    return tuple(found)


def _is_unordered(effect: Effect) -> bool:
    return effect.unit is Unit.SMEM or (
        effect.memory is not None and effect.memory.space is Space.FLAT
    )
