"""Register layouts of matrix instructions, written from AMD's matrix instruction calculator.

Operands are arrays [block, k, outer] of element bits, results [block, row, column] of bits;
registers are arrays [lane, register] of dwords.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["ELEMENT_BITS", "LANES", "Matrix", "pack_operand", "pack_result", "unpack_result"]

Array = NDArray[Any]
LANES = 64
ELEMENT_BITS = {
    "f64": 64,
    "f32": 32,
    "xf32": 32,
    "f16": 16,
    "bf16": 16,
    "fp8": 8,
    "bf8": 8,
    "i8": 8,
}
CHUNK = 16  # gfx950: more than 16 8-bit elements a lane stand in pieces of 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A matrix instruction's shape and element types."""

    mnemonic: str
    result: str
    a: str
    b: str
    m: int
    n: int
    k: int
    blocks: int

    @classmethod
    def parse(cls, mnemonic: str, blocks: int = 1) -> Self:
        """Read a mnemonic of either generation (`v_mfma_f32_32x32x8_f16`, `…32x32x8f16`)."""
        match = re.fullmatch(
            r"v_s?mf\w*?_(f32|i32|f64)_(\d+)x(\d+)x(\d+)(?:_\d+b)?_?([a-z0-9_]+?)(?:_1k)?", mnemonic
        )
        assert match, mnemonic
        result, m, n, k, types = match.groups()
        names = types.split("_")
        return cls(
            mnemonic=mnemonic,
            result=result,
            a=names[0],
            b=names[-1],
            m=int(m),
            n=int(n),
            k=int(k),
            blocks=blocks,
        )

    @property
    def result_registers(self) -> int:
        """Registers of C and D."""
        return self.m * self.n * self.blocks * (2 if self.result == "f64" else 1) // LANES


def _k_of(bits: int, per_lane: int, groups: int, group: int, index: int) -> int:
    if per_lane > CHUNK and bits == 8:
        return (index // CHUNK * groups + group) * CHUNK + index % CHUNK
    return group * per_lane + index


def pack_operand(elements: Array, bits: int) -> Array:
    """Put A or B, [block, k, outer], into registers."""
    blocks, k_count, outer = elements.shape
    stride = outer * blocks
    groups = LANES // stride
    per_lane = k_count // groups
    registers = np.zeros((LANES, max(1, per_lane * bits // 32)), np.uint32)
    for lane in range(LANES):
        for index in range(per_lane):
            k = _k_of(bits, per_lane, groups, lane // stride, index)
            value = int(elements[lane // outer % blocks, k, lane % outer])
            at = index * bits
            registers[lane, at // 32] |= np.uint32(value << at % 32 & 0xFFFFFFFF)
            if bits == 64:
                registers[lane, 1] = np.uint32(value >> 32)
    return registers


def _position(matrix: Matrix, register: int, lane: int) -> tuple[int, int, int]:
    """Block, row and column of a result element."""
    if matrix.result == "f64":
        rest = lane // matrix.n
        return rest % matrix.blocks, rest // matrix.blocks + 4 * register, lane % matrix.n
    if matrix.n == 32:
        row = 8 * (register // 4 % 4) + 4 * (lane // 32) + register % 4
        return register // 16, row, lane % 32
    if matrix.n == 16:
        return register // 4, 4 * (lane // 16) + register % 4, lane % 16
    return lane // 4, register, lane % 4


def _width(matrix: Matrix) -> int:
    return 2 if matrix.result == "f64" else 1


def pack_result(matrix: Matrix, values: Array) -> Array:
    """Put C, [block, row, column] of bits, into registers."""
    width = _width(matrix)
    registers = np.zeros((LANES, matrix.result_registers), np.uint32)
    for register in range(matrix.result_registers // width):
        for lane in range(LANES):
            value = int(values[_position(matrix, register, lane)])
            for part in range(width):
                registers[lane, width * register + part] = value >> 32 * part & 0xFFFFFFFF
    return registers


def unpack_result(matrix: Matrix, registers: Array) -> Array:
    """Take D out of registers: [block, row, column] of bits."""
    width = _width(matrix)
    values = np.zeros((matrix.blocks, matrix.m, matrix.n), np.uint64 if width == 2 else np.uint32)
    for register in range(matrix.result_registers // width):
        for lane in range(LANES):
            value = sum(int(registers[lane, width * register + p]) << 32 * p for p in range(width))
            values[_position(matrix, register, lane)] = value
    return values
