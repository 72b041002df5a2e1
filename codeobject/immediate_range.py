"""Ranges of immediates and modifiers by encoding, for gfx9 with gfx90a's and gfx942's additions.

LLVM masks or accepts some that do not fit (`buffer_load … offset:4096`, `s_nop 300`); nothing that
an edit brings is left to it. Widths: CDNA3 and CDNA4 ISA guides, chapter "Microcode Formats".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from asmevo.codeobject.analysis.operand import Operands, parse_operands, split_mnemonic
from asmevo.errors import UsageError

__all__ = ["check_immediates"]

_Range = tuple[int, int]

# Not with leading zeros: those are octal to LLVM.
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|0|[1-9]\d*)")
_BIT: Final = (0, 1)

# SOPP: what the instruction uses of its 16 bits.
_SOPP: Final[Mapping[str, _Range]] = {
    "s_nop": (0, 15),
    "s_setprio": (0, 3),
    "s_sleep": (0, 127),
    "s_sethalt": _BIT,
    "s_trap": (0, 255),
    "s_setkill": _BIT,
    "s_incperflevel": (0, 15),
    "s_decperflevel": (0, 15),
    "s_set_gpr_idx_mode": (0, 15),
    "s_endpgm": (0, 0),
}
_SOPK_SIGNED: Final = re.compile(r"s_(?:movk|cmovk|addk|mulk|cmpk_[a-z]+)_i32")
_SOPK_UNSIGNED: Final = re.compile(r"s_cmpk_[a-z]+_u32")
# LLVM prints negative ones as 16-bit hexadecimals.
_SIGNED_16: Final = (-(1 << 15), (1 << 16) - 1)
_UNSIGNED_16: Final = (0, (1 << 16) - 1)
_LITERAL: Final = (-(1 << 31), (1 << 32) - 1)

_FLAT_OFFSET: Final = (0, 4095)
_SEGMENT_OFFSET: Final = (-4096, 4095)
_BUFFER_OFFSET: Final = (0, 4095)
_DS_OFFSET: Final = (0, 65535)
_DS_HALF_OFFSET: Final = (0, 255)
_SMEM_OFFSET: Final = (-(1 << 20), (1 << 20) - 1)
_SBUFFER_OFFSET: Final = (0, (1 << 20) - 1)

_LANES: Final = (0, 63)
_COUNTERS: Final[Mapping[str, _Range]] = {"vmcnt": (0, 63), "expcnt": (0, 7), "lgkmcnt": (0, 15)}
# Bits of the immediate that gfx9 counts with: vmcnt 3:0 and 15:14, expcnt 6:4, lgkmcnt 11:8.
_WAITCNT_BITS: Final = 0xCF7F

_FLAGS: Final = frozenset(
    {
        *("offen", "idxen", "lds", "glc", "slc", "scc", "sc0", "sc1", "nt", "tfe", "gds", "off"),
        *("clamp", "bound_ctrl", "row_mirror", "row_half_mirror"),
    }
)
_MODIFIERS: Final[Mapping[str, _Range]] = {
    "row_mask": (0, 15),
    "bank_mask": (0, 15),
    "bound_ctrl": _BIT,
    "row_shl": (1, 15),
    "row_shr": (1, 15),
    "row_ror": (1, 15),
    "row_newbcast": (0, 15),
    "row_share": (0, 15),
    "wave_shl": (1, 1),
    "wave_rol": (1, 1),
    "wave_shr": (1, 1),
    "wave_ror": (1, 1),
    "cbsz": (0, 7),
    "abid": (0, 15),
    "blgp": (0, 7),
    "bitop3": (0, 255),
    "clamp": _BIT,
    "format": (0, 127),
    "dfmt": (0, 15),
    "nfmt": (0, 7),
    "fi": _BIT,
}
_LISTS: Final[Mapping[str, tuple[_Range, tuple[int, ...]]]] = {
    "quad_perm": ((0, 3), (4,)),
    "op_sel": (_BIT, (1, 2, 3, 4)),
    "op_sel_hi": (_BIT, (1, 2, 3)),
    "neg_lo": (_BIT, (1, 2, 3)),
    "neg_hi": (_BIT, (1, 2, 3)),
    "neg": (_BIT, (1, 2, 3)),
    "byte_sel": ((0, 3), (1,)),
}
_CHOICES: Final[Mapping[str, frozenset[str]]] = {
    "mul": frozenset({"2", "4"}),
    "div": frozenset({"2"}),
    "row_bcast": frozenset({"15", "31"}),
    **dict.fromkeys(
        ("dst_sel", "src0_sel", "src1_sel"),
        frozenset({"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"}),
    ),
    "dst_unused": frozenset({"UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"}),
}


def check_immediates(mnemonic: str, operand_text: str) -> None:
    """UsageError for a number that the encoding cannot hold, or a modifier that is not known.

    Whether the instruction exists, and takes these operands, is for the assembler to say.
    """
    base, _ = split_mnemonic(mnemonic)
    if base == "s_waitcnt":
        _check_waitcnt(operand_text)
        return
    if base in _SPECIAL:
        _SPECIAL[base](operand_text)
        return
    try:
        operands = parse_operands(operand_text)
    except ValueError as error:
        raise UsageError(f"{mnemonic}: {error}") from error
    if (limits := _immediate_range(base)) is not None and operands.values:
        _check(f"{mnemonic} immediate", operands.values[-1], limits)
    _check_operands(base, operands)
    for name, value in operands.modifiers.items():
        _check_modifier(base, name, value)


def _immediate_range(base: str) -> _Range | None:
    """Range of the last operand of formats whose last operand is their immediate."""
    if base in _SOPP:
        return _SOPP[base]
    if _SOPK_SIGNED.fullmatch(base):
        return _SIGNED_16
    return _UNSIGNED_16 if _SOPK_UNSIGNED.fullmatch(base) else None


def _check_operands(base: str, operands: Operands) -> None:
    values = operands.values
    if base.startswith(("s_load_", "s_store_", "s_scratch_", "s_atomic_", "s_dcache_discard")):
        _check_if_number(f"{base} offset", values[-1:], _SMEM_OFFSET)
    elif base.startswith(("s_buffer_load_", "s_buffer_store_", "s_buffer_atomic_")):
        _check_if_number(f"{base} offset", values[-1:], _SBUFFER_OFFSET)
    elif base in ("v_readlane_b32", "v_writelane_b32"):
        _check_if_number(f"{base} lane", values[-1:], _LANES)
    else:
        _check_if_number(f"{base} literal", values, _LITERAL)


def _check_if_number(what: str, values: tuple[str, ...], limits: _Range) -> None:
    for value in values:
        if _NUMBER.fullmatch(value):
            _check(what, value, limits)


def _check_modifier(base: str, name: str, value: str) -> None:
    what = f"{base} {name}"
    if name in ("offset", "offset0", "offset1"):
        if base == "ds_swizzle_b32" and not _NUMBER.fullmatch(value):
            _check_swizzle(value)
        else:
            _check(what, value, _offset_range(base, name))
    elif name in _LISTS:
        limits, lengths = _LISTS[name]
        items = [one.strip() for one in value[1:-1].split(",")]
        if (value[:1], value[-1:]) != ("[", "]") or len(items) not in lengths:
            raise UsageError(f"{what}:{value[:40]} is not a list of {lengths[-1]} at most")
        for item in items:
            _check(what, item, limits)
    elif name in _CHOICES:
        if value not in _CHOICES[name]:
            raise UsageError(f"{what}:{value[:40]} is none of {', '.join(sorted(_CHOICES[name]))}")
    elif name == "format" and value.startswith("["):
        return
    elif name in _MODIFIERS and value:
        _check(what, value, _MODIFIERS[name])
    elif name not in _FLAGS or value:
        raise UsageError(f"{base}: modifier {f'{name}:{value}'[:60].rstrip(':')} is not known")


def _offset_range(base: str, name: str) -> _Range:
    if base.startswith(("buffer_", "tbuffer_")):
        return _BUFFER_OFFSET
    if base.startswith("ds_"):
        return _DS_OFFSET if name == "offset" else _DS_HALF_OFFSET
    if base.startswith(("global_", "scratch_")):
        return _SEGMENT_OFFSET
    if base.startswith("flat_"):
        return _FLAT_OFFSET
    return _SMEM_OFFSET


def _check_swizzle(value: str) -> None:
    inner = re.fullmatch(r"swizzle\(([A-Z_]+)((?:,[^,()]+)*)\)", value)
    if inner is None:
        raise UsageError(f"ds_swizzle_b32 offset:{value[:40]} is not a number or a swizzle")
    limits: dict[str, tuple[_Range, ...]] = {
        "QUAD_PERM": ((0, 3),) * 4,
        "BROADCAST": ((2, 32), (0, 31)),
        "SWAP": ((1, 16),),
        "REVERSE": ((2, 32),),
    }
    numbers = [one.strip() for one in inner[2].split(",")[1:]]
    for number, limit in zip(numbers, limits.get(inner[1], ()), strict=False):
        _check("ds_swizzle_b32 swizzle", number, limit)


def _check_waitcnt(text: str) -> None:
    words = re.sub(r"[&,]", " ", text).split()
    for word in words:
        counter = re.fullmatch(r"(vmcnt|expcnt|lgkmcnt)\(([^()]*)\)", word)
        if counter is not None:
            _check(f"s_waitcnt {counter[1]}", counter[2], _COUNTERS[counter[1]])
        elif len(words) > 1 or not _NUMBER.fullmatch(word) or int(word, 0) & ~_WAITCNT_BITS:
            raise UsageError(f"s_waitcnt {text[:40]}: wanted vmcnt(), expcnt() and lgkmcnt()")


def _check_hwreg(text: str) -> None:
    """`s_getreg_b32 s0, hwreg(NAME, offset, size)`, with a number for the three of them in one."""
    for inner in re.findall(r"hwreg\(([^()]*)\)", text):
        fields = [one.strip() for one in inner.split(",")]
        for number, limits in zip(fields[1:], ((0, 31), (1, 32)), strict=False):
            _check("hwreg", number, limits)
        if len(fields) == 3 and int(fields[1], 0) + int(fields[2], 0) > 32:
            raise UsageError(f"hwreg({inner[:40]}) reaches beyond the register")
        if _NUMBER.fullmatch(fields[0]):
            _check("hwreg", fields[0], (0, 63))
    for value in parse_operands(text).values:
        if _NUMBER.fullmatch(value):
            _check("s_setreg/s_getreg", value, _LITERAL)


def _check_message(text: str) -> None:
    if _NUMBER.fullmatch(text.strip()):
        _check("s_sendmsg", text.strip(), (0, 0x3FF))


def _check_gpr_index(text: str) -> None:
    if "gpr_idx(" not in text:
        _check("s_set_gpr_idx_on", text.rpartition(",")[2].strip(), (0, 15))


_SPECIAL: Final[Mapping[str, Callable[[str], None]]] = {
    "s_getreg_b32": _check_hwreg,
    "s_setreg_b32": _check_hwreg,
    "s_setreg_imm32_b32": _check_hwreg,
    "s_sendmsg": _check_message,
    "s_sendmsghalt": _check_message,
    "s_set_gpr_idx_on": _check_gpr_index,
}


def _check(what: str, value: str, limits: _Range) -> None:
    lowest, highest = limits
    if not _NUMBER.fullmatch(value) or not lowest <= int(value, 0) <= highest:
        raise UsageError(f"{what} {value[:40]} is outside {lowest} to {highest}")
