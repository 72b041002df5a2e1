"""Triton kernels of the kinds that LLM servers run, for the bench of the oracle."""

# ruff: noqa: PLR0917 - kernels take what they need
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < count
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def softmax_kernel(x, out, rows, columns, stride, block: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        at = tl.arange(0, block)
        mask = at < columns
        values = tl.load(x + row * stride + at, mask=mask, other=-float("inf"))
        powers = tl.exp(values - tl.max(values, axis=0))
        tl.store(out + row * stride + at, powers / tl.sum(powers, axis=0), mask=mask)


@triton.jit
def rms_norm_kernel(x, weight, out, columns, stride, epsilon, block: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([block], dtype=tl.float32)
    for start in range(0, columns, block):
        at = start + tl.arange(0, block)
        value = tl.load(x + row * stride + at, mask=at < columns, other=0.0).to(tl.float32)
        total += value * value
    scale = 1 / tl.sqrt(tl.sum(total, axis=0) / columns + epsilon)
    for start in range(0, columns, block):
        at = start + tl.arange(0, block)
        mask = at < columns
        value = tl.load(x + row * stride + at, mask=mask, other=0.0).to(tl.float32)
        gain = tl.load(weight + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(out + row * stride + at, (value * scale * gain).to(tl.bfloat16), mask=mask)


@triton.jit
def layer_norm_kernel(x, weight, bias, out, means, columns, stride, epsilon, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    mask = at < columns
    value = tl.load(x + row * stride + at, mask=mask, other=0.0)
    mean = tl.sum(value, axis=0) / columns
    centred = tl.where(mask, value - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    gain, shift = tl.load(weight + at, mask=mask), tl.load(bias + at, mask=mask)
    tl.store(out + row * stride + at, centred * scale * gain + shift, mask=mask)
    tl.store(means + row, mean)


@triton.jit
def silu_and_mul_kernel(x, out, width, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * block + tl.arange(0, block)
    mask = at < width
    gate = tl.load(x + row * 2 * width + at, mask=mask).to(tl.float32)
    value = tl.load(x + row * 2 * width + width + at, mask=mask).to(tl.float32)
    result = gate / (1 + tl.exp(-gate)) * value
    tl.store(out + row * width + at, result.to(tl.float16), mask=mask)


@triton.jit
def matmul_kernel(a, b, out, m, n, k, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr):
    rows = tl.program_id(0) * bm + tl.arange(0, bm)
    columns = tl.program_id(1) * bn + tl.arange(0, bn)
    inner = tl.arange(0, bk)
    total = tl.zeros((bm, bn), dtype=tl.float32)
    for start in range(0, k, bk):
        at = start + inner
        left = tl.load(
            a + rows[:, None] * k + at[None, :],
            mask=(rows[:, None] < m) & (at[None, :] < k),
            other=0.0,
        )
        right = tl.load(
            b + at[:, None] * n + columns[None, :],
            mask=(at[:, None] < k) & (columns[None, :] < n),
            other=0.0,
        )
        total = tl.dot(left, right, total)
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(out + rows[:, None] * n + columns[None, :], total.to(tl.bfloat16), mask=mask)


@triton.jit
def transpose_kernel(x, out, rows, columns, block: tl.constexpr):
    down = tl.program_id(0) * block + tl.arange(0, block)
    along = tl.program_id(1) * block + tl.arange(0, block)
    mask = (down[:, None] < rows) & (along[None, :] < columns)
    tile = tl.load(x + down[:, None] * columns + along[None, :], mask=mask)
    back = (along[:, None] < columns) & (down[None, :] < rows)
    tl.store(out + along[:, None] * rows + down[None, :], tl.trans(tile), mask=back)


@triton.jit
def cumulative_sum_kernel(x, out, columns, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    mask = at < columns
    values = tl.load(x + row * columns + at, mask=mask, other=0)
    tl.store(out + row * columns + at, tl.cumsum(values, axis=0), mask=mask)


@triton.jit
def argmax_kernel(x, out, columns, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    tl.store(out + row, tl.argmax(values, axis=0))


@triton.jit
def histogram_kernel(x, out, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < count
    bins = tl.load(x + at, mask=mask, other=0) & 15
    tl.atomic_add(out + bins, 1, mask=mask)


@triton.jit
def scatter_add_kernel(index, x, out, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < count
    place = tl.load(index + at, mask=mask, other=0)
    tl.atomic_add(out + place, tl.load(x + at, mask=mask, other=0.0), mask=mask)


@triton.jit
def dequantize_kernel(packed, scale, out, columns, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    mask = at < columns
    value = tl.load(packed + row * columns + at, mask=mask, other=0).to(tl.float32)
    result = value * tl.load(scale + row).to(tl.float32)
    tl.store(out + row * columns + at, result.to(tl.float16), mask=mask)


@triton.jit
def embedding_kernel(ids, table, out, width, vocabulary, block: tl.constexpr):
    token = tl.program_id(0)
    row = tl.load(ids + token)
    at = tl.arange(0, block)
    mask = (at < width) & (row < vocabulary)
    values = tl.load(table + row * width + at, mask=mask, other=0.0)
    tl.store(out + token * width + at, values, mask=at < width)


@triton.jit
def rotary_kernel(x, cosine, sine, out, half, block: tl.constexpr):
    token = tl.program_id(0)
    at = tl.arange(0, block)
    mask = at < half
    first = tl.load(x + token * 2 * half + at, mask=mask).to(tl.float32)
    second = tl.load(x + token * 2 * half + half + at, mask=mask).to(tl.float32)
    cos, sin = (
        tl.load(cosine + token * half + at, mask=mask),
        tl.load(sine + token * half + at, mask=mask),
    )
    tl.store(out + token * 2 * half + at, (first * cos - second * sin).to(tl.float16), mask=mask)
    tl.store(
        out + token * 2 * half + half + at, (second * cos + first * sin).to(tl.float16), mask=mask
    )


@triton.jit
def attention_kernel(q, k, v, out, length, scale, block: tl.constexpr, width: tl.constexpr):
    rows, inner = tl.program_id(0) * block + tl.arange(0, block), tl.arange(0, width)
    query = tl.load(
        q + rows[:, None] * width + inner[None, :], mask=rows[:, None] < length, other=0.0
    )
    highest = tl.full([block], -1e30, dtype=tl.float32)
    total = tl.zeros([block], dtype=tl.float32)
    result = tl.zeros([block, width], dtype=tl.float32)
    for start in range(0, length, block):
        at = start + tl.arange(0, block)
        key = tl.load(
            k + at[None, :] * width + inner[:, None], mask=at[None, :] < length, other=0.0
        )
        scores = tl.where(at[None, :] < length, tl.dot(query, key) * scale, -1e30)
        now = tl.maximum(highest, tl.max(scores, axis=1))
        weights = tl.exp(scores - now[:, None])
        fade = tl.exp(highest - now)
        value = tl.load(
            v + at[:, None] * width + inner[None, :], mask=at[:, None] < length, other=0.0
        )
        result = result * fade[:, None] + tl.dot(weights.to(tl.float16), value)
        total = total * fade + tl.sum(weights, axis=1)
        highest = now
    result = result / total[:, None]
    mask = rows[:, None] < length
    tl.store(out + rows[:, None] * width + inner[None, :], result.to(tl.float16), mask=mask)


@triton.jit
def dropout_kernel(x, out, count, seed, keep, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < count
    values = tl.load(x + at, mask=mask)
    tl.store(out + at, tl.where(tl.rand(seed, at) < keep, values / keep, 0.0), mask=mask)
