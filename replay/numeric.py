"""Floats of memory as numbers: values, and distances in units of the last place."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from asmevo.replay.elements import ElementType

__all__ = ["EPSILONS", "FLOATS", "Bytes", "Floats", "read_floats", "ulp_distances"]

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

EPSILONS = {
    ElementType.F16: 2.0**-10,
    ElementType.BF16: 2.0**-7,
    ElementType.F32: 2.0**-23,
    ElementType.F64: 2.0**-52,
}
"""Distance from 1 to the next number."""
FLOATS = frozenset(EPSILONS)

_WORDS: dict[int, npt.DTypeLike] = {2: "<u2", 4: "<u4", 8: "<u8"}
_IEEE: dict[ElementType, npt.DTypeLike] = {
    ElementType.F16: "<f2",
    ElementType.F32: "<f4",
    ElementType.F64: "<f8",
}


def read_floats(data: Bytes, element_type: ElementType) -> Floats:
    """Whole elements of `data` as float64, which holds each of the types exactly."""
    if element_type is ElementType.BF16:
        words = data.view("<u2").astype(np.uint32) << np.uint32(16)
        with np.errstate(invalid="ignore"):
            return words.view(np.float32).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return data.view(_IEEE[element_type]).astype(np.float64)


def ulp_distances(one: Bytes, other: Bytes, element_type: ElementType) -> npt.NDArray[np.uint64]:
    """How many numbers of the type lie between each pair, +0 and -0 being one.

    Infinities stand next to the largest finite numbers; distances to a NaN mean nothing.
    """
    first, second = _order(one, element_type), _order(other, element_type)
    return np.where(first > second, first - second, second - first)


def _order(data: Bytes, element_type: ElementType) -> npt.NDArray[np.uint64]:
    """Numbers that ascend as the floats do."""
    bits = 8 * element_type.size_bytes
    words = data.view(_WORDS[element_type.size_bytes]).astype(np.uint64)
    sign = np.uint64(1 << (bits - 1))
    magnitude = words & np.uint64((1 << (bits - 1)) - 1)
    return np.where(words & sign, sign - magnitude, sign + magnitude)
