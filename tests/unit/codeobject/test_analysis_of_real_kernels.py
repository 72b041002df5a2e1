"""The analyses against what a production compiler emits: neither too strict nor too lax."""

from __future__ import annotations

import dataclasses

import pytest

from asmevo.codeobject.analysis.control_flow import Program, read_program
from asmevo.codeobject.analysis.hazard import find_hazards
from asmevo.codeobject.analysis.wait_state import (
    analyse_waits,
    find_wait_violations,
    format_wait,
    parse_wait,
)
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.recover import recover

pytestmark = pytest.mark.triton


def programs_of(objects: dict[str, bytes]) -> list[tuple[str, Program, list[int]]]:
    found = []
    for data in objects.values():
        listing = recover(data)
        (kernel,) = listing.kernels
        entries = sorted({kernel.first_id, kernel.body_id})
        instructions = listing.kernel_instructions(kernel.name)
        found.append((CodeObject.read(data).target, read_program(instructions, entries), entries))
    return found


def count_violations(instructions: list[Instruction], entries: list[int]) -> int:
    return len(find_wait_violations(analyse_waits(read_program(instructions, entries))))


def test_compiled_kernels_have_no_pending_reads_and_no_hazards(
    triton_objects: dict[str, bytes],
) -> None:
    for arch, program, _ in programs_of(triton_objects):
        assert not find_wait_violations(analyse_waits(program))
        assert not find_hazards(program, arch)


def test_every_count_of_a_compiled_kernel_is_needed(triton_objects: dict[str, bytes]) -> None:
    """A compiler asks for exactly what is needed, save in front of barriers and at block ends."""
    tried = 0
    for _, program, entries in programs_of(triton_objects):
        for block in program.order:
            bounds = program.blocks[block]
            for at in range(bounds.start, bounds.end):
                instruction = program.instructions[at]
                following = program.instructions[min(at + 1, len(program.instructions) - 1)]
                if instruction.mnemonic != "s_waitcnt" or following.mnemonic in (
                    "s_barrier",
                    "s_branch",
                ):
                    continue
                for counter, count in parse_wait(instruction).items():
                    counts = {**parse_wait(instruction), counter: count + 1}
                    changed = list(program.instructions)
                    operands = format_wait(counts).partition(" ")[2]
                    changed[at] = dataclasses.replace(instruction, operands=operands)
                    tried += 1
                    assert count_violations(changed, entries), instruction
    assert tried > 20


def test_every_nop_of_a_compiled_kernel_is_needed(triton_objects: dict[str, bytes]) -> None:
    """Save those that LLVM puts behind packed arithmetic and loads out of caution."""
    tried, needed = 0, 0
    for arch, program, entries in programs_of(triton_objects):
        for block in program.order:
            bounds = program.blocks[block]
            for at in range(bounds.start, bounds.end):
                instruction = program.instructions[at]
                if instruction.mnemonic != "s_nop" or instruction.operands == "0":
                    continue
                shorter = str(int(instruction.operands) - 1)
                changed = list(program.instructions)
                changed[at] = dataclasses.replace(instruction, operands=shorter)
                tried += 1
                needed += bool(find_hazards(read_program(changed, entries), arch))
    assert needed == tried
