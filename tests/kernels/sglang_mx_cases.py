"""SGLang's kernels for CDNA 4 (gfx950): microscaled FP8 and FP4, split-K products and routing."""

from __future__ import annotations

import torch
from kernel_case import EXACT, kernel_case, rounded
from kernel_trial import Trial

_QUANTISATION = "sglang.kernels.ops.quantization"
_GEMM = "sglang.kernels.ops.gemm"
_MOE = "sglang.kernels.ops.moe"
_CDNA4 = ("gfx950",)
_FP8 = torch.float8_e4m3fn
_F32 = rounded(torch.float32, "sums in f32", ulps=64, sums=8)


def _quantise(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """OCP MX: groups of 32 share the least power of two with which 448 is not exceeded."""
    groups = x.double().reshape(*x.shape[:-1], -1, 32)
    exponents = (groups.abs().amax(-1) / 448).log2().ceil()
    scaled = groups / exponents.exp2().unsqueeze(-1)
    return scaled.float().to(_FP8).flatten(-2), (exponents + 127).to(torch.uint8)


def _widen(values: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor:
    scales = (exponents.double() - 127).exp2().repeat_interleave(32, dim=-1)
    return values.double() * scales


def _mx_operand(trial: Trial, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Values over the whole range of E4M3 and scales from 2⁻⁸ to 2⁷."""
    values = trial.randn(*shape, dtype=torch.float32, scale=30).to(_FP8)
    groups = (*shape[:-1], shape[-1] // 32)
    return values, trial.integers(119, 135, *groups, dtype=torch.uint8)


@kernel_case(
    f"{_QUANTISATION}.mxfp8_amd_gfx95:mxfp8_e4m3_quantize",
    library="sglang",
    kernels="_mxfp8_quant_kernel",
    shapes="9 rows of 96",
    dtypes=(torch.bfloat16, torch.float32),
    arches=_CDNA4,
)
def mxfp8_quantise(trial: Trial) -> None:
    x = trial.randn(9, 96, scale=3)
    values, exponents = trial.wrapper(trial.put(x))
    expected, expected_exponents = _quantise(x)
    trial.check("exponents", exponents, expected_exponents, EXACT)
    trial.check("values", values, expected, EXACT)


@kernel_case(
    f"{_QUANTISATION}.mxfp8_amd_gfx95:fp8_grid_quantize",
    library="sglang",
    kernels="_fp8_grid_quant_kernel",
    shapes="9 rows of 256",
    dtypes=(torch.bfloat16,),
    arches=_CDNA4,
)
def fp8_grid_quantise(trial: Trial) -> None:
    x = trial.randn(9, 256, scale=3)
    values, exponents = trial.wrapper(trial.put(x))
    expected, expected_exponents = _quantise(x)
    trial.check("exponents", exponents, expected_exponents, EXACT)
    trial.check("values", values, expected, EXACT)


@kernel_case(
    f"{_GEMM}.mxfp8_amd_gfx95:dot_scaled_mxfp8_blockscaled_linear",
    library="sglang",
    kernels="_mxfp8_linear_kernel",
    shapes="37 x 256 times 256 x 200, scaled matrix instructions",
    dtypes=(torch.bfloat16, torch.float32),
    arches=_CDNA4,
)
def mxfp8_linear(trial: Trial) -> None:
    x, w = _mx_operand(trial, 37, 256), _mx_operand(trial, 200, 256)
    out = trial.wrapper(
        trial.put(x[0]),
        trial.put(w[0]),
        trial.put(w[1]),
        input_scale=trial.put(x[1]),
        output_dtype=trial.dtype,
    )
    expected = _widen(*x) @ _widen(*w).T
    trial.check("out", out, expected, rounded(trial.dtype, "f32 sums", ulps=2, sums=4))


@kernel_case(
    f"{_GEMM}.mxfp8_native_amd_gfx95:mxfp8_native_blockscaled_linear",
    library="sglang",
    kernels="_mxfp8_shuffled_gemm_kernel",
    shapes="70 x 288 times 288 x 96, weights shuffled for the matrix unit",
    dtypes=(torch.bfloat16,),
    arches=_CDNA4,
)
def mxfp8_shuffled_linear(trial: Trial) -> None:
    module = trial.module
    # The table of tuned tiles is not part of the unpacked Python files.
    module._config_table = lambda section: {}
    x = _mx_operand(trial, 70, 288)
    values = trial.randn(96, 288, dtype=torch.float32, scale=30).to(_FP8)
    scales = 2.0 ** trial.integers(-8, 8, 3, 9).float()
    weight = module.prepare_mxfp8_native_weight(trial.put(values), trial.put(scales), (32, 32))
    out = trial.wrapper(trial.put(x[0]), *weight, input_scale=trial.put(x[1]))
    wide = values.double() * scales.double().repeat_interleave(32, 0).repeat_interleave(32, 1)
    expected = _widen(*x) @ wide.T
    trial.check("out", out, expected, rounded(trial.dtype, "f32 sums", ulps=2, sums=1))


@kernel_case(
    f"{_MOE}.mxfp8_moe_amd_gfx95:_grouped_gemm_mxfp8",
    library="sglang",
    kernels="_mxfp8_grouped_gemm_kernel",
    shapes="21 tokens of 256, 2 of 4 experts of 96 x 256, weighted",
    dtypes=(torch.bfloat16,),
    arches=_CDNA4,
)
def mxfp8_moe(trial: Trial) -> None:
    x, w = _mx_operand(trial, 21, 256), _mx_operand(trial, 4, 96, 256)
    logits = trial.randn(21, 4, dtype=torch.float32)
    weights, ids = torch.softmax(logits, dim=-1).topk(2)
    tokens: list[int] = []
    blocks: list[int] = []
    for expert in range(4):
        mine = (ids.flatten() == expert).nonzero().flatten().tolist()
        padding = -len(mine) % 16
        tokens += mine + [ids.numel()] * padding
        blocks += [expert] * ((len(mine) + padding) // 16)
    out = trial.wrapper(
        *(trial.put(t) for t in (*x, *w)),
        trial.put(torch.tensor(tokens, dtype=torch.int32)),
        trial.put(torch.tensor(blocks, dtype=torch.int32)),
        trial.put(torch.tensor([len(tokens)], dtype=torch.int32)),
        42,
        2,
        16,
        trial.dtype,
        2,
        trial.put(weights.contiguous()),
    )
    chosen = _widen(*w)[ids]
    expected = torch.einsum("tk,tjnk->tjn", _widen(*x), chosen) * weights.double().unsqueeze(-1)
    close = rounded(trial.dtype, "f32 sums", ulps=2, sums=1)
    trial.check("out", out, expected.flatten(0, 1), close)


@kernel_case(
    f"{_GEMM}.gfx95_batched_gemm_bf16_fp8_grid:batched_gemm_bf16_fp8_grid",
    library="sglang",
    kernels="_batched_gemm_bf16_fp8_grid_kernel",
    shapes="3 batches of 21 x 200 times 200 x 64",
    dtypes=(torch.bfloat16,),
    arches=_CDNA4,
)
def batched_gemm(trial: Trial) -> None:
    x, w = trial.randn(21, 3, 200), trial.randn(3, 64, 200)
    out = trial.wrapper(trial.put(x), trial.put(w), fp8_grid=False)
    expected = torch.einsum("tgd,grd->tgr", x.double(), w.double()).flatten(1)
    trial.check("out", out, expected, rounded(trial.dtype, "f32 sums, rounded", sums=0.1))


@kernel_case(
    f"{_GEMM}.gfx95_batched_gemm_bf16_fp8_grid:batched_gemm_bf16_fp8_grid",
    library="sglang",
    kernels=("_batched_gemm_bf16_split_k_partial_kernel", "_batched_gemm_split_k_reduce_kernel"),
    shapes="2 batches of 5 x 2048 times 2048 x 128, split over k",
    dtypes=(torch.bfloat16,),
    arches=_CDNA4,
)
def batched_gemm_split_k(trial: Trial) -> None:
    depth = trial.module._SPLIT_K * trial.module._SPLIT_K_BLOCK_K
    x, w = trial.randn(5, 2, depth), trial.randn(2, 128, depth)
    out = trial.wrapper(trial.put(x), trial.put(w), fp8_grid=False, split_k=True)
    expected = torch.einsum("tgd,grd->tgr", x.double(), w.double()).flatten(1)
    trial.check("out", out, expected, rounded(trial.dtype, "f32 sums, rounded", sums=0.1))


@kernel_case(
    f"{_GEMM}.router_gemv_hip:rocm_router_gemv_split_k",
    library="sglang",
    kernels=("_router_gemv_split_k_kernel", "_reduce_partials_kernel"),
    shapes="5 x 2048 times 2048 x 64, one plane for each part of k, then summed",
    dtypes=(torch.bfloat16,),
)
def router_gemv_split_k(trial: Trial) -> None:
    x, w = trial.randn(5, 2048), trial.randn(64, 2048)
    planes = trial.wrapper(trial.put(x), trial.put(w))
    out = trial.empty(5, 64, dtype=torch.float32)
    trial.module.rocm_router_reduce_partials(planes, out)
    trial.check("out", out, x.double() @ w.double().T, _F32)


_FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


@kernel_case(
    f"{_QUANTISATION}.rocm_upscale:upscale_mxfp4",
    library="sglang",
    kernels="upscale_fp4x2_block32_kernel",
    shapes="7 rows of 160 FP4 values, of which 5 count",
    dtypes=(torch.bfloat16, torch.float16, torch.float32),
)
def upscale_fp4(trial: Trial) -> None:
    packed = trial.integers(0, 256, 7, 80, dtype=torch.uint8)
    exponents = trial.integers(122, 132, 7, 5, dtype=torch.uint8)
    out = trial.wrapper(
        trial.put(packed).view(torch.float4_e2m1fn_x2),
        trial.put(exponents).view(torch.float8_e8m0fnu),
        trial.put(torch.tensor([5], dtype=torch.int32)),
        trial.dtype,
    )
    nibbles = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1).long()
    values = _FP4[nibbles & 7] * torch.where(nibbles > 7, -1.0, 1.0)
    trial.check("out", out[:5], _widen(values, exponents)[:5].to(trial.dtype), EXACT)


@kernel_case(
    f"{_QUANTISATION}.rocm_upscale:upscale",
    library="sglang",
    kernels="upscale_kernel",
    shapes="7 rows of 300 fp8 values, groups of 128, 5 rows count",
    dtypes=(torch.float32,),
)
def upscale_fp8(trial: Trial) -> None:
    x = trial.randn(7, 300, scale=30).to(trial.fp8)
    scales = trial.rand(7, 3)
    rows = trial.put(torch.tensor([5], dtype=torch.int32))
    out = trial.wrapper(trial.put(x), trial.put(scales), rows, trial.dtype)
    expected = x.float() * scales.repeat_interleave(128, dim=1)[:, :300]
    trial.check("out", out[:5], expected[:5], EXACT)


@kernel_case(
    "sglang.kernels.ops.attention.sparse_decode_reduce_hip:gfx_sparse_split_reduce",
    library="sglang",
    kernels="_gfx_sparse_decode_reduce_kernel",
    shapes="4 tokens, 3 splits, 2 heads of 128, with sinks",
    dtypes=(torch.bfloat16,),
)
def sparse_split_reduce(trial: Trial) -> None:
    parts = trial.randn(4, 3, 2, 128, dtype=torch.float32)
    largest = trial.randn(4, 3, 2, dtype=torch.float32, scale=3)
    sums = trial.rand(4, 3, 2, dtype=torch.float32) + 1
    sink = trial.randn(2, dtype=torch.float32)
    out = trial.wrapper(*(trial.put(t) for t in (parts, largest, sums, sink)))
    weights = largest.double().exp2().unsqueeze(-1)
    total = (weights * sums.double().unsqueeze(-1)).sum(1) + sink.double().exp()[:, None]
    expected = (weights * parts.double()).sum(1) / total
    trial.check("out", out, expected, rounded(trial.dtype, "f32, rounded", sums=0.1))


@kernel_case(
    f"{_MOE}.moe_sorting_small:_run_small_sort",
    library="sglang",
    kernels="_moe_sorting_small_kernel_sorted",
    shapes="30 tokens, 4 of 64 experts, blocks of 32; sort and histogram in one workgroup",
    dtypes=(torch.int32,),
)
def moe_sort_small(trial: Trial) -> None:
    logits = trial.randn(30, 64, dtype=torch.float32)
    weights, ids = torch.softmax(logits, dim=-1).topk(4)
    places = 120 + 64 * 32 - 4
    slots = trial.empty(places, dtype=torch.int32)
    slot_weights = trial.empty(places, dtype=torch.float32)
    experts, count = (
        trial.empty(-(-places // 32), dtype=torch.int32),
        trial.empty(2, dtype=torch.int32),
    )
    buffer = trial.empty(30, 128, dtype=torch.bfloat16)
    trial.wrapper(
        trial.put(ids.to(torch.int32)),
        trial.put(weights),
        slots,
        slot_weights,
        experts,
        count,
        buffer,
        32,
        None,
        64,
    )
    # A slot holds the choice in its top byte and the token below; padding is token 30.
    expected_slots: list[int] = []
    expected_weights: list[float] = []
    blocks: list[int] = []
    for expert in range(64):
        mine = (ids == expert).nonzero().tolist()
        padding = -len(mine) % 32
        expected_slots += [choice << 24 | token for token, choice in mine]
        expected_slots += [4 << 24 | 30] * padding
        expected_weights += [float(weights[token, choice]) for token, choice in mine]
        expected_weights += [0.0] * padding
        blocks += [expert] * ((len(mine) + padding) // 32)
    used = len(expected_slots)
    trial.check("count", count, torch.tensor([used, 30]), EXACT)
    trial.check("slots", slots[:used], torch.tensor(expected_slots), EXACT)
    trial.check("weights", slot_weights[:used], torch.tensor(expected_weights), EXACT)
    trial.check("experts", experts[: len(blocks)], torch.tensor(blocks), EXACT)
    trial.check("cleared", buffer, torch.zeros(30, 128), EXACT)
