"""Runs one matrix instruction on the emulated device."""

from __future__ import annotations

from typing import Any

import numpy as np
from kernel_runner import run_kernel
from numpy.typing import NDArray

__all__ = ["run_matrix"]

Array = NDArray[Any]
A_FIRST, B_FIRST, C_FIRST, D_FIRST, INDEX = 32, 48, 64, 96, 130


def _tuple(first: int, count: int) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def _move(mnemonic: str, first: int, count: int, buffer: str) -> list[str]:
    lines = [f"v_mul_u32_u24_e32 v1, {4 * count}, v0"]
    for index in range(count):
        operands = f"v{first + index}, v1" if mnemonic == "load" else f"v1, v{first + index}"
        lines.append(f"global_{mnemonic}_dword {operands}, {buffer} offset:{4 * index}")
    return [*lines, "s_waitcnt vmcnt(0)"]


def run_matrix(
    arch: str,
    mnemonic: str,
    operands: tuple[Array, Array, Array],
    *,
    modifiers: str = "",
    index: Array | None = None,
    scale: Array | None = None,
) -> Array:
    """Run with A, B and C as registers [lane, register]; D as registers.

    With `index` the instruction is an SMFMAC: the accumulator is also the destination. `scale` is
    loaded into v130, for modifiers to name.
    """
    a, b, c = operands
    buffers = [*operands, np.zeros_like(c)]
    body = [
        *_move("load", A_FIRST, a.shape[1], "s[4:5]"),
        *_move("load", B_FIRST, b.shape[1], "s[6:7]"),
        *_move("load", C_FIRST if index is None else D_FIRST, c.shape[1], "s[8:9]"),
    ]
    sources = f"{_tuple(A_FIRST, a.shape[1])}, {_tuple(B_FIRST, b.shape[1])}"
    last = _tuple(C_FIRST, c.shape[1])
    extra = scale if index is None else index
    if extra is not None:
        buffers.append(extra)
        body += _move("load", INDEX, 1, "s[12:13]")
    if index is not None:
        last = f"v{INDEX}"
    body += [
        "s_nop 7",
        f"{mnemonic} {_tuple(D_FIRST, c.shape[1])}, {sources}, {last} {modifiers}",
        *["s_nop 15"] * 2,
        *_move("store", D_FIRST, c.shape[1], "s[10:11]"),
    ]
    return run_kernel(arch, "\n".join(body), buffers)[3]
