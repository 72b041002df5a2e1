"""Registers as bits of one integer, so that sets of registers are fast and exact.

Scalar registers keep the number of their operand encoding (gfx9 ISA guides, "SGPR operand values"):
s0..s101 are 0..101, flat_scratch 102, xnack_mask 104, vcc 106, ttmp 108..123, m0 124, exec 126.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = [
    "AGPR_MASK",
    "EXEC",
    "FLAT_SCRATCH",
    "M0",
    "MODE",
    "SCC",
    "SGPR_MASK",
    "VCC",
    "VECTOR_MASK",
    "VGPR_MASK",
    "RegisterSet",
    "format_registers",
    "iterate_registers",
    "parse_registers",
]

RegisterSet = int
"""A set of 32-bit registers: bit n stands for register number n."""

_VGPR_BASE = 256
_AGPR_BASE = 512
_SPECIAL_BASE = 768

FLAT_SCRATCH: RegisterSet = 0b11 << 102
_XNACK_MASK: RegisterSet = 0b11 << 104
VCC: RegisterSet = 0b11 << 106
M0: RegisterSet = 1 << 124
EXEC: RegisterSet = 0b11 << 126
SCC: RegisterSet = 1 << _SPECIAL_BASE
MODE: RegisterSet = 1 << (_SPECIAL_BASE + 1)
SGPR_MASK: RegisterSet = (1 << 124) - 1
VGPR_MASK: RegisterSet = ((1 << 256) - 1) << _VGPR_BASE
AGPR_MASK: RegisterSet = ((1 << 256) - 1) << _AGPR_BASE
VECTOR_MASK: RegisterSet = VGPR_MASK | AGPR_MASK

_NAMED: dict[str, RegisterSet] = {
    "vcc": VCC,
    "vcc_lo": 1 << 106,
    "vcc_hi": 1 << 107,
    "exec": EXEC,
    "exec_lo": 1 << 126,
    "exec_hi": 1 << 127,
    "m0": M0,
    "flat_scratch": FLAT_SCRATCH,
    "flat_scratch_lo": 1 << 102,
    "flat_scratch_hi": 1 << 103,
    "xnack_mask": _XNACK_MASK,
    "xnack_mask_lo": 1 << 104,
    "xnack_mask_hi": 1 << 105,
    "scc": SCC,
    "src_scc": SCC,
    "src_vccz": VCC,
    "vccz": VCC,
    "src_execz": EXEC,
    "execz": EXEC,
    "mode": MODE,
}
_BASES = {"s": 0, "v": _VGPR_BASE, "a": _AGPR_BASE, "ttmp": 108}
_LIMITS = {"s": 102, "v": 256, "a": 256, "ttmp": 16}
_TOKEN = re.compile(
    r"\b(?:(?P<file>ttmp|[sva])(?:(?P<one>\d+)|\[(?P<first>\d+)(?::(?P<last>\d+))?\])"
    r"|(?P<name>" + "|".join(sorted(_NAMED, key=len, reverse=True)) + r"))(?![\w])"
)


def parse_registers(text: str) -> RegisterSet:
    """All registers that an operand text names; modifiers such as `-|v5|` do not matter.

    Raises:
        ValueError: a register number is out of range.
    """
    found = 0
    for match in _TOKEN.finditer(text):
        if match["name"]:
            found |= _NAMED[match["name"]]
            continue
        first = int(match["one"] or match["first"])
        last = int(match["last"]) if match["last"] else first
        if not first <= last < _LIMITS[match["file"]]:
            raise ValueError(f"register out of range in {text!r}")
        found |= ((1 << (last - first + 1)) - 1) << (_BASES[match["file"]] + first)
    return found


def iterate_registers(registers: RegisterSet) -> Iterator[int]:
    """Numbers of the registers in the set, lowest first."""
    while registers:
        lowest = registers & -registers
        yield lowest.bit_length() - 1
        registers ^= lowest


def format_registers(registers: RegisterSet) -> str:
    """Names of the registers, for messages."""
    return ", ".join(_format_register(number) for number in iterate_registers(registers))


def _format_register(number: int) -> str:
    for name, mask in _NAMED.items():
        if mask == 1 << number and not name.startswith("src_"):
            return name
    if number >= _AGPR_BASE:
        return f"a{number - _AGPR_BASE}"
    if number >= _VGPR_BASE:
        return f"v{number - _VGPR_BASE}"
    return f"s{number}" if number < 108 else f"ttmp{number - 108}"
