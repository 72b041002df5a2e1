"""Instruction text from an editor: one plain instruction, within ranges that LLVM does not
check."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from asmevo.codeobject.branch import is_direct_branch
from asmevo.codeobject.immediate_range import check_immediates
from asmevo.codeobject.instruction import Instruction
from asmevo.errors import UsageError

__all__ = ["has_encoding_suffix", "normalize_text", "parse_instruction"]

_MAX_LENGTH: Final = 400
# Everything an operand needs, and nothing that starts a comment, a second statement or a directive.
_INSTRUCTION = re.compile(r"([a-z][a-z0-9_]*)(?:\s+([A-Za-z0-9_\[\]:,.()+\-*|&%\"\s]+))?")
_LABEL = re.compile(r"\.L(\d{1,9})")
_NUMBER_TOKEN = re.compile(r"(?<![\w.])-?(?:0x[0-9a-fA-F]+|\d+)(?![\w.])")
# LLVM does not print it.
_NO_OFFSET = re.compile(r" offset[01]?:0(?![\w.])")
_COUNTER = re.compile(r"(vmcnt|expcnt|lgkmcnt)\((\d{1,3})\)")
_SUFFIX = re.compile(r"_(?:e32|e64|sdwa|dpp)$")


def parse_instruction(text: str, *, identifier: int, known: Collection[int]) -> Instruction:
    """Make an added instruction of `text`; UsageError when it is not one that an edit may hold.

    A direct branch must name `.L<id>` of an instruction in `known`.
    """
    line = text.strip()
    match = _INSTRUCTION.fullmatch(line) if len(line) <= _MAX_LENGTH and "\n" not in line else None
    if match is None:
        raise UsageError(f"not one plain instruction: {line[:80]!r}")
    mnemonic, operands = match[1], " ".join((match[2] or "").split())
    if not is_direct_branch(mnemonic):
        check_immediates(mnemonic, operands)
    return Instruction(
        id=identifier,
        offset=-1,
        data=b"",
        mnemonic=mnemonic,
        operands=operands,
        target=_parse_target(mnemonic, operands, known),
    )


def _parse_target(mnemonic: str, operands: str, known: Collection[int]) -> int | None:
    if not is_direct_branch(mnemonic):
        if "." in re.sub(r"\d\.\d", "", operands):
            raise UsageError(f"{mnemonic}: only a branch may name a label: {operands[:80]!r}")
        return None
    label = _LABEL.fullmatch(operands.rpartition(", ")[2])
    if label is None or int(label[1]) not in known:
        raise UsageError(f"{mnemonic} must name .L<id> of an instruction: {operands[:80]!r}")
    return int(label[1])


def has_encoding_suffix(mnemonic: str) -> bool:
    """True when the mnemonic names its encoding (`v_add_f32_e32`)."""
    return _SUFFIX.search(mnemonic) is not None


def normalize_text(mnemonic: str, operands: str, *, drop_suffix: bool = False) -> str:
    """One spelling for texts that mean the same encoding: numbers as decimals, single blanks.

    `drop_suffix` leaves `_e32`, `_e64`, `_sdwa` and `_dpp` away, for an editor that did not write
    one.
    """
    name = _SUFFIX.sub("", mnemonic) if drop_suffix else mnemonic
    if name == "s_waitcnt":
        operands = _normalize_waits(operands)
    numbers = _NUMBER_TOKEN.sub(lambda number: str(_value(number[0])), operands)
    spaced = " ".join(re.sub(r"\s*([,:\[\]()|])\s*", r"\1", numbers).split())
    return f"{name} {_NO_OFFSET.sub('', spaced)}".rstrip()


def _normalize_waits(operands: str) -> str:
    """All three counters of gfx9. LLVM leaves those out that are not waited for, unless all are."""
    counters = {"vmcnt": 63, "expcnt": 7, "lgkmcnt": 15}
    words = re.sub(r"[&,]", " ", operands).split()
    if len(words) == 1 and _NUMBER_TOKEN.fullmatch(words[0]):
        field = int(words[0], 0)
        counters["vmcnt"] = field & 15 | field >> 14 << 4
        counters["expcnt"], counters["lgkmcnt"] = field >> 4 & 7, field >> 8 & 15
        words = []
    for word in words:
        counter = _COUNTER.fullmatch(word)
        if counter is None:
            return " ".join(words)
        counters[counter[1]] = int(counter[2])
    return " ".join(f"{name}({count})" for name, count in counters.items())


def _value(token: str) -> int:
    # LLVM prints 32-bit literals as unsigned hexadecimal and takes them as signed decimals too.
    value = int(token, 16) if "x" in token else int(token)
    return value if value < 1 << 31 or value >= 1 << 32 else value - (1 << 32)
