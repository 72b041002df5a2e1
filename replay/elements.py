"""Element types of memory regions: sizes, and how a raw value reads."""

from __future__ import annotations

import struct
from enum import StrEnum

__all__ = ["ElementType", "format_value"]


class ElementType(StrEnum):
    """What the bytes of a region mean; `b8` to `b64` are bits of unknown meaning."""

    B8 = "b8"
    B16 = "b16"
    B32 = "b32"
    B64 = "b64"
    I8 = "i8"
    U8 = "u8"
    I16 = "i16"
    U16 = "u16"
    I32 = "i32"
    U32 = "u32"
    I64 = "i64"
    U64 = "u64"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"

    @property
    def size_bytes(self) -> int:
        """Bytes of one element."""
        return int(self.value.lstrip("bfiu")) // 8


_STRUCT_CODES = {
    ElementType.I8: "<b",
    ElementType.U8: "<B",
    ElementType.I16: "<h",
    ElementType.U16: "<H",
    ElementType.I32: "<i",
    ElementType.U32: "<I",
    ElementType.I64: "<q",
    ElementType.U64: "<Q",
    ElementType.F16: "<e",
    ElementType.F32: "<f",
    ElementType.F64: "<d",
}


def _read(data: bytes, element_type: ElementType) -> str:
    if element_type is ElementType.BF16:
        return f"{struct.unpack('<f', bytes(2) + data)[0]:.6g}"
    value = struct.unpack(_STRUCT_CODES[element_type], data)[0]
    digits = {ElementType.F16: 6, ElementType.F32: 9, ElementType.F64: 17}.get(element_type)
    return str(value) if digits is None else f"{value:.{digits}g}"


def format_value(data: bytes, element_type: ElementType) -> str:
    """An element as text: its bits, then its value; for untyped 32 bits the readings as floats."""
    bits = f"0x{int.from_bytes(data, 'little'):0{2 * len(data)}x}"
    if element_type is ElementType.B32:
        halves = (data[:2], data[2:])
        bf16 = ", ".join(_read(half, ElementType.BF16) for half in halves)
        f16 = ", ".join(_read(half, ElementType.F16) for half in halves)
        return f"{bits} (f32 {_read(data, ElementType.F32)}; bf16 {bf16}; f16 {f16})"
    if element_type in _STRUCT_CODES or element_type is ElementType.BF16:
        return f"{bits} ({_read(data, element_type)})"
    return bits
