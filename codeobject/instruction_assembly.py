"""Instructions assembled by themselves, without the object that they belong to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from asmevo.codeobject.branch import is_direct_branch
from asmevo.codeobject.elf import read_elf
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.toolchain import try_assemble
from asmevo.errors import AssemblerError

__all__ = ["find_unfaithful"]

_HERE: Final = ".Lhere"
_LABEL = re.compile(r"\.L(?:\d+|end)$")
_MAX_ROUNDS: Final = 4


def find_unfaithful(instructions: Sequence[Instruction], arch: str) -> frozenset[int]:
    """Ids of the instructions whose text the assembler does not turn into their bytes.

    The distance of direct branches is not compared.
    """
    unfaithful: set[int] = set()
    tried = list(instructions)
    for _ in range(_MAX_ROUNDS):
        encodings, errors = _encode(tried, arch)
        if not errors:
            break
        unfaithful |= errors.keys()
        tried = [one for one in tried if one.id not in errors]
    else:
        return frozenset(one.id for one in instructions)
    for one in tried:
        skip = 2 if is_direct_branch(one.mnemonic) else 0
        if encodings[one.id][skip:] != one.data[skip:]:
            unfaithful.add(one.id)
    return frozenset(unfaithful)


def _encode(
    instructions: Sequence[Instruction], arch: str
) -> tuple[dict[int, bytes], dict[int, str]]:
    """Encodings, or the message for each instruction that LLVM refuses."""
    lines = ["\t.text", f"{_HERE}:"]
    numbers: dict[int, int] = {}
    for one in instructions:
        operands = _LABEL.sub(_HERE, one.operands) if is_direct_branch(one.mnemonic) else None
        text = one.text if operands is None else f"{one.mnemonic} {operands}"
        lines += [f".Lm{one.id}:", f"\t{text}"]
        numbers[len(lines)] = one.id
    lines += [".Lmeasured:", '\t.section .asmevo.sizes,"",@progbits']
    lines += [f"\t.long .Lm{one.id}-{_HERE}" for one in instructions]
    lines.append(f"\t.long .Lmeasured-{_HERE}")
    assembly = try_assemble("\n".join(lines) + "\n", arch)
    if assembly.errors:
        errors = {numbers[line]: text for line, text in assembly.errors if line in numbers}
        if not errors:
            raise AssemblerError(f"assembler: {assembly.errors[0][1]}")
        return {}, errors
    sections = {one.name: one.data for one in read_elf(assembly.object).sections}
    code, sizes = sections[".text"], sections[".asmevo.sizes"]
    bounds = [int.from_bytes(sizes[at : at + 4], "little") for at in range(0, len(sizes), 4)]
    pieces = (code[start:end] for start, end in pairwise(bounds))
    return {one.id: data for one, data in zip(instructions, pieces, strict=True)}, {}
