"""Runs under `asmevo emulate`: what an autotuner takes, and how often it launches, as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import triton
import triton.language as tl

LAUNCHES: list[int] = []


def count(arguments: dict[str, Any]) -> None:
    LAUNCHES.append(arguments["block"])


@triton.autotune(  # type: ignore[untyped-decorator]
    configs=[
        triton.Config({"block": 1 << 20}, num_warps=1, pre_hook=count),  # more LDS than there is
        triton.Config({"block": 64}, num_warps=1, pre_hook=count),
        triton.Config({"block": 128}, num_warps=2, pre_hook=count),
    ],
    key=["n"],
    reset_to_zero=["target"],
)
@triton.jit  # type: ignore[untyped-decorator]
def sort_kernel(source, target, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    tl.static_assert(block <= 4096, "this configuration does not compile")
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    values = tl.load(source + offsets, mask=offsets < n)
    tl.atomic_add(target + offsets, values, mask=offsets < n)


def main() -> None:
    source = torch.arange(256.0, device="cuda")
    target = torch.zeros(256, device="cuda")
    for _ in range(2):
        target.zero_()
        sort_kernel[lambda meta: (triton.cdiv(256, meta["block"]),)](source, target, 256)
    tuner: Any = sort_kernel
    result = {
        "block": tuner.best_config.kwargs["block"],
        "launches": LAUNCHES,
        "is_right": torch.equal(source, target),
    }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
