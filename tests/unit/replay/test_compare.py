from __future__ import annotations

import struct

import numpy as np
import pytest

from asmevo.replay.compare import RegionComparer
from asmevo.replay.comparison import Difference, RegionFacts
from asmevo.replay.elements import ElementType, format_value
from asmevo.replay.numeric import Bytes

_ADDRESS = 0x7F0000001000


def _array(data: bytes) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)


def _compare(
    expected: bytes, actual: bytes, *, element_type: ElementType, chunk: int = 1 << 20
) -> Difference | None:
    facts = RegionFacts(index=2, address=_ADDRESS, argument="out", element_type=element_type)
    comparer = RegionComparer(facts)
    for offset in range(0, len(expected), chunk):
        end = offset + chunk
        comparer.feed(offset, _array(expected[offset:end]), _array(actual[offset:end]))
    return comparer.finish()


def test_comparison_equal_bytes_finds_nothing() -> None:
    data = bytes(range(256)) * 5 + b"odd"

    assert _compare(data, data, element_type=ElementType.F32, chunk=64) is None


@pytest.mark.parametrize("chunk", [8, 64, 1 << 20])
def test_comparison_changed_floats_names_first_and_counts_all(chunk: int) -> None:
    values = [float(n) for n in range(64)]
    expected = struct.pack("<64f", *values)
    values[5], values[6], values[40] = 5.5, -6.0, float("nan")
    actual = struct.pack("<64f", *values)

    found = _compare(expected, actual, element_type=ElementType.F32, chunk=chunk)

    assert found is not None
    assert (found.region, found.argument) == (2, "out")
    assert (found.element_index, found.byte_offset) == (5, 20)
    assert found.address == _ADDRESS + 20
    assert found.expected == "0x40a00000 (5)"
    assert found.actual == "0x40b00000 (5.5)"
    assert found.differing_elements == 3
    changed = sum(a != b for a, b in zip(expected, actual, strict=True))
    assert found.differing_bytes == changed


def test_comparison_negative_zero_differs() -> None:
    found = _compare(struct.pack("<f", 0.0), struct.pack("<f", -0.0), element_type=ElementType.F32)

    assert found is not None
    assert found.actual == "0x80000000 (-0)"


def test_comparison_equal_nans_are_identical() -> None:
    data = struct.pack("<2f", float("nan"), 1.0)

    assert _compare(data, data, element_type=ElementType.F32) is None


def test_comparison_difference_in_cut_last_element_shows_its_bytes() -> None:
    found = _compare(bytes(6), bytes(5) + b"\x07", element_type=ElementType.F32)

    assert found is not None
    assert (found.element_index, found.byte_offset) == (1, 4)
    assert (found.expected, found.actual) == ("0x0000", "0x0700")
    assert (found.differing_bytes, found.differing_elements) == (1, 1)


def test_comparison_chunk_off_element_grid_is_refused() -> None:
    comparer = RegionComparer(RegionFacts(index=0, address=_ADDRESS))

    with pytest.raises(ValueError, match="multiples of 8"):
        comparer.feed(4, _array(bytes(4)), _array(bytes(4)))


@pytest.mark.parametrize(
    ("data", "element_type", "text"),
    [
        (struct.pack("<e", 1.5), ElementType.F16, "0x3e00 (1.5)"),
        (b"\xc0\x3f", ElementType.BF16, "0x3fc0 (1.5)"),
        (struct.pack("<d", 0.1), ElementType.F64, "0x3fb999999999999a (0.10000000000000001)"),
        (struct.pack("<i", -2), ElementType.I32, "0xfffffffe (-2)"),
        (b"\x07", ElementType.B8, "0x07"),
    ],
)
def test_value_of_a_type_reads_as_bits_and_value(
    data: bytes, element_type: ElementType, text: str
) -> None:
    assert format_value(data, element_type) == text


def test_value_of_unknown_type_reads_as_every_float() -> None:
    text = format_value(struct.pack("<f", 1.0), ElementType.B32)

    assert text == "0x3f800000 (f32 1; bf16 0, 1; f16 0, 1.875)"
