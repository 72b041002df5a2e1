"""Stochastic and scaled conversions to FP8, BF8, FP6, BF6 and FP4, against exact arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from float_reference import F16, F32, Format
from lane_runner import run_elementwise
from numpy.typing import NDArray

BF16 = Format(width=16, mantissa_bits=7, bias=127)
OVERFLOW_ON = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n"
SCALE = 0x3E91_2345  # 2^-2: the mantissa does not count


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    """A small format: codes count magnitudes up, the sign bit above."""

    exponent_bits: int
    mantissa_bits: int
    bias: int
    largest: int
    overflow: int
    nan: int
    is_fnuz: bool = False

    @property
    def width(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)

    def value(self, code: int) -> Fraction:
        exponent, mantissa = code >> self.mantissa_bits, code & (1 << self.mantissa_bits) - 1
        mantissa |= (1 << self.mantissa_bits) if exponent else 0
        return mantissa * Fraction(2) ** (max(exponent, 1) - self.bias - self.mantissa_bits)

    def finish(self, code: int, negative: bool, saturates: bool) -> int:
        if code > self.largest:
            code = self.largest if saturates else self.overflow
        if self.is_fnuz and code in (0, self.nan):
            return code
        return code | (self.sign if negative else 0)

    def nearest(self, value: Fraction) -> int:
        """Code of the nearest magnitude, ties to even; beyond the largest the next codes go on."""
        codes = range(self.largest + 2)
        return min(codes, key=lambda code: (abs(self.value(code) - value), code & 1))

    def stochastic(self, value: Fraction, source_bits: int, random: int) -> int:
        """The exact value cut to the source's precision at the format's exponent, plus random."""
        if value == 0:
            return 0
        exponent = max(floor_log2(value), 1 - self.bias)
        step = Fraction(2) ** (exponent - source_bits)
        units = math.floor(value / step) + (random >> 32 - source_bits + self.mantissa_bits)
        kept = units >> source_bits - self.mantissa_bits
        return kept + ((exponent + self.bias - 1) << self.mantissa_bits)


def floor_log2(value: Fraction) -> int:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= value else exponent - 1


FORMATS = {
    ("gfx942", "fp8"): Small(exponent_bits=4, mantissa_bits=3, bias=8, largest=0x7F,
                             overflow=0x80, nan=0x80, is_fnuz=True),
    ("gfx942", "bf8"): Small(exponent_bits=5, mantissa_bits=2, bias=16, largest=0x7F,
                             overflow=0x80, nan=0x80, is_fnuz=True),
    ("gfx950", "fp8"): Small(exponent_bits=4, mantissa_bits=3, bias=7, largest=0x7E,
                             overflow=0x7F, nan=0x7F),
    ("gfx950", "bf8"): Small(exponent_bits=5, mantissa_bits=2, bias=15, largest=0x7B,
                             overflow=0x7C, nan=0x7F),
    ("gfx950", "fp6"): Small(exponent_bits=2, mantissa_bits=3, bias=1, largest=0x1F,
                             overflow=0x1F, nan=0x1F),
    ("gfx950", "bf6"): Small(exponent_bits=3, mantissa_bits=2, bias=3, largest=0x1F,
                             overflow=0x1F, nan=0x1F),
    ("gfx950", "fp4"): Small(exponent_bits=2, mantissa_bits=1, bias=1, largest=0x7,
                             overflow=0x7, nan=0x7),
    ("gfx950", "f16"): Small(exponent_bits=5, mantissa_bits=10, bias=15, largest=0x7BFF,
                             overflow=0x7C00, nan=0x7FFF),
    ("gfx950", "bf16"): Small(exponent_bits=8, mantissa_bits=7, bias=127, largest=0x7F7F,
                              overflow=0x7F80, nan=0x7FFF),
}  # fmt: skip
SOURCES = {"f32": F32, "f16": F16, "bf16": BF16}


def sources(form: Format, spread: tuple[float, float], count: int = 320) -> list[int]:
    """Bit patterns of finite numbers over some decades, both signs, zeros and the specials."""
    generator = np.random.default_rng(count)
    values = generator.normal(0, 1, count) * 10.0 ** generator.uniform(*spread, count)
    bits = [form.round(Fraction(float(value))) for value in values]
    quiet = form.infinity | 1 << form.mantissa_bits - 1
    special = [0, form.infinity, quiet]
    return [*bits, *special, *(one | form.sign for one in special)]


def randoms(count: int) -> NDArray[np.uint32]:
    some = np.random.default_rng(5).integers(0, 1 << 32, count, dtype=np.uint32)
    some[::5], some[1::5] = 0, 0xFFFFFFFF
    return some


def expected_code(
    small: Small,
    form: Format,
    bits: int,
    *,
    scale: Fraction = Fraction(1),
    random: int | None = None,
    saturates: bool = False,
) -> int:
    negative = bool(bits & form.sign)
    if form.is_nan(bits):
        return small.nan | (small.sign if negative and not small.is_fnuz else 0)
    if form.is_infinite(bits):
        return small.finish(small.largest + 1, negative, saturates)
    value = abs(form.value(bits)) / scale
    if random is None:
        code = small.nearest(value)
    else:
        code = small.stochastic(value, form.mantissa_bits, random)
    return small.finish(code, negative, saturates)


@pytest.mark.parametrize("saturates", [False, True], ids=["inf", "saturates"])
@pytest.mark.parametrize(
    "kind", [k for k in FORMATS if k[1] in ("fp8", "bf8", "f16", "bf16")], ids="-".join
)
def test_stochastic_conversion_adds_the_random_bits_and_cuts(
    kind: tuple[str, str], saturates: bool
) -> None:
    small = FORMATS[kind]
    bits = sources(F32, (-39, 38) if kind[1] == "bf16" else (-9, 6))
    random = randoms(len(bits))
    place = "op_sel:[0,0,1]" if small.width == 16 else "op_sel:[0,0,0,1]"
    code = f"v_mov_b32 v30, -1\nv_cvt_sr_{kind[1]}_f32 v30, v10, v11 {place}"

    (result,) = run_elementwise(
        (OVERFLOW_ON if saturates else "") + code,
        [np.array(bits, np.uint32), random],
        [30],
        arch=kind[0],
    )

    mask = (1 << small.width) - 1
    for one, noise, word in zip(bits, random.tolist(), result.tolist(), strict=True):
        expected = expected_code(small, F32, one, random=noise, saturates=saturates)
        assert word >> 16 & mask == expected, f"{one:#x} with {noise:#x}: {word:#x}, {expected:#x}"
        assert word | mask << 16 == 0xFFFFFFFF


def prng(state: int) -> int:
    return (state << 1 ^ (197 if state >> 31 else 0)) & 0xFFFFFFFF


def scaled_code(name: str, wide: str, *, stochastic: bool) -> tuple[str, int, int]:
    """Instruction with its operands, bit at which its result stands, values that it converts."""
    pair = not stochastic or name == "fp4"
    middle = ("sr_" if stochastic else "") + ("pk_" if pair else "")
    first = "v[12:13]" if stochastic and pair and wide == "f32" else "v12"
    second = "v13, " if pair and wide == "f32" and not stochastic else ""
    random = "v11, " if stochastic else ""
    by_byte = stochastic or name == "fp4"
    op_sel = "op_sel:[0,0,0,1]" if by_byte or second else "op_sel:[0,0,1]"
    text = f"v_cvt_scalef32_{middle}{name}_{wide} v30, {first}, {second}{random}v60 {op_sel}"
    return text, 16, 2 if pair else 1


@pytest.mark.parametrize("stochastic", [False, True], ids=["nearest", "stochastic"])
@pytest.mark.parametrize("wide", SOURCES)
@pytest.mark.parametrize("name", ["fp8", "bf8", "fp4"])
def test_scaled_conversion_divides_by_the_power_of_two(
    name: str, wide: str, stochastic: bool
) -> None:
    small, form = FORMATS["gfx950", name], SOURCES[wide]
    bits = sources(form, (-7, 4))
    others = bits[::-1]
    random = randoms(len(bits))
    if wide == "f32":
        packed, second = bits, others
    else:
        packed, second = [a | b << 16 for a, b in zip(bits, others, strict=True)], others
    text, at, count = scaled_code(name, wide, stochastic=stochastic)
    code = f"v_mov_b32 v60, {SCALE:#x}\nv_mov_b32 v30, -1\nv_mov_b32 v13, v12\n"
    code += f"v_mov_b32 v12, v10\n{text}"

    (result,) = run_elementwise(
        code,
        [np.array(packed, np.uint32), random, np.array(second, np.uint32)],
        [30],
        arch="gfx950",
    )

    for first, other, noise, word in zip(
        bits, others, random.tolist(), result.tolist(), strict=True
    ):
        expected = 0
        state = noise
        for i, one in enumerate((first, other)[:count]):
            drawn = state if stochastic else None
            part = expected_code(small, form, one, scale=Fraction(1, 4), random=drawn)
            expected |= part << i * small.width
            state = prng(state)
        mask = (1 << count * small.width) - 1
        assert word >> at & mask == expected, f"{first:#x} {other:#x}: {word:#x}, {expected:#x}"
        assert word | mask << at == 0xFFFFFFFF


def six_bit_codes(words: list[int]) -> list[int]:
    packed = sum(word << 32 * i for i, word in enumerate(words))
    return [packed >> 6 * i & 63 for i in range(32)]


@pytest.mark.parametrize("name", ["fp6", "bf6"])
@pytest.mark.parametrize(
    ("wide", "stochastic"),
    [("f32", False), ("f32", True), ("f16", False), ("f16", True), ("bf16", False), ("bf16", True)],
)
def test_conversion_of_32_elements_to_six_bits_packs_them_in_order(
    name: str, wide: str, stochastic: bool
) -> None:
    small, form = FORMATS["gfx950", name], SOURCES[wide]
    bits = sources(form, (-3, 1))[-64:] * 32
    elements = np.array(bits[: 64 * 32], np.uint32).reshape(32, 64)
    random = randoms(64)
    registers = 32 if wide == "f32" else 16
    lines = [f"v_mov_b32 v100, {SCALE:#x}"]
    # Element e of lane l is the source of lane l, rotated by e: enough to tell the places apart.
    inputs = [np.roll(elements[0], -e) for e in range(4)]
    for register in range(registers):
        if wide == "f32":
            lines.append(f"v_mov_b32 v{64 + register}, v{10 + register % 4}")
        else:
            even, odd = 10 + 2 * register % 4, 10 + (2 * register + 1) % 4
            lines.append(f"v_lshlrev_b32 v101, 16, v{odd}")
            lines.append(f"v_or_b32 v{64 + register}, v101, v{even}")
    if stochastic:
        source = f"sr_pk32_{name}_{wide} v[30:35], v[64:{63 + registers}], v14, v100"
    elif wide == "f32":
        source = f"2xpk16_{name}_f32 v[30:35], v[64:79], v[80:95], v100"
    else:
        source = f"pk32_{name}_{wide} v[30:35], v[64:79], v100"
    lines.append(f"v_cvt_scalef32_{source}")

    result = run_elementwise(
        "\n".join(lines), [*inputs, random], list(range(30, 36)), arch="gfx950"
    )

    for lane in range(64):
        state = int(random[lane])
        expected = []
        for element in range(32):
            index = element
            if wide == "f32" and not stochastic:
                index = element // 2 + 16 * (element % 2)
            one = int(inputs[index % 4][lane])
            drawn = state if stochastic else None
            expected.append(expected_code(small, form, one, scale=Fraction(1, 4), random=drawn))
            state = prng(state)
        assert six_bit_codes([int(column[lane]) for column in result]) == expected, lane


@pytest.mark.parametrize("name", ["fp6", "bf6"])
@pytest.mark.parametrize("wide", SOURCES)
def test_conversion_of_32_elements_from_six_bits_multiplies_each(name: str, wide: str) -> None:
    small, form = FORMATS["gfx950", name], SOURCES[wide]
    words = np.random.default_rng(3).integers(0, 1 << 32, (6, 64), dtype=np.uint32)
    count = 32 if wide == "f32" else 16
    code = f"v_mov_b32 v100, {SCALE:#x}\n"
    code += f"v_cvt_scalef32_pk32_{wide}_{name} v[64:{63 + count}], v[10:15], v100"

    result = run_elementwise(code, list(words), list(range(64, 64 + count)), arch="gfx950")

    for lane in range(64):
        for i, part in enumerate(six_bit_codes([int(words[j, lane]) for j in range(6)])):
            negative = bool(part & small.sign)
            value = small.value(part & (small.sign - 1)) / 4
            expected = form.round(-value if negative else value, negative)
            word = int(result[i if wide == "f32" else i // 2][lane])
            got = word if wide == "f32" else word >> 16 * (i % 2) & 0xFFFF
            assert got == expected, f"{part:#x}: {got:#x}, expected {expected:#x}"


def test_scale_of_nan_gives_nan_of_the_values_sign() -> None:
    code = (
        "v_mov_b32 v60, 0x7f800000\nv_mov_b32 v30, 0\nv_cvt_scalef32_pk_fp8_f32 v30, v10, -v10, v60"
    )

    (result,) = run_elementwise(code, [np.array([0x3F800000], np.uint32)], [30], arch="gfx950")

    assert int(result[0]) == 0xFF7F
