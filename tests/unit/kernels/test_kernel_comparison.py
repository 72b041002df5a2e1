"""The harness of the kernel cases must be able to fail."""

from __future__ import annotations

import pytest
import torch
from kernel_case import EXACT, Tolerance, quantized, rounded
from kernel_trial import compare

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("actual", "expected", "is_within"),
    [
        ([1.0, NAN, INF, -INF], [1.0, NAN, INF, -INF], True),
        ([1.0, NAN], [1.0, 2.0], False),
        ([1.0, 2.0], [1.0, NAN], False),
        ([INF], [-INF], False),
        ([INF], [1.0], False),
        ([1.0], [INF], False),
        ([1.0 + 2**-23], [1.0], False),
        ([-0.0], [0.0], True),
    ],
)
def test_exact_comparison_special_values_equal_only_themselves(
    actual: list[float], expected: list[float], is_within: bool
) -> None:
    result = compare("x", torch.tensor(actual), torch.tensor(expected), EXACT)

    assert result.is_within is is_within
    assert bool(result.difference) is not is_within


def test_comparison_nan_is_never_within_a_tolerance() -> None:
    tolerance = Tolerance(absolute=INF, reason="anything")

    result = compare("x", torch.tensor([NAN]), torch.tensor([1.0]), tolerance)

    assert not result.is_within


@pytest.mark.parametrize(("steps", "is_within"), [(1, True), (2, False)])
def test_rounded_tolerance_allows_the_named_units_in_the_last_place(
    steps: int, is_within: bool
) -> None:
    tolerance = rounded(torch.bfloat16, "one step", ulps=1)
    actual = torch.tensor([1.0 + steps * 2**-7], dtype=torch.bfloat16)

    result = compare("x", actual, torch.tensor([1.0]), tolerance)

    assert result.is_within is is_within


@pytest.mark.parametrize(("differing", "is_within"), [(1, True), (2, False)])
def test_quantized_tolerance_limits_how_many_elements_differ(
    differing: int, is_within: bool
) -> None:
    expected = torch.arange(100)
    actual = expected.clone()
    actual[:differing] += 1

    result = compare("x", actual, expected, quantized(torch.int8, share=0.01))

    assert result.is_within is is_within


def test_comparison_worst_element_is_named_with_both_values() -> None:
    actual, expected = torch.zeros(3, 4), torch.zeros(3, 4)
    actual[2, 1] = 7

    result = compare("out", actual, expected, EXACT)

    assert result.difference == "1 of 12 elements differ, worst at (2, 1): 7 instead of 0"


def test_comparison_other_shape_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"shape \(3,\), not \(1, 3\)"):
        compare("x", torch.zeros(3), torch.zeros(1, 3), EXACT)
