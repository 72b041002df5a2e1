"""vLLM's quantisation kernels: matrix products of quantised operands, and quantising itself."""

from __future__ import annotations

import torch
from kernel_case import EXACT, Tolerance, kernel_case, quantized, rounded
from kernel_trial import Trial

_QUANT = "vllm.model_executor.layers.quantization"
_HALVES = (torch.float16, torch.bfloat16)
_AWQ_NIBBLES = (0, 4, 1, 5, 2, 6, 3, 7)
"""Which nibble of a word holds each of its 8 columns."""


def _pack_nibbles(values: torch.Tensor, nibbles: tuple[int, ...]) -> torch.Tensor:
    """Integers from 0 to 15, [rows, columns], as words of 8 columns."""
    words = values.reshape(values.shape[0], -1, 8).to(torch.int64)
    shifts = torch.tensor([4 * nibble for nibble in nibbles])
    return (words << shifts).sum(dim=2).to(torch.uint32).view(torch.int32)


def _make_awq(
    trial: Trial, rows: int, columns: int, group: int
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Packed weight, scales and zeros; and the weight that they stand for."""
    weight = trial.integers(0, 16, rows, columns)
    zeros = trial.integers(0, 16, rows // group, columns)
    scales = trial.rand(rows // group, columns)
    difference = (weight - zeros.repeat_interleave(group, 0)).to(trial.dtype)
    packed = {
        "qweight": _pack_nibbles(weight, _AWQ_NIBBLES),
        "scales": scales,
        "zeros": _pack_nibbles(zeros, _AWQ_NIBBLES),
    }
    return packed, difference * scales.repeat_interleave(group, 0)


@kernel_case(
    f"{_QUANT}.awq_triton:awq_dequantize_triton",
    kernels="awq_dequantize_kernel",
    shapes="64 x 312 int4 in groups of 32",
    dtypes=_HALVES,
)
def awq_dequantize(trial: Trial) -> None:
    packed, expected = _make_awq(trial, 64, 312, 32)
    trial.check("weight", trial.wrapper(**trial.put_all(packed)), expected, EXACT)


@kernel_case(
    f"{_QUANT}.awq_triton:awq_gemm_triton",
    kernels="awq_gemm_kernel",
    shapes="13 x 128 times 128 x 72 int4 in groups of 32, 2 parts of K",
    dtypes=(torch.float16,),
)
def awq_gemm(trial: Trial) -> None:
    packed, weight = _make_awq(trial, 128, 72, 32)
    x = trial.randn(13, 128)
    packed["qzeros"] = packed.pop("zeros")
    out = trial.wrapper(trial.put(x), split_k_iters=2, **trial.put_all(packed))
    expected = x.double() @ weight.double()
    trial.check("out", out, expected, rounded(trial.dtype, "two rounded parts are added", sums=1))


@kernel_case(
    "vllm.model_executor.kernels.linear.mixed_precision.triton_w4a16:triton_w4a16_gemm",
    kernels="triton_w4a16_gemm_kernel",
    shapes="13 x 96 times 96 x 72 int4 in groups of 32",
    dtypes=_HALVES,
)
def w4a16_gemm(trial: Trial) -> None:
    x, weight = trial.randn(13, 96), trial.integers(0, 16, 96, 72)
    zeros, scales = trial.integers(0, 16, 3, 72), trial.rand(3, 72)
    order = tuple(range(8))
    out = trial.wrapper(
        trial.put(x),
        trial.put(_pack_nibbles(weight, order)),
        trial.put(scales),
        trial.put(_pack_nibbles(zeros, order)),
        32,
    )
    difference = (weight - zeros.repeat_interleave(32, 0)).to(trial.dtype)
    dequantized = difference * scales.repeat_interleave(32, 0)
    tolerance = rounded(trial.dtype, "f32 sums, rounded once", ulps=0.5, sums=0.01)
    trial.check("out", out, x.double() @ dequantized.double(), tolerance)


@kernel_case(
    f"{_QUANT}.compressed_tensors.triton_scaled_mm:triton_scaled_mm",
    kernels="scaled_mm_kernel",
    shapes="13 x 200 times 200 x 70 int8, a scale for each row and column, bias",
    dtypes=_HALVES,
)
def scaled_mm_int8(trial: Trial) -> None:
    a = trial.integers(-128, 128, 13, 200, dtype=torch.int8)
    b = trial.integers(-128, 128, 200, 70, dtype=torch.int8)
    _scaled_mm(trial, a, b)


@kernel_case(
    f"{_QUANT}.compressed_tensors.triton_scaled_mm:triton_scaled_mm",
    kernels="scaled_mm_kernel",
    shapes="13 x 200 times 200 x 70 in the chip's fp8, a scale for each row and column, bias",
    dtypes=_HALVES,
)
def scaled_mm_fp8(trial: Trial) -> None:
    _scaled_mm(trial, trial.randn(13, 200, dtype=trial.fp8), trial.randn(200, 70, dtype=trial.fp8))


def _scaled_mm(trial: Trial, a: torch.Tensor, b: torch.Tensor) -> None:
    scale_a = trial.rand(13, 1, dtype=torch.float32) / 16
    scale_b = trial.rand(70, 1, dtype=torch.float32) / 16
    bias = trial.randn(70)
    out = trial.wrapper(
        *(trial.put(tensor) for tensor in (a, b, scale_a, scale_b)),
        trial.dtype,
        bias=trial.put(bias),
    )
    product = a.double() @ b.double() * scale_a.double() * scale_b.double().T
    tolerance = rounded(trial.dtype, "rounded before and after the bias", ulps=1, sums=0.5)
    trial.check("out", out, product + bias.double(), tolerance)


@kernel_case(
    f"{_QUANT}.utils.fp8_utils:w8a8_triton_block_scaled_mm",
    kernels="_w8a8_triton_block_scaled_mm",
    shapes="13 x 256 times (192 x 256)ᵀ in the chip's fp8, scales for 128 and 128 x 128",
    dtypes=_HALVES,
)
def w8a8_block_scaled_mm(trial: Trial) -> None:
    a = trial.randn(13, 256, dtype=trial.fp8)
    b = trial.randn(192, 256, dtype=trial.fp8)
    scale_a = trial.rand(13, 2, dtype=torch.float32)
    scale_b = trial.rand(2, 2, dtype=torch.float32)
    out = trial.wrapper(
        *(trial.put(tensor) for tensor in (a, b, scale_a, scale_b)),
        [128, 128],
        output_dtype=trial.dtype,
    )
    whole_a = a.double() * scale_a.double().repeat_interleave(128, 1)
    blocks = scale_b.double().repeat_interleave(128, 0)[:192].repeat_interleave(128, 1)
    tolerance = rounded(trial.dtype, "f32 sums, rounded once", ulps=0.5, sums=0.01)
    trial.check("out", out, whole_a @ (b.double() * blocks).T, tolerance)


@kernel_case(
    f"{_QUANT}.utils.int8_utils:per_token_quant_int8",
    kernels="_per_token_quant_int8",
    shapes="13 rows of 200",
    dtypes=(torch.float32, *_HALVES),
    is_fast=True,
)
def per_token_quant_int8(trial: Trial) -> None:
    x = trial.randn(13, 200)
    values, scales = trial.wrapper(trial.put(x))
    largest = x.double().abs().amax(dim=1, keepdim=True)
    trial.check("scales", scales, largest / 127, rounded(torch.float32, "a quotient", ulps=2))
    trial.check("values", values, (x.double() * 127 / largest).round(), quantized(torch.int8))


@kernel_case(
    f"{_QUANT}.utils.fp8_utils:per_token_group_quant_fp8",
    kernels="_per_token_group_quant_fp8",
    shapes="13 rows of 192 out of 256 columns, groups of 64",
    dtypes=_HALVES,
)
def per_token_group_quant_fp8(trial: Trial) -> None:
    _group_quant_fp8(trial, columns_first=False)


@kernel_case(
    f"{_QUANT}.utils.fp8_utils:per_token_group_quant_fp8",
    kernels="_per_token_group_quant_fp8_colmajor",
    shapes="13 rows of 192 out of 256 columns, groups of 64, scales column by column",
    dtypes=_HALVES,
)
def per_token_group_quant_fp8_columns(trial: Trial) -> None:
    _group_quant_fp8(trial, columns_first=True)


def _group_quant_fp8(trial: Trial, *, columns_first: bool) -> None:
    whole = trial.randn(13, 256)
    # Contiguous rows would go to a compiled operation.
    values, scales = trial.wrapper(
        trial.put(whole)[:, :192], 64, column_major_scales=columns_first, use_ue8m0=False
    )
    x = whole[:, :192].double().reshape(13, 3, 64)
    highest = 224.0 if trial.arch == "gfx942" else 448.0
    expected = x.abs().amax(dim=2) / highest
    trial.check("scales", scales, expected, rounded(torch.float32, "a quotient", ulps=2))
    quotients = (x / expected.unsqueeze(2)).clamp(-highest, highest).float()
    trial.check("values", values, quotients.to(trial.fp8).reshape(13, 192), quantized(trial.fp8))


@kernel_case(
    f"{_QUANT}.utils.fp8_utils:silu_mul_per_token_group_quant_fp8_colmajor",
    kernels="_silu_mul_per_token_group_quant_fp8_colmajor",
    shapes="128 rows of 2 x 128, one group a row",
    dtypes=(torch.bfloat16,),
)
def silu_mul_group_quant_fp8(trial: Trial) -> None:
    x = trial.randn(128, 256)
    values, scales = trial.wrapper(trial.put(x), use_ue8m0=False)
    gate, up = x.double().chunk(2, dim=1)
    # The product is rounded to the input's dtype before it is quantised.
    product = (torch.nn.functional.silu(gate).to(trial.dtype).double() * up).to(trial.dtype)
    highest = 224.0 if trial.arch == "gfx942" else 448.0
    expected = product.double().abs().amax(dim=1, keepdim=True) / highest
    trial.check("scales", scales, expected, rounded(trial.dtype, "rounded product"))
    dequantized = values.cpu().double() * scales.cpu().double()
    step = torch.finfo(trial.fp8).smallest_normal * torch.finfo(trial.fp8).eps
    tolerance = Tolerance(
        relative=2**-4,
        absolute=step * expected.max().item(),
        reason="half a step of fp8, and of its denormals",
    )
    trial.check("values times scales", dequantized, product.double(), tolerance)
