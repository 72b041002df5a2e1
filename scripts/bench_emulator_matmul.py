"""The matrix product that `scripts/bench_emulator` measures."""

# pyright: basic
from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["matmul_kernel"]


@triton.jit  # type: ignore[untyped-decorator]
def matmul_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    a, b, c, size, rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr
):
    """C = A @ B, all of `size` squared, which is a multiple of the blocks."""
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.program_id(1) * columns + tl.arange(0, columns)
    k = tl.arange(0, depth)
    a_at = a + row[:, None] * size + k[None, :]
    b_at = b + k[:, None] * size + column[None, :]
    total = tl.zeros((rows, columns), dtype=tl.float32)
    for _ in range(0, size, depth):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += depth
        b_at += depth * size
    tl.store(c + row[:, None] * size + column[None, :], total.to(tl.float16))
