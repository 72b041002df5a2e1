"""What came of one case on one architecture: read from the child's output, kept as a file."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kernel_case import Case
from kernel_library import cache_folder

__all__ = ["Job", "Launch", "Outcome", "judge", "parse_launches"]

_LAUNCH = re.compile(
    r"^asmevo emulated device: launch of (?P<kernel>\S+): .* (?P<count>\d+) wave instructions", re.M
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A case to run on an architecture."""

    case: str
    arch: str
    key: str
    """Digest of what the outcome depends on."""

    @property
    def path(self) -> Path:
        """The result file."""
        folder = os.environ.get("ASMEVO_KERNEL_RESULTS")
        results = Path(folder) if folder else cache_folder("kernels")
        return results / self.arch / f"{self.case}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """All launches of one kernel, as the emulated device logged them."""

    kernel: str
    launches: int
    wave_instructions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The verdict; `reason` is empty when the case passed."""

    case: str
    arch: str
    key: str
    reason: str
    seconds: float
    launches: tuple[Launch, ...]
    comparisons: tuple[dict[str, Any], ...]

    def to_json(self) -> str:
        """The text of a result file."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields["launches"] = [[x.kernel, x.launches, x.wave_instructions] for x in self.launches]
        return json.dumps(fields, indent=1)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a result file."""
        fields = json.loads(path.read_text())
        launches = tuple(
            Launch(kernel=kernel, launches=launches, wave_instructions=count)
            for kernel, launches, count in fields.pop("launches")
        )
        return cls(launches=launches, comparisons=tuple(fields.pop("comparisons")), **fields)


def parse_launches(log: str) -> tuple[Launch, ...]:
    """The launches that the device logged, by kernel."""
    counts: dict[str, list[int]] = {}
    for match in _LAUNCH.finditer(log):
        count = counts.setdefault(match["kernel"], [0, 0])
        count[0] += 1
        count[1] += int(match["count"])
    return tuple(
        Launch(kernel=kernel, launches=launches, wave_instructions=instructions)
        for kernel, (launches, instructions) in counts.items()
    )


def _is_variant(launched: str, kernel: str) -> bool:
    """Whether it is the kernel, perhaps with its constants behind the name (`repr=` of triton.jit).

    Such as `_topk_kernel_M_300_K_8` for `_topk_kernel`: a name in capitals, or one with a number.
    """
    constants = r"(_[A-Z]\w*|_[a-z]+_\d\w*)?"
    return re.fullmatch(re.escape(kernel) + constants, launched) is not None


def judge(
    case: Case, exit_code: int, written: dict[str, Any] | None, launches: tuple[Launch, ...]
) -> str:
    """Why the case failed, or nothing.

    A case passes when its child ended well, every kernel that it names ran on the device, and at
    least one output was compared and every one is within its tolerance.
    """
    if written is None:
        return f"the child ended with exit code {exit_code} and no result"
    if written["error"]:
        return str(written["error"])
    missing = {
        kernel
        for kernel in case.kernels
        if not any(_is_variant(launch.kernel, kernel) for launch in launches)
    }
    if missing:
        return f"not launched: {', '.join(sorted(missing))}"
    if not written["comparisons"]:
        return "nothing was compared"
    for comparison in written["comparisons"]:
        if not comparison["is_within"]:
            return f"{comparison['name']}: {comparison['difference']}"
    return f"exit code {exit_code}" if exit_code else ""
