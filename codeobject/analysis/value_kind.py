"""Kinds of register values, and what each instruction makes of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce

from asmevo.codeobject.analysis.effect import Effect

__all__ = [
    "CONSTANT",
    "EXCHANGES",
    "Value",
    "ValueKind",
    "copied_operand",
    "join_kinds",
    "kind_of_result",
]


class ValueKind(StrEnum):
    """What 32 bits of a register hold."""

    F64 = "f64"
    """Half of one."""
    F32 = "f32"
    F16 = "f16"
    """In the low half."""
    BF16 = "bf16"
    """In the low half."""
    ROUNDED_BF16 = "rounded_bf16"
    """In the high half, as integer arithmetic rounds an f32 on chips without a conversion."""
    PACKED_F16 = "packed_f16"
    PACKED_BF16 = "packed_bf16"
    INTEGER = "integer"
    KERNARG_POINTER = "kernarg_pointer"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Of a register: its kind, None for a constant, and the arguments it was computed from."""

    kind: ValueKind | None
    arguments: frozenset[int]

    def join(self, other: Value) -> Value:
        """What is known where two paths meet."""
        return Value(
            kind=join_kinds(self.kind, other.kind), arguments=self.arguments | other.arguments
        )


CONSTANT = Value(kind=None, arguments=frozenset())


def join_kinds(one: ValueKind | None, other: ValueKind | None) -> ValueKind | None:
    """A constant has whatever kind the other value has."""
    if one is None or one is other:
        return other
    return one if other is None else ValueKind.OPAQUE


# Instructions that move a value, and which operand they move.
_COPIES = {
    "v_mov_b32": 1,
    "v_mov_b64": 1,
    "v_accvgpr_read_b32": 1,
    "v_accvgpr_write_b32": 1,
    "v_accvgpr_mov_b32": 1,
    "v_readfirstlane_b32": 1,
    "v_readlane_b32": 1,
    "s_mov_b32": 1,
    "s_mov_b64": 1,
    "ds_swizzle_b32": 1,
    "ds_bpermute_b32": 2,
    "ds_permute_b32": 2,
}


EXCHANGES = ("v_permlane", "v_swap")
"""Instructions that exchange parts of two registers, both of which they read and write."""


def copied_operand(effect: Effect) -> str | None:
    """The operand whose value the instruction gives unchanged."""
    index = _COPIES.get(effect.base)
    values = effect.operands.values
    if index is None or index >= len(values) or effect.encoding == "sdwa":
        return None
    return values[index]


_FLOAT_OF_SUFFIX = {
    "f64": ValueKind.F64,
    "f32": ValueKind.F32,
    "f16": ValueKind.F16,
    "bf16": ValueKind.BF16,
}
_CONVERSION = re.compile(r"v_cvt_(?:scale\w*?_)?(?:pk_)?(?P<to>f64|f32|f16|bf16)_")
_MATRIX = re.compile(r"v_s?mfma[ci]?_(?P<to>f64|f32|i32)_")
_ARITHMETIC = re.compile(r"v_(?!cmp|cvt|frexp_exp|class)\w+?_(?P<type>f64|f32|f16|bf16)")
_PACKED = re.compile(r"v_pk_\w+_(?P<type>f32|f16|bf16)")
_DOT = re.compile(r"v_dot\w+?_(?P<to>f32|i32|u32)_")
_PACKED_KIND = {
    "f32": ValueKind.F32,
    "f16": ValueKind.PACKED_F16,
    "bf16": ValueKind.PACKED_BF16,
}
_BF16_PARTS = frozenset({ValueKind.BF16, ValueKind.ROUNDED_BF16, ValueKind.PACKED_BF16})
_F16_PARTS = frozenset({ValueKind.F16, ValueKind.PACKED_F16})
_COMBINING = frozenset(
    {"v_or_b32", "v_and_or_b32", "v_lshl_or_b32", "v_or3_b32", "v_perm_b32", "v_bfi_b32"}
)
_SIGN_MASKS = frozenset({"0x7fffffff", "0x80000000"})


def kind_of_result(effect: Effect, operands: Sequence[ValueKind | None]) -> ValueKind:
    """Kind of what an instruction computes from operands of these kinds (None: constants)."""
    base = effect.base
    if base.startswith(EXCHANGES):
        return _joined(operands) or ValueKind.INTEGER
    if base == "v_pack_b32_f16":
        return _packed(operands) or ValueKind.OPAQUE
    if base.startswith("v_cndmask"):
        return _selected(effect, operands)
    return _kind_by_name(base) or _kind_of_bits(effect, operands) or ValueKind.INTEGER


def _kind_by_name(base: str) -> ValueKind | None:
    """Of floating-point, matrix and conversion instructions, whose names say it."""
    if match := _MATRIX.match(base) or _DOT.match(base):
        return _FLOAT_OF_SUFFIX.get(match["to"], ValueKind.INTEGER)
    if base.startswith("v_cvt_"):
        return _converted(base)
    if match := _PACKED.fullmatch(base):
        return _PACKED_KIND[match["type"]]
    if "_mix" in base:  # v_fma_mixlo_f16 and v_fma_mixhi_f16 write halves
        return ValueKind.F32 if base.endswith("_f32") else ValueKind.PACKED_F16
    match = _ARITHMETIC.match(base)
    return _FLOAT_OF_SUFFIX[match["type"]] if match else None


def _converted(base: str) -> ValueKind:
    if base in ("v_cvt_pkrtz_f16_f32", "v_cvt_pk_f16_f32"):
        return ValueKind.PACKED_F16
    if base == "v_cvt_pk_bf16_f32":
        return ValueKind.PACKED_BF16
    match = _CONVERSION.match(base)
    if match is None:
        return ValueKind.OPAQUE if "fp8" in base or "bf8" in base else ValueKind.INTEGER
    return _FLOAT_OF_SUFFIX[match["to"]]


def _joined(kinds: Sequence[ValueKind | None]) -> ValueKind | None:
    return reduce(join_kinds, kinds, None)


def _selected(effect: Effect, operands: Sequence[ValueKind | None]) -> ValueKind:
    kind = _joined(operands[:2])
    takes_high = any(
        effect.operands.modifiers.get(name) == "WORD_1" for name in ("src0_sel", "src1_sel")
    )
    if takes_high:
        return ValueKind.BF16 if kind is ValueKind.ROUNDED_BF16 else ValueKind.OPAQUE
    return kind or ValueKind.INTEGER


def _packed(operands: Sequence[ValueKind | None]) -> ValueKind | None:
    kinds = {kind for kind in operands if kind is not None}
    if kinds and kinds <= _F16_PARTS:
        return ValueKind.PACKED_F16
    if kinds and kinds <= _BF16_PARTS:
        return ValueKind.PACKED_BF16
    return None


def _kind_of_bits(effect: Effect, operands: Sequence[ValueKind | None]) -> ValueKind | None:
    """Integer instructions that round, shift, mask or combine floats; None for the others."""
    base, kinds = effect.base, {kind for kind in operands if kind is not None}
    if base == "v_add3_u32" and ValueKind.F32 in kinds:
        return ValueKind.ROUNDED_BF16  # x + (x >> 16 & 1) + 0x7fff
    if base == "v_lshrrev_b32" and effect.operands.values[1] == "16" and kinds:
        return _high_half(kinds)
    if base == "v_and_b32" and len(kinds) == 1 and kinds <= _BF16_PARTS | _F16_PARTS:
        return next(iter(kinds))
    if base in _COMBINING and (packed := _packed(operands)) is not None:
        return packed
    if kinds == {ValueKind.F32} and _keeps_float(effect):
        return ValueKind.F32
    return None


def _high_half(kinds: set[ValueKind]) -> ValueKind | None:
    if kinds <= {ValueKind.ROUNDED_BF16, ValueKind.PACKED_BF16}:
        return ValueKind.BF16
    return ValueKind.F16 if kinds == {ValueKind.PACKED_F16} else None


def _keeps_float(effect: Effect) -> bool:
    """True for bit operations that change no more than an f32's sign."""
    if effect.base == "v_bfi_b32":
        return True
    is_sign = any(value in _SIGN_MASKS for value in effect.operands.values)
    return is_sign and effect.base in ("v_and_b32", "v_xor_b32", "v_or_b32")
