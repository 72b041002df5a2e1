"""SGLang's quantisation kernels and quantised matrix products."""

from __future__ import annotations

import torch
from kernel_case import EXACT, Tolerance, kernel_case, rounded
from kernel_trial import Trial

_QUANTISATION = "sglang.kernels.ops.quantization"
_GEMM = "sglang.kernels.ops.gemm"
_HALVES = (torch.bfloat16, torch.float16)


def _scaled_rows(
    trial: Trial, rows: int, columns: int, limit: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows whose largest magnitude is `limit` times a power of two, and that power.

    Scale, its inverse and every product with it are then exact, so the quantised values are too.
    """
    powers = 2.0 ** trial.integers(-9, -5, rows, 1).float()
    values = (trial.rand(rows, columns, dtype=torch.float32) * 2 - 1) * 0.98 * limit * powers
    values[:, columns // 3] = -limit * powers[:, 0]
    return values.to(trial.dtype), powers


def _round_away(values: torch.Tensor) -> torch.Tensor:
    """Nearest integers, ties away from zero, as C's round."""
    return values.sign() * (values.abs() + 0.5).floor()


@kernel_case(
    f"{_QUANTISATION}.int8_kernel:per_token_quant_int8",
    library="sglang",
    kernels="_per_token_quant_int8",
    shapes="9 rows of 200, with their sums",
    dtypes=_HALVES,
    is_fast=True,
)
def per_token_quant_int8(trial: Trial) -> None:
    x, powers = _scaled_rows(trial, 9, 200, 127.0)
    quantised, scales, sums = trial.wrapper(trial.put(x), cal_sum=True)
    trial.check("quantised", quantised, _round_away(x.float() / powers), EXACT)
    trial.check("scales", scales, powers, EXACT)
    sums_close = rounded(trial.dtype, "sum of a row, rounded", sums=1)
    trial.check("sums", sums, x.double().sum(-1), sums_close)


@kernel_case(
    f"{_QUANTISATION}.int8_kernel:per_token_group_quant_int8",
    library="sglang",
    kernels="_per_token_group_quant_int8",
    shapes="5 rows of 3 groups of 96",
    dtypes=_HALVES,
)
def per_token_group_quant_int8(trial: Trial) -> None:
    x, powers = _scaled_rows(trial, 15, 96, 127.0)
    quantised, scales = trial.wrapper(trial.put(x.reshape(5, 288)), 96)
    # A conversion to int8 without rounding first cuts off the fraction.
    trial.check("quantised", quantised, (x.float() / powers).trunc().reshape(5, 288), EXACT)
    trial.check("scales", scales, powers.reshape(5, 3), EXACT)


@kernel_case(
    f"{_QUANTISATION}.fp8_kernel:per_token_group_quant_fp8",
    library="sglang",
    kernels="_per_token_group_quant_8bit",
    shapes="5 rows of 3 groups of 128",
    dtypes=_HALVES,
)
def per_token_group_quant_fp8(trial: Trial) -> None:
    limit = trial.module.fp8_max
    x, powers = _scaled_rows(trial, 15, 128, limit)
    quantised, scales = trial.wrapper(trial.put(x.reshape(5, 384)), 128)
    expected = (x.float() / powers).to(trial.fp8).reshape(5, 384)
    trial.check("quantised", quantised, expected, EXACT)
    trial.check("scales", scales, powers.reshape(5, 3), EXACT)


@kernel_case(
    f"{_QUANTISATION}.fp8_kernel:per_token_group_quant_fp8",
    library="sglang",
    kernels="_per_token_group_quant_8bit_colmajor",
    shapes="7 rows of 2 groups of 128, scales column by column",
    dtypes=_HALVES,
)
def per_token_group_quant_fp8_column_major(trial: Trial) -> None:
    limit = trial.module.fp8_max
    x, powers = _scaled_rows(trial, 14, 128, limit)
    quantised, scales = trial.wrapper(trial.put(x.reshape(7, 256)), 128, column_major_scales=True)
    expected = (x.float() / powers).to(trial.fp8).reshape(7, 256)
    trial.check("quantised", quantised, expected, EXACT)
    trial.check("scales", scales, powers.reshape(7, 2), EXACT)


@kernel_case(
    f"{_QUANTISATION}.fp8_kernel:static_quant_fp8",
    library="sglang",
    kernels="_static_quant_fp8",
    shapes="6 rows of 200, one scale, values beyond the range",
    dtypes=_HALVES,
)
def static_quant_fp8(trial: Trial) -> None:
    limit = trial.module.fp8_max
    x = trial.randn(6, 200, scale=100.0)
    quantised, scales = trial.wrapper(
        trial.put(x), trial.put(torch.tensor([0.25])), repeat_scale=True
    )
    expected = (x.float() * 4).clamp(-limit, limit).to(trial.fp8)
    trial.check("quantised", quantised, expected, EXACT)
    trial.check("scales", scales, torch.full((6, 1), 0.25), EXACT)


@kernel_case(
    f"{_QUANTISATION}.fp8_kernel:per_tensor_quant_mla_fp8",
    library="sglang",
    kernels=("_per_tensor_quant_mla_fp8_stage1", "_per_tensor_quant_mla_fp8_stage2"),
    shapes="3 heads, 5 tokens of 96; float atomic maximum",
    dtypes=_HALVES,
)
def per_tensor_quant_mla_fp8(trial: Trial) -> None:
    limit = trial.module.fp8_max
    x = (trial.rand(3, 5, 96, dtype=torch.float32) * 2 - 1) * limit / 64
    x[1, 3, 95] = -limit / 64
    x = x.to(trial.dtype)
    quantised, scale = trial.wrapper(trial.put(x), trial.put(torch.zeros(1)))
    trial.check("quantised", quantised, (x.float() * 64).to(trial.fp8), EXACT)
    trial.check("scale", scale, torch.tensor([1 / 64]), EXACT)


@kernel_case(
    f"{_QUANTISATION}.fp8_kernel:per_token_group_quant_mla_deep_gemm_masked_fp8",
    library="sglang",
    kernels="_per_token_group_quant_mla_deep_gemm_masked_fp8",
    shapes="2 batches, 5 tokens of 2 groups of 128, output padded to 256 tokens",
    dtypes=_HALVES,
)
def per_token_group_quant_mla_masked_fp8(trial: Trial) -> None:
    limit = trial.module.fp8_max
    x, powers = _scaled_rows(trial, 20, 128, limit)
    quantised, scales, rows, _, _ = trial.wrapper(trial.put(x.reshape(2, 5, 256)), 128)
    expected = (x.float() / powers).to(trial.fp8).reshape(2, 5, 256)
    trial.check("quantised", quantised[:, :5], expected, EXACT)
    trial.check("scales", scales[:, :5], powers.reshape(2, 5, 2), EXACT)
    trial.check("rows", rows, torch.tensor([5, 5]), EXACT)


@kernel_case(
    f"{_QUANTISATION}.fp8_kernel:dequant_group_fp8_to_bf16",
    library="sglang",
    kernels="_dequant_group_fp8_kernel",
    shapes="5 rows of 96 OCP fp8 values, groups of 32",
    arches=("gfx950",),
    dtypes=(torch.float8_e4m3fn,),
)
def dequant_group_fp8(trial: Trial) -> None:
    x = trial.randn(5, 96, scale=60.0)
    scales = trial.rand(5, 3, dtype=torch.float32)
    out = trial.wrapper(trial.put(x), trial.put(scales))
    expected = (x.float() * scales.repeat_interleave(32, dim=1)).bfloat16()
    trial.check("out", out, expected, EXACT)


_AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)


def _unpack_awq(packed: torch.Tensor) -> torch.Tensor:
    parts = [(packed >> (4 * place)) & 15 for place in _AWQ_ORDER]
    return torch.stack(parts, dim=-1).flatten(-2)


@kernel_case(
    f"{_QUANTISATION}.awq_triton:awq_dequantize_triton",
    library="sglang",
    kernels="awq_dequantize_kernel",
    shapes="96 x 200 4-bit weights, groups of 32",
    dtypes=(torch.float16,),
    is_fast=True,
)
def awq_dequantize(trial: Trial) -> None:
    low, high = -(2**31), 2**31 - 1
    weights = trial.integers(low, high, 96, 25)
    zeros = trial.integers(low, high, 3, 25)
    scales = trial.rand(3, 200)
    out = trial.wrapper(trial.put(weights), trial.put(scales), trial.put(zeros))
    offsets = _unpack_awq(zeros).repeat_interleave(32, dim=0)
    differences = (_unpack_awq(weights) - offsets).float()
    expected = (differences * scales.float().repeat_interleave(32, dim=0)).half()
    trial.check("out", out, expected, EXACT)


def _block_scales(scales: torch.Tensor, rows: int, columns: int, size: int) -> torch.Tensor:
    wide = scales.double().repeat_interleave(size, 0).repeat_interleave(size, 1)
    return wide[:rows, :columns]


@kernel_case(
    f"{_GEMM}.fp8_kernel:w8a8_block_fp8_matmul_triton",
    library="sglang",
    kernels="_w8a8_block_fp8_matmul",
    shapes="17 x 320 times 320 x 200, blocks of 64",
    dtypes=_HALVES,
)
def w8a8_block_fp8_matmul(trial: Trial) -> None:
    m, n, k, size = 17, 200, 320, 64
    a = trial.randn(m, k, dtype=torch.float32, scale=8).to(trial.fp8)
    b = trial.randn(n, k, dtype=torch.float32, scale=8).to(trial.fp8)
    a_scales = trial.rand(m, k // size, dtype=torch.float32)
    b_scales = trial.rand(-(-n // size), k // size, dtype=torch.float32)
    trial.module.get_w8a8_block_fp8_configs = lambda *_: None
    out = trial.wrapper(
        trial.put(a),
        trial.put(b),
        trial.put(a_scales),
        trial.put(b_scales),
        [size, size],
        output_dtype=trial.dtype,
    )
    left = a.double() * a_scales.double().repeat_interleave(size, 1)
    right = b.double() * _block_scales(b_scales, n, k, size)
    trial.check("out", out, left @ right.T, rounded(trial.dtype, "f32 sums, rounded", sums=0.1))


@kernel_case(
    f"{_GEMM}.int8_kernel:w8a8_block_int8_matmul",
    library="sglang",
    kernels="_w8a8_block_int8_matmul",
    shapes="17 x 256 times 256 x 200, blocks of 64",
    dtypes=_HALVES,
)
def w8a8_block_int8_matmul(trial: Trial) -> None:
    m, n, k, size = 17, 200, 256, 64
    a = trial.integers(-128, 128, m, k, dtype=torch.int8)
    b = trial.integers(-128, 128, n, k, dtype=torch.int8)
    a_scales = trial.rand(m, k // size, dtype=torch.float32) / 1000
    b_scales = trial.rand(-(-n // size), k // size, dtype=torch.float32)
    trial.module.get_w8a8_block_int8_configs = lambda *_: None
    out = trial.wrapper(
        trial.put(a),
        trial.put(b),
        trial.put(a_scales),
        trial.put(b_scales),
        [size, size],
        output_dtype=trial.dtype,
    )
    left = a.double() * a_scales.double().repeat_interleave(size, 1)
    right = b.double() * _block_scales(b_scales, n, k, size)
    trial.check("out", out, left @ right.T, rounded(trial.dtype, "f32 sums, rounded", sums=0.1))


@kernel_case(
    f"{_GEMM}.fp8_kernel:triton_scaled_mm",
    library="sglang",
    kernels="scaled_mm_kernel",
    shapes="int8, 33 x 144 times 144 x 80, a scale for each row and column, bias",
    dtypes=_HALVES,
)
def scaled_mm_int8(trial: Trial) -> None:
    m, n, k = 33, 80, 144
    a = trial.integers(-128, 128, m, k, dtype=torch.int8)
    b = trial.integers(-128, 128, n, k, dtype=torch.int8)
    a_scales = trial.rand(m, 1, dtype=torch.float32) / 1000
    b_scales = trial.rand(n, 1, dtype=torch.float32)
    bias = trial.randn(n)
    out = trial.wrapper(
        trial.put(a),
        trial.put(b).T,
        trial.put(a_scales),
        trial.put(b_scales),
        trial.dtype,
        bias=trial.put(bias),
    )
    product = (a.double() @ b.double().T) * a_scales.double() * b_scales.double().T
    tolerance = rounded(trial.dtype, "product rounded, then the sum with the bias", sums=0.5)
    trial.check("out", out, product + bias.double(), tolerance)


@kernel_case(
    f"{_GEMM}.fp8_kernel:triton_scaled_mm",
    library="sglang",
    kernels="scaled_mm_kernel",
    shapes="fp8, 33 x 144 times 144 x 80, one scale each",
    dtypes=_HALVES,
)
def scaled_mm_fp8(trial: Trial) -> None:
    m, n, k = 33, 80, 144
    a = trial.randn(m, k, dtype=torch.float32, scale=8).to(trial.fp8)
    b = trial.randn(n, k, dtype=torch.float32, scale=8).to(trial.fp8)
    out = trial.wrapper(
        trial.put(a),
        trial.put(b).T,
        trial.put(torch.tensor([[0.0625]])),
        trial.put(torch.tensor([[0.125]])),
        trial.dtype,
    )
    product = (a.double() @ b.double().T) / 128
    tolerance: Tolerance = rounded(trial.dtype, "f32 sums, rounded", sums=0.1)
    trial.check("out", out, product, tolerance)
