"""Instruction sequences from assembly text, without an assembler."""

from __future__ import annotations

from asmevo.codeobject.analysis.control_flow import Program, read_program
from asmevo.codeobject.instruction import Instruction

__all__ = ["program_of", "read_lines"]


def read_lines(text: str) -> tuple[Instruction, ...]:
    """One instruction a line; `name:` labels the next; the last word of a branch is its target."""
    labels: dict[str, int] = {}
    lines: list[str] = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        if line.endswith(":"):
            labels[line[:-1]] = len(lines)
        else:
            lines.append(line)
    found = []
    for number, line in enumerate(lines):
        mnemonic, _, operands = line.partition(" ")
        is_branch = mnemonic.startswith(("s_branch", "s_cbranch"))
        found.append(
            Instruction(
                id=number,
                offset=4 * number,
                data=b"",
                mnemonic=mnemonic,
                operands=operands.strip(),
                target=labels[operands.strip()] if is_branch else None,
            )
        )
    return tuple(found)


def program_of(text: str) -> Program:
    """The program that starts at the first line."""
    return read_program(read_lines(text), [0])
