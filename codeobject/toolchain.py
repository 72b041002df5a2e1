"""LLVM at work: text to object, object to code object, bytes to instructions."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from asmevo.codeobject.branch import link_branches
from asmevo.codeobject.decoder import decode
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.llvm import Role, Tool, find_tool, find_tools, install_hint
from asmevo.codeobject.process import Finished, run_tool
from asmevo.codeobject.target import minimum_llvm, parse_target_id
from asmevo.errors import AssemblerError, CodeObjectError

__all__ = ["Assembly", "ToolReport", "assemble", "describe", "disassemble", "link", "try_assemble"]

_MAX_TEXT_BYTES: Final = 64 << 20
_MAX_CODE_BYTES: Final = 32 << 20
_MESSAGE = re.compile(r"(?:<stdin>|-):(\d+):(\d+): (?:fatal )?error: (.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReport:
    """One role for `asmevo doctor`: the tool that fills it, or what to install."""

    role: str
    path: str
    version: str
    source: str
    problem: str


def describe() -> tuple[ToolReport, ...]:
    """Which tool fills which role; `problem` is empty when it is there."""
    tools = find_tools()
    reports = []
    for role in Role:
        tool = tools.get(role)
        reports.append(
            ToolReport(
                role=role.value,
                path=tool.path if tool else "",
                version=tool.version if tool else "",
                source=tool.source if tool else "",
                problem="" if tool else f"missing: {install_hint()}",
            )
        )
    return tuple(reports)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """A relocatable object, or why there is none."""

    object: bytes
    errors: tuple[tuple[int, str], ...]
    """Line number and message of everything that LLVM refused; empty when it made the object."""


def assemble(text: str, arch: str) -> bytes:
    """Assemble `text` for the processor or target id `arch` into a relocatable object.

    Raises:
        AssemblerError: with LLVM's first message and the line that it points at.
        MissingToolError: no LLVM, or one that is too old for `arch`.
    """
    assembly = try_assemble(text, arch)
    if assembly.errors:
        number, message = assembly.errors[0]
        lines = text.splitlines()
        shown = lines[number - 1].strip() if number <= len(lines) else ""
        raise AssemblerError(f"line {number}: {message}: `{shown[:120]}`")
    return assembly.object


def try_assemble(text: str, arch: str) -> Assembly:
    """Like `assemble`, but what LLVM refuses comes back as lines and messages."""
    processor, features = parse_target_id(arch)
    source = text.encode()
    if len(source) > _MAX_TEXT_BYTES:
        raise AssemblerError(f"assembly text of {len(source)} bytes is above {_MAX_TEXT_BYTES}")
    tool = find_tool(Role.ASSEMBLER, minimum_llvm(processor))
    with tempfile.TemporaryDirectory(prefix="asmevo-") as folder:
        output = Path(folder) / "object.o"
        done = run_tool(_assembler_command(tool, processor, features, output), source)
        errors = _read_errors(done, tool)
        return Assembly(object=b"" if errors else _read_result(output, tool), errors=errors)


def link(relocatable: bytes) -> bytes:
    """Link a relocatable object into a code object, as ROCm's and Triton's compilers do."""
    tool = find_tool(Role.LINKER)
    with tempfile.TemporaryDirectory(prefix="asmevo-") as folder:
        source, output = Path(folder) / "object.o", Path(folder) / "object.hsaco"
        source.write_bytes(relocatable)
        options = ("-shared", "--no-undefined", "-o", str(output), str(source))
        done = run_tool((*tool.command, *options))
        if done.code != 0:
            raise AssemblerError(f"linker: {_first_line(done.errors, folder)}")
        return _read_result(output, tool)


def disassemble(data: bytes, arch: str) -> tuple[Instruction, ...]:
    """Decode the bytes of a `.text` section; ids count from 0 in address order.

    Direct branches name `.L<id>` of their target, `.Lend` for the end of `data`, and keep the
    number where the target is no instruction of `data`. What LLVM cannot decode becomes `.long`
    words.
    """
    processor, _ = parse_target_id(arch)
    if len(data) % 4 or len(data) > _MAX_CODE_BYTES:
        raise CodeObjectError(
            f"code of {len(data)} bytes: wanted whole words and at most {_MAX_CODE_BYTES} bytes"
        )
    if not data:
        return ()
    tool = find_tool(Role.DISASSEMBLER, minimum_llvm(processor))
    instructions = []
    for number, one in enumerate(decode(tool, data, processor)):
        encoded = data[one.offset : one.offset + one.size]
        mnemonic, _, operands = one.text.partition(" ")
        if not mnemonic:
            mnemonic = ".long"
            words = (encoded[at : at + 4] for at in range(0, len(encoded), 4))
            operands = ", ".join(f"{int.from_bytes(word, 'little'):#010x}" for word in words)
        instructions.append(
            Instruction(
                id=number, offset=one.offset, data=encoded, mnemonic=mnemonic, operands=operands
            )
        )
    return link_branches(instructions)


def _assembler_command(
    tool: Tool, processor: str, features: tuple[str, ...], output: Path
) -> tuple[str, ...]:
    if tool.kind == "clang":
        cpu = ":".join((processor, *features))
        options = ("-target", "amdgcn-amd-amdhsa", f"-mcpu={cpu}", "-x", "assembler", "-c", "-")
        return (*tool.command, *options, "-o", str(output))
    attributes = ",".join(f"{feature[-1]}{feature[:-1]}" for feature in features)
    extra = (f"-mattr={attributes}",) if attributes else ()
    options = ("-triple=amdgcn-amd-amdhsa", f"-mcpu={processor}", *extra, "-filetype=obj")
    return (*tool.command, *options, "-o", str(output))


def _read_errors(done: Finished, tool: Tool) -> tuple[tuple[int, str], ...]:
    if done.code == 0:
        return ()
    if done.has_crashed:
        raise AssemblerError(f"{tool.path} crashed on this assembly text")
    errors = tuple((int(one[1]), one[3]) for one in _MESSAGE.finditer(done.errors))
    if not errors:
        raise AssemblerError(f"assembler: {_first_line(done.errors, '')}")
    return errors


def _first_line(errors: str, folder: str) -> str:
    lines = [line for line in errors.splitlines() if line.strip()]
    message = lines[0] if lines else "failed without a message"
    return message.replace(folder + "/", "")[:300] if folder else message[:300]


def _read_result(path: Path, tool: Tool) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise AssemblerError(f"{tool.path} wrote no output: {error.strerror}") from error
