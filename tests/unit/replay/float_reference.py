"""Exact float arithmetic on bit patterns, independent of the host's, and values worth testing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "F16",
    "F32",
    "F64",
    "Format",
    "add",
    "all_pairs",
    "fma",
    "high",
    "low",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "operands",
    "ordered",
    "same_float",
]

DEFAULT_NAN = {16: 0xFE00, 32: 0xFFC00000, 64: 0xFFF8000000000000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """An IEEE binary format."""

    width: int
    mantissa_bits: int
    bias: int

    @property
    def exponent_max(self) -> int:
        return (1 << (self.width - 1 - self.mantissa_bits)) - 1

    @property
    def infinity(self) -> int:
        return self.exponent_max << self.mantissa_bits

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)

    def is_nan(self, bits: int) -> bool:
        return (bits & (self.sign - 1)) > self.infinity

    def is_infinite(self, bits: int) -> bool:
        return (bits & (self.sign - 1)) == self.infinity

    def value(self, bits: int) -> Fraction:
        """Value of a finite number."""
        exponent = bits >> self.mantissa_bits & self.exponent_max
        mantissa = bits & ((1 << self.mantissa_bits) - 1)
        if exponent:
            mantissa |= 1 << self.mantissa_bits
        power = max(exponent, 1) - self.bias - self.mantissa_bits
        magnitude = Fraction(mantissa) * Fraction(2) ** power
        return -magnitude if bits & self.sign else magnitude

    def round(self, value: Fraction, negative_zero: bool = False) -> int:
        """Bits of the nearest number, ties to even."""
        if value == 0:
            return self.sign if negative_zero else 0
        sign = self.sign if value < 0 else 0
        magnitude = abs(value)
        exponent = math.floor(math.log2(magnitude.numerator) - math.log2(magnitude.denominator))
        while Fraction(2) ** exponent > magnitude:
            exponent -= 1
        while Fraction(2) ** (exponent + 1) <= magnitude:
            exponent += 1
        exponent = max(exponent, 1 - self.bias)
        scaled = magnitude / Fraction(2) ** (exponent - self.mantissa_bits)
        whole = round(scaled)  # Python rounds halves to even
        code = (exponent + self.bias - 1 << self.mantissa_bits) + whole
        return sign | min(code, self.infinity)


F16 = Format(width=16, mantissa_bits=10, bias=15)
F32 = Format(width=32, mantissa_bits=23, bias=127)
F64 = Format(width=64, mantissa_bits=52, bias=1023)


def operands(form: Format, random_count: int, seed: int = 1) -> list[int]:
    """Zeros, denormals, infinities, NaNs, neighbours of powers of two, and random bit patterns."""
    one = form.bias << form.mantissa_bits
    positive = [
        0,
        1,
        2,
        (1 << form.mantissa_bits) - 1,
        1 << form.mantissa_bits,
        (1 << form.mantissa_bits) + 1,
        one - 1,
        one,
        one + 1,
        one + (1 << form.mantissa_bits - 1),
        one + (1 << form.mantissa_bits),
        form.infinity - 1,
        form.infinity,
        form.infinity + 1,  # signalling NaN
        form.infinity | 1 << form.mantissa_bits - 1,
        form.infinity | 1 << form.mantissa_bits - 1 | 5,
    ]
    generator = np.random.default_rng(seed)
    random = [
        int.from_bytes(generator.bytes(form.width // 8), "little") for _ in range(random_count)
    ]
    steps = generator.integers(-40, 40, random_count)
    near = [
        one + (int(step) << form.mantissa_bits - 3) | (step & 1) * form.sign
        for step in steps.tolist()
    ]
    return positive + [bits | form.sign for bits in positive] + random + near


def all_pairs(values: list[int]) -> tuple[list[int], list[int]]:
    return [a for a in values for _ in values], [b for _ in values for b in values]


def same_float(form: Format) -> Callable[[int, int], bool]:
    """Equality of bits, where any NaN equals any other."""

    def same(a: int, b: int) -> bool:
        return a == b or (form.is_nan(a) and form.is_nan(b))

    return same


def low(values: list[int]) -> NDArray[np.uint32]:
    return np.array([one & 0xFFFFFFFF for one in values], np.uint32)


def high(values: list[int]) -> NDArray[np.uint32]:
    return np.array([one >> 32 for one in values], np.uint32)


def signed_zero_sum(form: Format, a: int, b: int) -> bool:
    """Whether an exact zero sum of a and b is negative: only when both terms are."""
    return bool(a & form.sign and b & form.sign)


def add(form: Format, a: int, b: int) -> int:
    if form.is_nan(a) or form.is_nan(b):
        return DEFAULT_NAN[form.width]
    if form.is_infinite(a) or form.is_infinite(b):
        if form.is_infinite(a) and form.is_infinite(b) and a != b:
            return DEFAULT_NAN[form.width]
        return a if form.is_infinite(a) else b
    return form.round(form.value(a) + form.value(b), signed_zero_sum(form, a, b))


def multiply(form: Format, a: int, b: int) -> int:
    sign = (a ^ b) & form.sign
    if form.is_nan(a) or form.is_nan(b):
        return DEFAULT_NAN[form.width]
    if form.is_infinite(a) or form.is_infinite(b):
        zero = any(not form.is_infinite(x) and form.value(x) == 0 for x in (a, b))
        return DEFAULT_NAN[form.width] if zero else sign | form.infinity
    return sign | form.round(abs(form.value(a) * form.value(b)))


def fma(form: Format, a: int, b: int, c: int) -> int:
    product_sign = (a ^ b) & form.sign
    if any(form.is_nan(x) for x in (a, b, c)):
        return DEFAULT_NAN[form.width]
    if form.is_infinite(a) or form.is_infinite(b):
        product = multiply(form, a, b)
        return add(form, product, c) if form.is_infinite(c) else product
    if form.is_infinite(c):
        return c
    exact = form.value(a) * form.value(b) + form.value(c)
    return form.round(exact, bool(product_sign and c & form.sign))


def minimum(form: Format, a: int, b: int) -> int:
    """AMD's v_min in IEEE mode: a quiet NaN gives way, a signalling one is quieted and wins."""
    quiet = 1 << form.mantissa_bits - 1
    for x in (a, b):
        if form.is_nan(x) and not x & quiet:
            return x | quiet
    if form.is_nan(a):
        return b
    if form.is_nan(b):
        return a
    return min((a, b), key=lambda x: (ordered(form, x), not x & form.sign))


def maximum(form: Format, a: int, b: int) -> int:
    if form.is_nan(a) or form.is_nan(b):
        return minimum(form, a, b)
    return max((a, b), key=lambda x: (ordered(form, x), not x & form.sign))


def ordered(form: Format, bits: int) -> Fraction | float:
    if form.is_infinite(bits):
        return -math.inf if bits & form.sign else math.inf
    return form.value(bits)


def negate(form: Format, a: int) -> int:
    return a ^ form.sign
