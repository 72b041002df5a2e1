"""Single instructions to bytes, and what LLVM reads in these bytes.

An instruction without a label encodes the same wherever it stands, so each text goes through LLVM
once: assembled by the process that keeps LLVM loaded, and decoded again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from asmevo.codeobject.branch import is_direct_branch
from asmevo.codeobject.decoder import Decoded, decode, parse_lines
from asmevo.codeobject.elf import read_elf
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.llvm import Role, find_tool
from asmevo.codeobject.llvm_service import LibraryCrash, LibraryError, find_service
from asmevo.codeobject.target import minimum_llvm, parse_target_id
from asmevo.codeobject.toolchain import try_assemble
from asmevo.errors import AssemblerError

__all__ = ["Encoding", "encode"]

_SECTION: Final = ".asmevo.code"
_MAX_CACHED: Final = 1 << 16
# A distance that no label is needed for; who places the instruction puts the right one there.
_ANY_DISTANCE: Final = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """Bytes of one instruction and the text that LLVM gives for them."""

    data: bytes
    """A direct branch goes to the instruction behind it."""
    mnemonic: str
    operands: str


_cache: Final[OrderedDict[tuple[str, str], Encoding]] = OrderedDict()


def encode(instructions: Iterable[Instruction], arch: str) -> dict[int, Encoding]:
    """Encodings by id, for target id `arch`.

    Raises:
        AssemblerError: LLVM refuses one, or makes several instructions of it.
    """
    texts = {one.id: _placeable_text(one) for one in instructions}
    for text in texts.values():
        # A second line could be a directive.
        if not text.isprintable():
            raise AssemblerError(f"not one instruction: {text[:80]!r}")
    missing = [text for text in dict.fromkeys(texts.values()) if (arch, text) not in _cache]
    if missing:
        for text, encoding in zip(missing, _encode(missing, arch), strict=True):
            _cache[arch, text] = encoding
        while len(_cache) > _MAX_CACHED + len(texts):
            _cache.popitem(last=False)
    return {identifier: _cache[arch, text] for identifier, text in texts.items()}


def _placeable_text(one: Instruction) -> str:
    if not is_direct_branch(one.mnemonic):
        return one.text
    head, comma, _ = one.operands.rpartition(", ")
    return f"{one.mnemonic} {head}{comma}{_ANY_DISTANCE}"


def _encode(texts: Sequence[str], arch: str) -> list[Encoding]:
    source = f'\t.section {_SECTION},"ax",@progbits\n' + "".join(f"\t{one}\n" for one in texts)
    code, decoded = _assemble(source, texts, arch)
    if len(decoded) != len(texts) or not all(one.text for one in decoded):
        raise AssemblerError(f"not decoded as {len(texts)} instructions: {texts[0][:120]}")
    encodings = []
    for one in decoded:
        mnemonic, _, operands = one.text.partition(" ")
        data = code[one.offset : one.offset + one.size]
        encodings.append(Encoding(data=data, mnemonic=mnemonic, operands=operands))
    return encodings


def _assemble(source: str, texts: Sequence[str], arch: str) -> tuple[bytes, list[Decoded]]:
    """The bytes of `source`, which holds `texts` from its second line on, and their decoding."""
    processor, _ = parse_target_id(arch)
    tool = find_tool(Role.DISASSEMBLER, minimum_llvm(processor))
    # Features (xnack, sramecc) change no encoding.
    if tool.library and find_service(tool.library).can_assemble:
        try:
            answer = find_service(tool.library).request(b"e", processor, source.encode())
        except LibraryError as error:
            line, _, reason = str(error).partition("\n")[0].partition(" ")
            errors = [(int(line), reason)]
        except LibraryCrash as error:
            raise AssemblerError(f"LLVM crashed on `{' / '.join(texts)[:200]}`") from error
        else:
            end = 4 + int.from_bytes(answer[:4], "little")
            return answer[4:end], parse_lines(answer[end:], 0)
    else:
        assembly = try_assemble(source, arch)
        errors = [*assembly.errors]
        if not errors:
            sections = {one.name: one.data for one in read_elf(assembly.object).sections}
            if f".rela{_SECTION}" not in sections:
                return sections[_SECTION], decode(tool, sections[_SECTION], processor)
            errors = [(1, "it names a symbol")]
    number, message = errors[0]
    shown = texts[number - 2] if 2 <= number < len(texts) + 2 else " / ".join(texts)
    raise AssemblerError(f"{message}: `{shown[:120]}`")
