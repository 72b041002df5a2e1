"""Small Triton kernels that the round-trip tests compile."""

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def copy_kernel(x, out, count, block: tl.constexpr):  # type: ignore[no-untyped-def]
    places = tl.program_id(0) * block + tl.arange(0, block)
    mask = places < count
    tl.store(out + places, tl.load(x + places, mask), mask)


@triton.jit  # type: ignore[untyped-decorator]
def product_kernel(a, b, out, size: tl.constexpr):  # type: ignore[no-untyped-def]
    rows = tl.arange(0, size)[:, None]
    columns = tl.arange(0, size)[None, :]
    places = rows * size + columns
    result = tl.dot(tl.load(a + places), tl.load(b + places))
    tl.store(out + places, result)
