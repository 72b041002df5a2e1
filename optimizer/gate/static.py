"""The static gate: a candidate must give every read the value that the parent gives it.

It knows nothing of mutators. It compares block by block: same instructions save removed ones that
are proved to be without effect, same definition for every read, same order of memory and
synchronisation; then it re-derives waits and hazards over the whole candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from asmevo.codeobject.abi import check_abi
from asmevo.codeobject.analysis.control_flow import AnalysisRefusal
from asmevo.codeobject.analysis.dependence import BlockItem, must_keep_order, reads_of
from asmevo.codeobject.analysis.hazard import Hazard
from asmevo.codeobject.analysis.register import format_registers, iterate_registers
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.instruction import Instruction
from asmevo.optimizer.kernel_view import FILLERS, KernelView

__all__ = [
    "find_hazard_faults",
    "find_interface_changes",
    "find_static_faults",
    "find_wait_faults",
]

_Definitions = dict[tuple[int, int], int]
_AT_ENTRY = -1
_LONGEST_REACH = 20
"""Wait states behind which no hazard rule looks."""


def find_interface_changes(k0: CodeObject, candidate: CodeObject) -> Iterator[str]:
    """Whatever a launch sees of the object must be as it was: only code and resources may differ.

    That the resources are those that the code needs is what rebuilding proves.
    """
    yield from (f"a launch would differ: {one}" for one in check_abi(k0, candidate))


def find_static_faults(parent: KernelView, candidate: KernelView) -> Iterator[str]:
    """Reasons why the candidate may not do what the parent does; none when it is proved to."""
    if _instructions_outside(parent) != _instructions_outside(candidate):
        yield "code outside the kernel changed"
        return
    try:
        yield from _compare_structure(parent, candidate)
        yield from find_wait_faults(parent, candidate)
        yield from find_hazard_faults(parent, candidate)
    except AnalysisRefusal as refusal:
        yield f"not provable: {refusal}"


def _instructions_outside(view: KernelView) -> list[Instruction]:
    inside = view.program.position_of
    return [one for one in view.listing.instructions if one.id not in inside]


def _compare_structure(parent: KernelView, candidate: KernelView) -> Iterator[str]:
    before, after = parent.program, candidate.program
    shape = [(block.successors, block.predecessors) for block in before.blocks]
    if shape != [(block.successors, block.predecessors) for block in after.blocks]:
        yield "control flow changed"
        return
    if before.entries != after.entries:
        yield "an entry moved"
        return
    known = before.position_of
    for block in range(len(before.blocks)):
        bounds = after.blocks[block]
        for at in range(bounds.start, bounds.end):
            instruction = after.instructions[at]
            if instruction.id not in known:
                if instruction.mnemonic not in FILLERS:
                    yield f"{instruction.text!r} is new and not a wait or nop"
                continue
            original = before.instructions[known[instruction.id]]
            is_same = original.mnemonic == instruction.mnemonic and (
                original.target is not None or original.operands == instruction.operands
            )
            if not is_same:
                yield f"instruction {instruction.id} changed"
        yield from _compare_block(parent, candidate, block)


def _compare_block(parent: KernelView, candidate: KernelView, block: int) -> Iterator[str]:
    before, after = parent.block_items(block), candidate.block_items(block)
    kept = {item.id for item in after}
    removed = {item.id for item in before} - kept
    added = kept - {item.id for item in before}
    if added:
        yield f"instruction {min(added)} came from another block"
        return
    if block not in parent.program.reachable:
        if before != after:
            yield "unreachable code changed"
        return
    useless = {item.id for item in before if item.id in removed}
    transparent = {one for one in useless if parent.is_identity(_position(parent, one))}
    for one in sorted(useless - transparent):
        effect = parent.program.effects[_position(parent, one)]
        live = parent.liveness.after[_position(parent, one)]
        if not effect.is_removable or effect.writes & live:
            yield f"instruction {one} was removed though its result may be read"
    yield from _compare_definitions(before, after, transparent, removed, parent.live_out(block))
    yield from _compare_memory_order(before, after)


def _position(view: KernelView, instruction_id: int) -> int:
    return view.program.position_of[instruction_id]


def _compare_definitions(
    before: Sequence[BlockItem],
    after: Sequence[BlockItem],
    transparent: set[int],
    removed: set[int],
    live_out: int,
) -> Iterator[str]:
    expected, last_expected = _trace_definitions(before, skip=transparent)
    actual, last_actual = _trace_definitions(after, skip=set())
    for (reader, register), definition in actual.items():
        if expected.get((reader, register)) != definition:
            name = format_registers(1 << register)
            yield f"instruction {reader} would read another value of {name}"
            return
    expected = {key: value for key, value in expected.items() if key[0] not in removed}
    if expected.keys() != actual.keys():
        yield "an instruction would read other registers"
    for register in iterate_registers(live_out):
        if last_expected.get(register, _AT_ENTRY) != last_actual.get(register, _AT_ENTRY):
            yield f"{format_registers(1 << register)} would leave its block with another value"
            return


def _trace_definitions(
    items: Iterable[BlockItem], *, skip: set[int]
) -> tuple[_Definitions, dict[int, int]]:
    """The definition that each read gets, and the last definition of each register."""
    reads: _Definitions = {}
    last: dict[int, int] = {}
    for item in items:
        if item.id in skip:
            continue
        for register in iterate_registers(reads_of(item)):
            reads[item.id, register] = last.get(register, _AT_ENTRY)
        for register in iterate_registers(item.effect.writes):
            last[register] = item.id
    return reads, last


def _compare_memory_order(before: Sequence[BlockItem], after: Sequence[BlockItem]) -> Iterator[str]:
    place = {item.id: at for at, item in enumerate(after)}
    ordered = [
        item
        for item in before
        if item.id in place
        and (item.effect.memory is not None or item.effect.is_pinned or item.effect.is_terminator)
    ]
    for at, item in enumerate(ordered):
        for earlier in ordered[:at]:
            out_of_order = place[earlier.id] > place[item.id]
            if out_of_order and must_keep_order(earlier.effect, item.effect):
                yield f"instructions {earlier.id} and {item.id} would change places"
                return
    if after and before[-1].effect.is_terminator and after[-1].id != before[-1].id:
        yield "something follows the branch of its block"


def find_wait_faults(parent: KernelView, candidate: KernelView) -> Iterator[str]:
    """Registers used while they may load, barriers passed with more outstanding than before."""
    allowed = {(one.producer, one.consumer) for one in parent.wait_violations}
    for violation in candidate.wait_violations:
        if (violation.producer, violation.consumer) not in allowed:
            yield str(violation)
            return
    if allowed and _trace_waits(parent, allowed) != _trace_waits(candidate, allowed):
        # On one path the parent may be wrong, or only seem so; another path must not join it.
        yield "waits changed in a kernel that seems to use registers while they load"
        return
    before = parent.outstanding_at_sync
    for instruction, outstanding in candidate.outstanding_at_sync.items():
        more = outstanding - before.get(instruction, frozenset())
        if more:
            yield (
                f"instruction {instruction} synchronises while instruction {min(more)[0]} "
                "is still outstanding"
            )
            return


def _trace_waits(view: KernelView, violations: Iterable[tuple[int, int]]) -> list[int | str]:
    """Waits, what they wait for, and the consumers of violations, in their order."""
    consumers = {consumer for _, consumer in violations}
    trace: list[int | str] = []
    for instruction, effect in zip(view.program.instructions, view.program.effects, strict=True):
        if effect.base == "s_waitcnt":
            trace.append(instruction.text)
        elif effect.counts_vm or effect.counts_lgkm or instruction.id in consumers:
            trace.append(instruction.id)
    return trace


def find_hazard_faults(parent: KernelView, candidate: KernelView) -> Iterator[str]:
    """Pairs of instructions that stand closer than a hazard allows and than they did."""
    allowed = {(one.producer, one.consumer, one.rule): one.actual for one in parent.hazards}
    for hazard in candidate.hazards:
        known = allowed.get((hazard.producer, hazard.consumer, hazard.rule))
        if known is None or hazard.actual < known:
            yield str(hazard)
            return
        if not _keeps_distance(parent, candidate, hazard):
            yield str(hazard)
            return


def _keeps_distance(parent: KernelView, candidate: KernelView, hazard: Hazard) -> bool:
    """True when the two are as far apart as in the parent on every path, not only the shortest."""
    before = _measure(parent, hazard.producer, hazard.consumer)
    after = _measure(candidate, hazard.producer, hazard.consumer)
    between, from_producer, to_consumer, *_ = after
    if between < before[0]:
        return False
    if from_producer + to_consumer >= hazard.required:
        return True
    return all(now >= then for then, now in zip(before, after, strict=True))


def _measure(view: KernelView, producer: int, consumer: int) -> list[int]:
    """Wait states between the two within a block, from and to their blocks' ends, of all blocks."""
    program = view.program
    first, last = program.position_of[producer], program.position_of[consumer]
    states = view.wait_states
    start = program.blocks[program.block_at[last]].start
    end = program.blocks[program.block_at[first]].end
    between = states[first + 1 : last] if start <= first < last else (_LONGEST_REACH,)
    blocks = (states[block.start : block.end] for block in program.blocks)
    parts = (between, states[first + 1 : end], states[start:last], *blocks)
    return [min(sum(part), _LONGEST_REACH) for part in parts]
