from __future__ import annotations

import struct

import numpy as np
import pytest

from asmevo.errors import UsageError
from asmevo.replay.compare import RegionComparer
from asmevo.replay.comparison import RegionFacts
from asmevo.replay.elements import ElementType
from asmevo.replay.numeric import read_floats, ulp_distances
from asmevo.replay.rules import BoundedRule, Tolerance

_NAN, _INF = float("nan"), float("inf")
_CODES = {ElementType.F64: "d", ElementType.F32: "f", ElementType.F16: "e"}


def _pack(*values: float, kind: ElementType = ElementType.F32) -> np.ndarray[tuple[int], np.dtype]:
    data = struct.pack(f"<{len(values)}{_CODES[kind]}", *values)
    return np.frombuffer(data, dtype=np.uint8)


def _is_accepted(expected: float, actual: float, tolerance: Tolerance) -> bool:
    comparer = RegionComparer(
        RegionFacts(index=0, address=0, element_type=ElementType.F32),
        BoundedRule(tolerance, ElementType.F32),
    )
    comparer.feed(0, _pack(expected), _pack(actual))
    return comparer.finish() is None


@pytest.mark.parametrize(
    ("expected", "actual", "is_accepted"),
    [
        (_NAN, _NAN, True),
        (_NAN, 1.0, False),
        (1.0, _NAN, False),
        (_INF, _INF, True),
        (_INF, -_INF, False),
        (_INF, 3.4e38, False),
        (3.4e38, _INF, False),
        (0.0, -0.0, False),
        (1.0, 1.0005, True),
        (1.0, 1.002, False),
        (-1.0, -1.0005, True),
        (1.0, -1.0, False),
        (0.0, 1e-5, True),
        (0.0, 1e-3, False),
    ],
)
def test_tolerance_judges_special_values_and_bounds(
    expected: float, actual: float, is_accepted: bool
) -> None:
    tolerance = Tolerance(relative=1e-3, absolute=1e-4)

    assert _is_accepted(expected, actual, tolerance) is is_accepted


def test_tolerance_with_equal_zeros_accepts_zero_of_other_sign() -> None:
    assert _is_accepted(0.0, -0.0, Tolerance(equal_zeros=True))


def test_tolerance_in_ulp_accepts_as_many_and_no_more() -> None:
    three_up = float(np.nextafter(np.float32(1), np.float32(2)) - 1) * 3 + 1

    assert _is_accepted(1.0, three_up, Tolerance(max_ulp=3))
    assert not _is_accepted(1.0, three_up, Tolerance(max_ulp=2))


def test_tolerance_of_no_float_type_is_refused() -> None:
    with pytest.raises(ValueError, match="not a float type"):
        BoundedRule(Tolerance(), ElementType.I32)


@pytest.mark.parametrize(("relative", "absolute"), [(-1.0, 0.0), (0.0, _NAN), (1.0, 0.0)])
def test_tolerance_of_senseless_bound_is_refused(relative: float, absolute: float) -> None:
    with pytest.raises(UsageError, match="bound"):
        Tolerance(relative=relative, absolute=absolute)


@pytest.mark.parametrize("kind", list(_CODES))
def test_ulp_distance_counts_numbers_between_across_zero(kind: ElementType) -> None:
    one, other = _pack(0.0, kind=kind), _pack(-0.0, kind=kind)
    smallest = np.zeros(kind.size_bytes, dtype=np.uint8)
    smallest[0] = 1
    below = smallest.copy()
    below[-1] |= 0x80

    assert ulp_distances(one, other, kind)[0] == 0
    assert ulp_distances(below, smallest, kind)[0] == 2


def test_floats_of_bf16_are_read_as_their_value() -> None:
    data = np.frombuffer(b"\xc0\x3f\x80\xff", dtype=np.uint8)

    assert list(read_floats(data, ElementType.BF16)) == [1.5, -_INF]


def test_comparison_within_bounds_reports_differing_elements_and_max_ulp() -> None:
    expected, actual = _pack(1.0, 2.0, 3.0), _pack(1.0, 2.0, 3.0).copy()
    actual[4] += 2
    actual[8] += 1
    comparer = RegionComparer(
        RegionFacts(index=4, address=0, element_type=ElementType.F32, type_source="stores"),
        BoundedRule(Tolerance(max_ulp=4), ElementType.F32),
    )
    comparer.feed(0, expected, actual)
    outcome = comparer.outcome()

    assert comparer.finish() is None
    assert (outcome.differing_elements, outcome.elements, outcome.max_ulp) == (2, 3, 2)
    assert outcome.rule == "within 4 ulp"
