"""Runs vector instructions on the emulated device with one lane an element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from kernel_runner import KernelOptions, run_kernel
from numpy.typing import NDArray

__all__ = ["LANES", "run_elementwise"]

LANES = 64
_WORKGROUP = 256  # a compute unit holds four waves of 512 registers


def run_elementwise(
    code: str,
    inputs: Sequence[NDArray[np.uint32]],
    outputs: Sequence[int],
    *,
    arch: str = "gfx942",
) -> list[NDArray[np.uint32]]:
    """Runs `code` on waves of 64 elements.

    Input i is in v(10 + i). `outputs` lists the VGPRs to return. v0 to v9 and s0 to s39 belong to
    the frame; code may use the rest, VCC, and EXEC if it restores it.
    """
    frame = ["v_lshlrev_b32 v1, 2, v0"]
    for i in range(len(inputs)):
        frame.append(f"global_load_dword v{10 + i}, v1, s[{4 + 2 * i}:{5 + 2 * i}]")
    frame += ["s_waitcnt vmcnt(0)", code, "s_nop 7"]
    for i, number in enumerate(outputs, start=len(inputs)):
        frame.append(f"global_store_dword v1, v{number}, s[{4 + 2 * i}:{5 + 2 * i}]")

    results: list[list[NDArray[np.uint32]]] = [[] for _ in outputs]
    for first in range(0, len(inputs[0]), _WORKGROUP):
        part = [one[first : first + _WORKGROUP].astype(np.uint32) for one in inputs]
        count = len(part[0])
        padded = -(-count // LANES) * LANES
        buffers = [np.pad(one, (0, padded - count)) for one in part]
        buffers += [np.zeros(padded, np.uint32) for _ in outputs]
        answer = run_kernel(arch, "\n".join(frame), buffers, KernelOptions(block=(padded, 1, 1)))
        for result, column in zip(results, answer[len(inputs) :], strict=True):
            result.append(column[:count])
    return [np.concatenate(one) for one in results]
