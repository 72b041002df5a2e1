"""Assembly text edited by hand: every instruction is what its line says, and fits its encoding.

LLVM is not trusted with it: offsets of all instruction lines are measured in a second assembly, and
the code is decoded and compared line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from asmevo.codeobject.branch import branch_distance, is_direct_branch
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.elf import read_elf
from asmevo.codeobject.immediate_range import check_immediates
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.instruction_text import has_encoding_suffix, normalize_text
from asmevo.codeobject.toolchain import assemble, disassemble
from asmevo.errors import AssemblerError, UsageError

__all__ = ["check_text"]

_STATEMENT = re.compile(r"([a-z][a-z0-9_]*)(?:\s+(.*))?")
_LABEL = re.compile(r'\s*(?:"[^"]*"|[A-Za-z_.$][\w.$]*)\s*:(?!:)')
_CODE_COMMENT = re.compile(r'("[^"]*")|;.*|//.*|/\*.*?\*/')
_SECTION = re.compile(r"\.(?:section|text|data|rodata|bss|pushsection|popsection|previous)\b")
_ASSIGNMENT = re.compile(r"[\w.$]+\s*=")
_BLOCKS: Final = {
    ".amdgpu_metadata": ".end_amdgpu_metadata",
    ".amdhsa_kernel": ".end_amdhsa_kernel",
}
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|0|[1-9]\d*)")
# No operand needs as many; Python refuses to read thousands.
_LONG_NUMBER = re.compile(r"[0-9a-fA-F]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    number: int
    """From 1."""
    mnemonic: str
    operands: str

    @property
    def label(self) -> str:
        """Where a direct branch goes, as it stands in the text."""
        return self.operands.rpartition(",")[2].strip()


def check_text(text: str, arch: str, rebuilt: CodeObject) -> None:
    """Raise AssemblerError unless the code of `rebuilt` is that of `text`, line by line."""
    lines = tuple(_read_lines(text))
    for line in lines:
        if _LONG_NUMBER.search(_head(line.operands) if "@" in line.operands else line.operands):
            raise AssemblerError(f"line {line.number}: a number that is too long")
        if not is_direct_branch(line.mnemonic):
            try:
                check_immediates(line.mnemonic, line.operands)
            except UsageError as error:
                raise AssemblerError(f"line {line.number}: {error.args[0]}") from error
    offsets, goals = _measure(text, arch, lines)
    decoded = {one.offset: one for one in disassemble(rebuilt.text.data, rebuilt.target)}
    for line in lines:
        found = decoded.get(offsets[line.number])
        if found is None:
            raise AssemblerError(f"line {line.number}: no instruction came of `{line.mnemonic}`")
        if not _is_same(line, found, goals):
            meant = f"{line.mnemonic} {line.operands}".rstrip()
            raise AssemblerError(
                f"line {line.number}: `{meant[:120]}` was assembled as `{found.text[:120]}`"
            )


def _is_same(line: _Line, found: Instruction, goals: Mapping[str, int]) -> bool:
    drop = not has_encoding_suffix(line.mnemonic)
    mine, theirs = line.operands, found.operands
    if is_direct_branch(line.mnemonic):
        if line.label in goals:
            distance = goals[line.label] - found.offset - len(found.data)
            if branch_distance(found.data) != distance:
                return False
        elif not _NUMBER.fullmatch(line.label) or (
            branch_distance(found.data) != 4 * int(line.label, 0)
        ):
            return False
        mine, theirs = _head(mine), _head(theirs)
    elif "@" in mine:
        # The linker fills the last operand in: `address_check` and `compare` know what is meant.
        mine, theirs = _head(mine), _head(theirs)
    return normalize_text(line.mnemonic, mine, drop_suffix=drop) == normalize_text(
        found.mnemonic, theirs, drop_suffix=drop
    )


def _head(operands: str) -> str:
    return operands.rpartition(",")[0]


def _measure(text: str, arch: str, lines: Sequence[_Line]) -> tuple[dict[int, int], dict[str, int]]:
    """Offset of the instruction of each line, and of each label that a branch names."""
    numbers = {line.number for line in lines}
    marked = []
    for number, line in enumerate(text.split("\n"), start=1):
        marked.append(f".Lline{number}: {line}" if number in numbers else line)
    labels = sorted(
        {
            line.label
            for line in lines
            if is_direct_branch(line.mnemonic) and not _NUMBER.fullmatch(line.label)
        }
    )
    marked += ["\t.text", ".Lbehind:", '\t.section .asmevo.sizes,"",@progbits']
    names = [f".Lline{line.number}" for line in lines] + labels
    marked += [f"\t.long .Lbehind-({name})" for name in names]
    sections = {
        one.name: one for one in read_elf(assemble("\n".join(marked) + "\n", arch)).sections
    }
    if ".asmevo.sizes" not in sections:
        return {}, {}
    data, size = sections[".asmevo.sizes"].data, sections[".text"].size
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
    offsets = [size - word for word in words]
    count = len(lines)
    return (
        {line.number: at for line, at in zip(lines, offsets[:count], strict=True)},
        dict(zip(labels, offsets[count:], strict=True)),
    )


def _read_lines(text: str) -> Iterator[_Line]:
    """The lines of `.text` that hold an instruction."""
    in_code, block_end = True, ""
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if block_end:
            block_end = "" if line.startswith(block_end) else block_end
            continue
        line = _CODE_COMMENT.sub(lambda match: match[1] or " ", line).strip()
        while match := _LABEL.match(line):
            line = line[match.end() :].strip()
        word = line.split(maxsplit=1)[0] if line else ""
        if word in _BLOCKS:
            block_end = _BLOCKS[word]
        elif _SECTION.match(line):
            in_code = word == ".text" or line.split(maxsplit=2)[1:2] in ([".text"], [".text,"])
        elif line and not line.startswith((".", "#")) and in_code and not _ASSIGNMENT.match(line):
            statement = _STATEMENT.fullmatch(line)
            if statement is None:
                raise AssemblerError(f"line {number}: not an instruction: `{line[:80]}`")
            operands = " ".join((statement[2] or "").split())
            yield _Line(number=number, mnemonic=statement[1], operands=operands)
