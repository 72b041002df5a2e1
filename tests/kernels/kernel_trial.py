"""What a case works with: seeded inputs, the wrapper, the device, and the comparison."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from kernel_case import EXACT, Case, Tolerance
from kernel_library import prepare_library

__all__ = ["Comparison", "Trial", "compare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How one output compares with the reference."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_within: bool
    is_equal: bool
    max_error: float
    largest: float
    """Largest finite magnitude of the reference."""
    tolerance: str
    difference: str
    """The worst element, when it is beyond the tolerance."""

    def to_json(self) -> dict[str, object]:
        """A dict for json."""
        return asdict(self)


def compare(
    name: str, actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance
) -> Comparison:
    """Compare element by element; NaN equals NaN, an infinity only itself."""
    if actual.shape != expected.shape:
        raise AssertionError(f"{name}: shape {tuple(actual.shape)}, not {tuple(expected.shape)}")
    got, want = actual.detach().cpu().double(), expected.detach().cpu().double()
    same = (got == want) | (got.isnan() & want.isnan())
    error = torch.where(same, 0.0, (got - want).abs())
    is_within = same | (error <= tolerance.limit(want)) & want.isfinite()
    finite = want[want.isfinite()].abs()
    difference = ""
    differing = int((~same).sum())
    if differing > tolerance.share * got.numel():
        difference = f"{differing} of {got.numel()} elements differ, too many"
    if not bool(is_within.all()):
        excess = torch.where(is_within, -1.0, error.nan_to_num(torch.inf, torch.inf))
        place = int(excess.flatten().argmax())
        index = tuple(int(i) for i in torch.unravel_index(torch.tensor(place), got.shape))
        difference = (
            f"{int((~is_within).sum())} of {got.numel()} elements differ, worst at {index}: "
            f"{got.flatten()[place].item():.9g} instead of {want.flatten()[place].item():.9g}"
        )
    return Comparison(
        name=name,
        shape=tuple(actual.shape),
        dtype=str(actual.dtype).removeprefix("torch."),
        is_within=not difference,
        is_equal=bool(same.all()),
        max_error=error.max().item() if error.numel() else 0.0,
        largest=finite.max().item() if finite.numel() else 0.0,
        tolerance=tolerance.reason,
        difference=difference,
    )


@dataclass(slots=True, kw_only=True)
class Trial:
    """One run of one case. Inputs are made on the CPU; `put` copies them to the device."""

    case: Case
    arch: str
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(1))
    comparisons: list[Comparison] = field(default_factory=list)

    @property
    def dtype(self) -> torch.dtype:
        """The case's dtype."""
        return self.case.dtype

    @property
    def fp8(self) -> torch.dtype:
        """The chip's 8-bit float with 3 bits of mantissa: FNUZ on gfx942, OCP on gfx950."""
        return torch.float8_e4m3fnuz if self.arch == "gfx942" else torch.float8_e4m3fn

    @property
    def device(self) -> torch.device:
        """The emulated device, as torch knows it under `asmevo emulate`."""
        return torch.device("cuda", 0)

    @property
    def module(self) -> Any:
        """The wrapper's module, imported out of its wheel."""
        return self.load(self.case.wrapper.partition(":")[0])

    @property
    def wrapper(self) -> Callable[..., Any]:
        """The library's own function."""
        found = self.module
        for name in self.case.wrapper.partition(":")[2].split("."):
            found = getattr(found, name)
        function: Callable[..., Any] = found
        return function

    def load(self, module: str) -> Any:
        """Import another module of the library."""
        prepare_library(self.case.library, self.arch)
        return importlib.import_module(module)

    def randn(
        self, *shape: int, dtype: torch.dtype | None = None, scale: float = 1.0
    ) -> torch.Tensor:
        """Normal values, rounded to the dtype (default: the case's)."""
        values = torch.randn(shape, generator=self.generator) * scale
        return values.to(self.dtype if dtype is None else dtype)

    def rand(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Values from 0 to 1."""
        values = torch.rand(shape, generator=self.generator)
        return values.to(self.dtype if dtype is None else dtype)

    def integers(
        self, low: int, high: int, *shape: int, dtype: torch.dtype = torch.int32
    ) -> torch.Tensor:
        """Integers from low to high - 1."""
        return torch.randint(low, high, shape, generator=self.generator).to(dtype)

    def permutation(self, count: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        """The numbers below `count` in random order."""
        return torch.randperm(count, generator=self.generator).to(dtype)

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy in device memory, with the same strides."""
        copy = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=self.device
        )
        return copy.copy_(tensor)

    def put_all(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Copies in device memory, by the same names."""
        return {name: self.put(tensor) for name, tensor in tensors.items()}

    def empty(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Device memory for an output, filled with a value that no kernel computes."""
        dtype = self.dtype if dtype is None else dtype
        filler = torch.zeros(shape, dtype=torch.float32) + (
            float("nan") if dtype.is_floating_point else 77
        )
        return self.put(filler.to(dtype))

    def check(
        self,
        name: str,
        actual: torch.Tensor,
        expected: torch.Tensor,
        tolerance: Tolerance = EXACT,
    ) -> None:
        """Compare an output with its reference; a difference is recorded, not raised."""
        self.comparisons.append(compare(name, actual, expected, tolerance))
