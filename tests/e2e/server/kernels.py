"""The Triton kernels of the demo server."""

# Triton reads the annotations of a kernel itself, and knows constexpr only.
# mypy: disable-error-code="no-untyped-def,untyped-decorator"
# ruff: noqa: PLR0917

from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["add_rms_norm", "matmul", "softmax"]


@triton.jit
def softmax_kernel(out, scores, stride, columns, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(scores + row * stride + column, mask=inside, other=float("-inf")) * scale
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out + row * stride + column, numerator / tl.sum(numerator, axis=0), mask=inside)


@triton.jit
def add_rms_norm_kernel(out, residual, x, weight, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    at = row * columns + column
    total = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    total += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(residual + at, total.to(residual.dtype.element_ty), mask=inside)
    inverse = tl.rsqrt(tl.sum(total * total, axis=0) / columns + epsilon)
    gain = tl.load(weight + column, mask=inside, other=0.0)
    tl.store(out + at, (total * inverse * gain).to(out.dtype.element_ty), mask=inside)


@triton.jit
def matmul_kernel(
    out,
    a,
    b,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        at = start + depth
        tile_a = tl.load(
            a + row[:, None] * k + at[None, :],
            mask=(row[:, None] < m) & (at[None, :] < k),
            other=0.0,
        )
        tile_b = tl.load(
            b + at[:, None] * n + column[None, :],
            mask=(at[:, None] < k) & (column[None, :] < n),
            other=0.0,
        )
        total = tl.dot(tile_a, tile_b, total)
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(out + row[:, None] * n + column[None, :], total.to(out.dtype.element_ty), mask=inside)


def softmax(scores: torch.Tensor, scale: float) -> torch.Tensor:
    """Softmax of each row of `scores * scale`, one workgroup a row."""
    rows, columns = scores.shape
    out = torch.empty_like(scores)
    block = triton.next_power_of_2(columns)
    softmax_kernel[(rows,)](out, scores, scores.stride(0), columns, scale, BLOCK=block, num_warps=4)
    return out


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float
) -> torch.Tensor:
    """RMS norm of `x + residual`; the sum goes back to `residual`, as in transformer layers."""
    rows, columns = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(columns)
    add_rms_norm_kernel[(rows,)](
        out, residual, x, weight, columns, epsilon, BLOCK=block, num_warps=4
    )
    return out


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Product of two bf16 matrices in 64x64x64 tiles, summed in float32."""
    m, k = a.shape
    n = b.shape[1]
    out = torch.empty((m, n), dtype=a.dtype)
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64))
    matmul_kernel[grid](out, a, b, m, n, k, BLOCK_M=64, BLOCK_N=64, BLOCK_K=64, num_warps=4)
    return out
