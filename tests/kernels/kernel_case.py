"""The record of one verified kernel: its wrapper, what it must launch, and how near it must come.

A case is a function that calls a library's own Python wrapper on the emulated device and compares
what comes back with plain torch on the CPU. `@kernel_case(...)` puts it into `CASES`, once for each
dtype.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from kernel_trial import Trial

__all__ = [
    "ARCHES",
    "CASES",
    "EXACT",
    "Case",
    "Tolerance",
    "find_cases",
    "kernel_case",
    "multiplied",
    "quantized",
    "rounded",
]

ARCHES = ("gfx942", "gfx950")
CaseFunction = Callable[["Trial"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Largest difference allowed: absolute + relative·|expected| + of_largest·max|expected|."""

    absolute: float = 0.0
    relative: float = 0.0
    of_largest: float = 0.0
    share: float = 1.0
    """Which part of the elements may differ at all."""
    reason: str

    def limit(self, expected: torch.Tensor) -> torch.Tensor:
        """The largest difference allowed for each element."""
        size = expected.abs()
        finite = size[size.isfinite()]
        largest = finite.max().item() if finite.numel() else 0.0
        return self.absolute + self.of_largest * largest + self.relative * size


EXACT = Tolerance(reason="integers, copies or one rounding: every bit")


def rounded(dtype: torch.dtype, reason: str, *, ulps: float = 1, sums: float = 0) -> Tolerance:
    """Tolerance of a result in `dtype`, in units of its last place.

    Args:
        dtype: Of the result, or of the coarsest intermediate value.
        reason: Why the result may differ by so much.
        ulps: Units of each element's own last place, or of the denormals' step.
        sums: Units of the largest element's last place, for sums whose terms cancel.
    """
    format_ = torch.finfo(dtype)
    return Tolerance(
        absolute=ulps * format_.smallest_normal * format_.eps,  # the step of denormals
        relative=ulps * format_.eps,
        of_largest=sums * format_.eps,
        reason=reason,
    )


def multiplied(dtype: torch.dtype, *, ulps: float = 0.5, sums: float = 0.01) -> Tolerance:
    """Tolerance of products of matrices that are summed in f32 and rounded to `dtype`."""
    if dtype == torch.float32:
        reason = "f32 tiles are multiplied in xf32 (10 bits of mantissa) on gfx942"
        return rounded(torch.float16, reason, ulps=0, sums=2)
    return rounded(dtype, "products are summed in f32, then rounded", ulps=ulps, sums=sums)


def quantized(dtype: torch.dtype, *, share: float = 0.01) -> Tolerance:
    """Tolerance of quantised values: few differ, by one step, where the quotient is halfway."""
    reason = "a quotient that lies halfway between two values may round to either"
    if dtype.is_floating_point:
        return Tolerance(relative=torch.finfo(dtype).eps, share=share, reason=reason)
    return Tolerance(absolute=1, share=share, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One wrapper with one dtype."""

    name: str
    library: str
    wrapper: str
    """`module:function` of what is called; dots after the colon name an attribute of a class."""
    kernels: tuple[str, ...]
    """Names of the device kernels; each must have been launched."""
    shapes: str
    dtype: torch.dtype
    arches: tuple[str, ...]
    is_fast: bool
    """Part of the subset that scripts/test runs."""
    finding: str
    """What is wrong with the kernel itself: the case must fail."""
    function: CaseFunction

    @property
    def id(self) -> str:
        """Unique name, fit for a file."""
        return f"{self.library}.{self.name}.{str(self.dtype).removeprefix('torch.')}"


CASES: dict[str, Case] = {}


def kernel_case(
    wrapper: str,
    *,
    kernels: str | Sequence[str],
    shapes: str,
    library: str = "vllm",
    dtypes: Sequence[torch.dtype] = (torch.float32,),
    arches: Sequence[str] = ARCHES,
    is_fast: bool = False,
    finding: str = "",
) -> Callable[[CaseFunction], CaseFunction]:
    """Register the decorated function as a case for each dtype; fast is the last one."""

    def register(function: CaseFunction) -> CaseFunction:
        for dtype in dtypes:
            case = Case(
                name=function.__name__,
                library=library,
                wrapper=wrapper,
                kernels=(kernels,) if isinstance(kernels, str) else tuple(kernels),
                shapes=shapes,
                dtype=dtype,
                arches=tuple(arches),
                is_fast=is_fast and dtype == dtypes[-1],
                finding=finding,
                function=function,
            )
            if case.id in CASES:
                raise ValueError(f"two cases are called {case.id}")
            CASES[case.id] = case
        return function

    return register


def find_cases() -> Iterator[Case]:
    """Import every `*_cases.py` of this folder and give what they register."""
    for path in sorted(Path(__file__).parent.glob("*_cases.py")):
        importlib.import_module(path.stem)
    yield from CASES.values()
