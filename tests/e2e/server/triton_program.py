"""A Triton program on CPU tensors: an addition and a matrix product. Prints its largest errors.

Run by test_triton_launcher.py through `asmevo emulate`.
"""

from __future__ import annotations

import json

import torch
import triton
import triton.language as tl
import triton_device


@triton.jit  # type: ignore[untyped-decorator]
def add_kernel(x, y, out, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """out = x + y."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < count
    tl.store(out + index, tl.load(x + index, mask) + tl.load(y + index, mask), mask)


@triton.jit  # type: ignore[untyped-decorator]
def dot_kernel(a, b, out, K, STEP: tl.constexpr):  # type: ignore[no-untyped-def]
    """One 64 x 64 tile of out = a @ b, any K."""
    SIZE: tl.constexpr = 64
    rows, inner = tl.arange(0, SIZE), tl.arange(0, STEP)
    total = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    for start in range(0, K, STEP):
        k = start + inner
        left = tl.load(a + rows[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
        right = tl.load(b + k[:, None] * SIZE + rows[None, :], mask=k[:, None] < K, other=0.0)
        total += tl.dot(left, right)
    tl.store(out + rows[:, None] * SIZE + rows[None, :], total)


def main() -> None:
    """Run both kernels and compare with torch."""
    triton_device.activate()
    torch.manual_seed(7)
    x, y = torch.randn(1000), torch.randn(1000)
    out = torch.zeros(1000)
    add_kernel[(4,)](x, y, out, 1000, BLOCK=256)
    add_error = (out - (x + y)).abs().max().item()
    a, b = torch.randn(64, 100).half(), torch.randn(100, 64).half()
    product = torch.zeros(64, 64)
    dot_kernel[(1,)](a, b, product, 100, STEP=32)
    dot_error = (product - a.float() @ b.float()).abs().max().item()
    print(json.dumps({"add_error": add_error, "dot_error": dot_error}))


if __name__ == "__main__":
    main()
