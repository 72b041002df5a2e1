"""vLLM's mixture-of-experts kernels."""

from __future__ import annotations

from typing import Any

import torch
from kernel_case import EXACT, kernel_case, multiplied, rounded
from kernel_trial import Trial

_MOE = "vllm.model_executor.layers.fused_moe"
_HALVES = (torch.float16, torch.bfloat16)
_FLOATS = (torch.float32, *_HALVES)
_TOKENS, _EXPERTS, _TOP = 11, 5, 2
_BLOCKS = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}


def _route(trial: Trial) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and experts of each token; no expert twice, one expert never."""
    experts = torch.stack([trial.permutation(_EXPERTS - 1)[:_TOP] for _ in range(_TOKENS)])
    return trial.rand(_TOKENS, _TOP, dtype=torch.float32), experts.to(torch.int32)


def _align(experts: torch.Tensor, block: int) -> dict[str, torch.Tensor]:
    """What `moe_align_block_size` makes: places sorted by expert, padded to whole blocks."""
    places: list[int] = []
    owners: list[int] = []
    for expert in range(_EXPERTS):
        own = (experts.flatten() == expert).nonzero().flatten().tolist()
        blocks = -(-len(own) // block)
        places += own + [experts.numel()] * (blocks * block - len(own))
        owners += [expert] * blocks
    return {
        "sorted_token_ids": torch.tensor(places, dtype=torch.int32),
        "expert_ids": torch.tensor(owners, dtype=torch.int32),
        "num_tokens_post_padded": torch.tensor([len(places)], dtype=torch.int32),
    }


def _expert_products(
    x: torch.Tensor, weight: torch.Tensor, experts: torch.Tensor, scales: torch.Tensor
) -> torch.Tensor:
    """[tokens, top, columns]: each token times the weights of its experts, scaled."""
    products = torch.einsum("tk,tenk->ten", x.double(), weight.double()[experts.long()])
    return products * scales.double().unsqueeze(2)


def _triton_type(dtype: torch.dtype) -> Any:
    import triton.language as tl

    types = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}
    return types[dtype]


def _fused_moe(
    trial: Trial,
    x: torch.Tensor,
    weight: torch.Tensor,
    *,
    scales: tuple[torch.Tensor, torch.Tensor] | None = None,
    block_shape: list[int] | None = None,
    **mode: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Call the wrapper; its output, the experts and the routing weights."""
    share, experts = _route(trial)
    aligned = _align(experts, _BLOCKS["BLOCK_SIZE_M"])
    out = trial.empty(_TOKENS, _TOP, weight.shape[1])
    modes = ("use_fp8_w8a8", "use_int8_w8a8", "use_int8_w8a16", "use_int4_w4a16")
    trial.wrapper(
        trial.put(x),
        trial.put(weight),
        out,
        None if scales is None else trial.put(scales[0]),
        None if scales is None else trial.put(scales[1]),
        trial.put(share),
        mul_routed_weight=True,
        top_k=_TOP,
        config=dict(_BLOCKS),
        compute_type=_triton_type(trial.dtype),
        block_shape=block_shape,
        **{name: mode.get(name, False) for name in modes},
        per_channel_quant=mode.get("per_channel_quant", False),
        **trial.put_all(aligned),
    )
    return out, experts, share


@kernel_case(
    f"{_MOE}.fused_moe:invoke_fused_moe_triton_kernel",
    kernels="fused_moe_kernel",
    shapes="11 tokens of 72, 2 of 5 experts, 40 columns",
    dtypes=_FLOATS,
    is_fast=True,
)
def fused_moe(trial: Trial) -> None:
    x, weight = trial.randn(_TOKENS, 72), trial.randn(_EXPERTS, 40, 72)
    out, experts, share = _fused_moe(trial, x, weight)
    tolerance = multiplied(trial.dtype)
    trial.check("out", out, _expert_products(x, weight, experts, share), tolerance)


@kernel_case(
    f"{_MOE}.fused_moe:invoke_fused_moe_triton_kernel",
    kernels="fused_moe_kernel",
    shapes="11 tokens of 192 in the chip's fp8, 2 of 5 experts, 128 columns, scales for 64 x 64",
    dtypes=(torch.bfloat16,),
)
def fused_moe_fp8_blocks(trial: Trial) -> None:
    x = trial.randn(_TOKENS, 192, dtype=trial.fp8)
    weight = trial.randn(_EXPERTS, 128, 192, dtype=trial.fp8)
    scale_x = trial.rand(_TOKENS, 3, dtype=torch.float32)
    scale_w = trial.rand(_EXPERTS, 2, 3, dtype=torch.float32)
    out, experts, share = _fused_moe(
        trial, x, weight, scales=(scale_x, scale_w), block_shape=[64, 64], use_fp8_w8a8=True
    )
    whole_x = x.double() * scale_x.double().repeat_interleave(64, 1)
    blocks = scale_w.double().repeat_interleave(64, 1).repeat_interleave(64, 2)
    expected = _expert_products(whole_x, weight.double() * blocks, experts, share)
    trial.check("out", out, expected, rounded(trial.dtype, "f32 sums, rounded", sums=0.01))


@kernel_case(
    f"{_MOE}.fused_moe:invoke_fused_moe_triton_kernel",
    kernels="fused_moe_kernel",
    shapes="11 tokens of 72 int8, 2 of 5 experts, 40 columns, scales for rows and columns",
    dtypes=(torch.bfloat16,),
)
def fused_moe_int8(trial: Trial) -> None:
    x = trial.integers(-128, 128, _TOKENS, 72, dtype=torch.int8)
    weight = trial.integers(-128, 128, _EXPERTS, 40, 72, dtype=torch.int8)
    scale_x = trial.rand(_TOKENS, 1, dtype=torch.float32)
    scale_w = trial.rand(_EXPERTS, 40, 1, dtype=torch.float32)
    out, experts, share = _fused_moe(
        trial,
        x,
        weight,
        scales=(scale_x, scale_w),
        use_int8_w8a8=True,
        per_channel_quant=True,
    )
    expected = _expert_products(
        x.double() * scale_x.double(), weight.double() * scale_w.double(), experts, share
    )
    trial.check("out", out, expected, multiplied(trial.dtype))


@kernel_case(
    f"{_MOE}.fused_moe:invoke_fused_moe_wna16_triton_kernel",
    kernels="fused_moe_kernel_gptq_awq",
    shapes="11 tokens of 128, 2 of 5 experts, 48 columns of int4 in groups of 64, zeros",
    dtypes=_HALVES,
)
def fused_moe_int4(trial: Trial) -> None:
    x = trial.randn(_TOKENS, 128)
    weight = trial.integers(0, 16, _EXPERTS, 48, 128, dtype=torch.uint8)
    zeros = trial.integers(0, 16, _EXPERTS, 48, 2, dtype=torch.uint8)
    scales = trial.rand(_EXPERTS, 48, 2)
    share, experts = _route(trial)
    out = trial.empty(_TOKENS, _TOP, 48)
    trial.wrapper(
        trial.put(x),
        trial.put(weight[..., ::2] | weight[..., 1::2] << 4),
        out,
        trial.put(scales),
        trial.put(zeros[:, ::2] | zeros[:, 1::2] << 4),
        trial.put(share),
        mul_routed_weight=True,
        top_k=_TOP,
        config={"BLOCK_SIZE_M": 16, "GROUP_SIZE_M": 1, "SPLIT_K": 1},
        compute_type=_triton_type(trial.dtype),
        use_int8_w8a16=False,
        use_int4_w4a16=True,
        block_shape=[0, 64],
        **trial.put_all(_align(experts, 16)),
    )
    difference = weight.float() - zeros.repeat_interleave(64, 2).float()
    dequantized = (difference * scales.repeat_interleave(64, 2).float()).to(trial.dtype)
    expected = _expert_products(x, dequantized, experts, share)
    tolerance = rounded(trial.dtype, "f32 sums, rounded", ulps=0.5, sums=0.01)
    trial.check("out", out, expected, tolerance)


@kernel_case(
    f"{_MOE}.fused_moe:zero_experts_compute_triton",
    kernels="compute_identity_kernel",
    shapes="11 tokens of 512, 2 of 7 experts, 2 of them identities",
    dtypes=_FLOATS,
)
def identity_experts(trial: Trial) -> None:
    x = trial.randn(_TOKENS, 512)
    experts, scales = trial.integers(0, 7, _TOKENS, 2), trial.rand(_TOKENS, 2, dtype=torch.float32)
    out = trial.wrapper(trial.put(experts), trial.put(scales), 5, "identity", trial.put(x))
    weight = scales.double().masked_fill(experts < 5, 0).sum(dim=1, keepdim=True)
    tolerance = rounded(trial.dtype, "f32 sum of two, rounded", sums=1)
    trial.check("out", out, x.double() * weight, tolerance)


@kernel_case(
    f"{_MOE}.moe_fused_mul_sum:moe_fused_mul_sum",
    kernels="moe_fused_mul_sum_kernel",
    shapes="11 tokens, 3 experts each, 200 columns; some experts elsewhere",
    dtypes=_FLOATS,
)
def moe_mul_sum(trial: Trial) -> None:
    inputs, weights = trial.randn(_TOKENS, 3, 200), trial.rand(_TOKENS, 3, dtype=torch.float32)
    experts = trial.integers(0, 8, _TOKENS, 3)
    local = torch.tensor([0, 1, -1, 2, 3, -1, 4, 5], dtype=torch.int32)
    out = trial.wrapper(
        trial.put(inputs),
        trial.put(weights),
        topk_ids=trial.put(experts),
        expert_map=trial.put(local),
    )
    is_local = local[experts.long()] >= 0
    expected = (inputs.double() * (weights.double() * is_local).unsqueeze(2)).sum(dim=1)
    tolerance = rounded(trial.dtype, "f32 sum of three, rounded", sums=1)
    trial.check("out", out, expected, tolerance)


@kernel_case(
    f"{_MOE}.experts.fused_batched_moe:invoke_moe_batched_triton_kernel",
    kernels="batched_triton_kernel",
    shapes="5 experts with 0 to 20 of 20 tokens of 72, 40 columns",
    dtypes=_FLOATS,
)
def batched_moe(trial: Trial) -> None:
    x, weight = trial.randn(_EXPERTS, 20, 72), trial.randn(_EXPERTS, 40, 72)
    counts = torch.tensor([3, 0, 20, 17, 1], dtype=torch.int32)
    out = trial.put(torch.zeros(_EXPERTS, 20, 40, dtype=trial.dtype))
    trial.wrapper(
        trial.put(x),
        trial.put(weight),
        out,
        trial.put(counts),
        _triton_type(trial.dtype),
        None,
        None,
        None,
        False,
        False,
        False,
        {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64},
        False,
    )
    expected = torch.einsum("etk,enk->etn", x.double(), weight.double())
    expected[torch.arange(20)[None, :] >= counts[:, None]] = 0
    tolerance = multiplied(trial.dtype)
    trial.check("out", out, expected, tolerance)


@kernel_case(
    f"{_MOE}.utils:count_expert_num_tokens",
    kernels="_count_expert_num_tokens",
    shapes="37 tokens, 3 of 11 experts, 7 of them here",
    dtypes=(torch.int32, torch.int64),
)
def count_expert_tokens(trial: Trial) -> None:
    experts = trial.integers(-1, 11, 37, 3, dtype=trial.dtype)
    local = torch.full((11,), -1, dtype=torch.int32)
    local[[0, 2, 3, 5, 6, 8, 10]] = torch.arange(7, dtype=torch.int32)
    counts = trial.wrapper(trial.put(experts), 7, trial.put(local))
    here = local[experts[experts >= 0].long()]
    trial.check("counts", counts, torch.bincount(here[here >= 0], minlength=7), EXACT)


@kernel_case(
    f"{_MOE}.utils:remap_topk_to_local",
    kernels="_remap_topk_to_local_kernel",
    shapes="37 tokens, 3 of 11 experts, 7 of them here",
    dtypes=(torch.int32, torch.int64),
)
def remap_experts(trial: Trial) -> None:
    experts = trial.integers(-1, 11, 37, 3, dtype=trial.dtype)
    local = trial.permutation(11) - 4
    out = trial.wrapper(trial.put(experts), trial.put(local), out_dtype=trial.dtype)
    expected = torch.where(experts >= 0, local[experts.clamp(min=0).long()].to(trial.dtype), -1)
    trial.check("local", out, expected, EXACT)


@kernel_case(
    f"{_MOE}.utils:_swiglu_limit_pad_aware",
    kernels="_swiglu_limit_pad_aware_kernel",
    shapes="22 rows of 2 x 200, limit 1.5, some without expert",
    dtypes=_FLOATS,
)
def swiglu_limit(trial: Trial) -> None:
    x, experts = trial.randn(22, 400), trial.integers(-1, 4, 11, 2)
    out = trial.put(torch.zeros(22, 200, dtype=trial.dtype))
    trial.wrapper(out, trial.put(x), trial.put(experts), 1.5)
    gate, up = x.double().chunk(2, dim=1)
    expected = torch.nn.functional.silu(gate.clamp(max=1.5)) * up.clamp(-1.5, 1.5)
    expected[experts.flatten() == -1] = 0
    trial.check("out", out, expected, rounded(trial.dtype, "exp in f32, rounded", ulps=2, sums=0.5))


@kernel_case(
    f"{_MOE}.deep_gemm_utils:ep_scatter",
    kernels=("_fwd_kernel_ep_scatter_1", "_fwd_kernel_ep_scatter_2", "_fwd_kernel_ep_gather"),
    shapes="11 tokens of 256, 2 of 5 experts, padded to 16 rows, and gathered back",
    dtypes=(torch.bfloat16,),
)
def ep_scatter_gather(trial: Trial) -> None:
    x, scales = trial.randn(_TOKENS, 256), trial.rand(_TOKENS, 2, dtype=torch.float32)
    share, experts = _route(trial)
    counts = torch.bincount(experts.flatten(), minlength=_EXPERTS)
    padded = (counts + 15) // 16 * 16
    rows = int(padded.sum())
    out, out_scales = trial.empty(rows, 256), trial.empty(rows, 2, dtype=torch.float32)
    owners = trial.put(torch.full((rows,), -1, dtype=torch.int32))
    places = trial.empty(_TOKENS, _TOP, dtype=torch.int32)
    routed = trial.put(experts)
    trial.wrapper(
        trial.put(x),
        trial.put(scales),
        routed,
        trial.put(counts.to(torch.int32)),
        None,
        trial.empty(_EXPERTS, dtype=torch.int32),
        out,
        out_scales,
        owners,
        places,
        align_m=16,
    )
    # Which row of its expert a token gets is open; that it has one of its own is not.
    starts = torch.cat((torch.zeros(1, dtype=torch.int64), padded.cumsum(0)))[:-1]
    row = places.cpu().long()
    expected_rows = torch.cat([torch.arange(c) + s for c, s in zip(counts, starts, strict=True)])
    trial.check("rows", row.flatten().sort().values, expected_rows, EXACT)
    trial.check("owners", owners.cpu()[row], experts, EXACT)
    trial.check("values", out.cpu()[row], x.unsqueeze(1).expand(-1, _TOP, -1), EXACT)
    trial.check("scales", out_scales.cpu()[row], scales.unsqueeze(1).expand(-1, _TOP, -1), EXACT)
    result = trial.put(torch.zeros(_TOKENS, 256, dtype=trial.dtype))
    trial.module.ep_gather(out, routed, trial.put(share), places, None, result)
    expected = x.double() * share.double().sum(dim=1, keepdim=True)
    trial.check("gathered", result, expected, rounded(trial.dtype, "f32 sum, rounded", sums=0.5))
