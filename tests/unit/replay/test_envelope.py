from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from asmevo.replay.compare import RegionComparer
from asmevo.replay.comparison import RegionFacts
from asmevo.replay.elements import ElementType
from asmevo.replay.envelope import Envelope
from asmevo.replay.numeric import Bytes

_COUNT = 64


def _bytes(values: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> Bytes:
    return np.frombuffer(np.asarray(values, dtype=dtype).tobytes(), dtype=np.uint8)


def _facts(kind: ElementType, *, has_float_atomics: bool = False) -> RegionFacts:
    return RegionFacts(index=0, address=0, element_type=kind, has_float_atomics=has_float_atomics)


def _learn(facts: RegionFacts, reference: Bytes, *contents: Bytes) -> Envelope:
    envelope = Envelope({0: facts}, {0: reference.size})
    for content in contents:
        envelope.learn(0, 0, reference, content)
    return envelope


def _count_wrong(envelope: Envelope, facts: RegionFacts, expected: Bytes, actual: Bytes) -> int:
    comparer = RegionComparer(facts, envelope.rule(0))
    comparer.feed(0, expected, actual)
    found = comparer.finish()
    return 0 if found is None else found.differing_elements


def _values() -> npt.NDArray[np.float32]:
    return np.linspace(90, 100, _COUNT, dtype=np.float32)


def test_envelope_of_repeating_kernel_has_no_rule() -> None:
    reference = _bytes(_values())
    envelope = _learn(_facts(ElementType.F32), reference, reference.copy())

    assert envelope.rule(0) is None
    assert envelope.facts == ()


def test_envelope_of_floats_accepts_inside_widened_by_spread_and_no_more() -> None:
    facts = _facts(ElementType.F32)
    first, second = _values(), _values()
    second[5] += np.float32(0.01)
    envelope = _learn(facts, _bytes(first), _bytes(second))

    def judge(index: int, by: float) -> int:
        actual = first.copy()
        actual[index] += np.float32(by)
        return _count_wrong(envelope, facts, _bytes(first), _bytes(actual))

    assert envelope.find_excess() is None
    (learned,) = envelope.facts
    assert (learned.varying_elements, learned.elements) == (1, _COUNT)
    assert learned.max_spread == pytest.approx(0.01, rel=1e-2)
    assert (judge(5, 0.015), judge(5, -0.009), judge(5, 0.03)) == (0, 0, 1)
    assert judge(6, 0.001) == 1  # did not vary, and nothing says that it may


def test_envelope_with_float_atomics_covers_elements_that_did_not_vary() -> None:
    facts = _facts(ElementType.F32, has_float_atomics=True)
    first, second = _values(), _values()
    second[5] += np.float32(0.01)
    envelope = _learn(facts, _bytes(first), _bytes(second))
    actual = first.copy()
    actual[6] -= np.float32(0.005)
    wrong = first.copy()
    wrong[6] -= np.float32(0.1)

    assert _count_wrong(envelope, facts, _bytes(first), _bytes(actual)) == 0
    assert _count_wrong(envelope, facts, _bytes(first), _bytes(wrong)) == 1


@pytest.mark.parametrize("value", [5.0, float("nan"), float("inf")])
def test_envelope_too_wide_is_refused_with_its_width(value: float) -> None:
    first, second = _values(), _values()
    second[5] = value
    envelope = _learn(_facts(ElementType.F32), _bytes(first), _bytes(second))

    excess = envelope.find_excess()

    assert excess is not None
    assert "too wide to judge" in excess


def test_envelope_of_integers_accepts_contents_that_k0_gave_and_no_others() -> None:
    facts = _facts(ElementType.I32)
    first = np.arange(_COUNT, dtype=np.int32)
    second = first.copy()
    second[[3, 4]] = [4, 3]
    envelope = _learn(facts, _bytes(first, np.int32), _bytes(second, np.int32))
    other = first.copy()
    other[3] = 5

    assert envelope.find_excess() is None
    expected = _bytes(first, np.int32)
    assert _count_wrong(envelope, facts, expected, _bytes(second, np.int32)) == 0
    assert _count_wrong(envelope, facts, expected, _bytes(other, np.int32)) == 1


def test_envelope_of_integers_that_mostly_vary_is_refused() -> None:
    first = np.arange(_COUNT, dtype=np.int32)
    envelope = _learn(
        _facts(ElementType.I32), _bytes(first, np.int32), _bytes(first[::-1], np.int32)
    )

    excess = envelope.find_excess()

    assert excess is not None
    assert "64 of 64 elements" in excess
