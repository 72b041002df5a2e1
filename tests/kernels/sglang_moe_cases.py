"""SGLang's mixture-of-experts kernels: routing, alignment, grouped products, expert parallelism."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import triton.language as tl
from kernel_case import EXACT, kernel_case, rounded
from kernel_trial import Trial

_MOE = "sglang.kernels.ops.moe"
_HALVES = (torch.bfloat16, torch.float16)
_FLOATS = (torch.float32, *_HALVES)


def _route(trial: Trial, tokens: int, topk: int, experts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Distinct experts and weights for each token."""
    logits = trial.randn(tokens, experts, dtype=torch.float32)
    weights, ids = torch.softmax(logits, dim=-1).topk(topk, dim=-1)
    return weights.contiguous(), ids.to(torch.int32).contiguous()


class _Alignment:
    """Token copies sorted by expert, each expert padded to whole blocks; computed by the wheel."""

    def __init__(self, trial: Trial, ids: torch.Tensor, experts: int, block: int) -> None:
        places = ids.numel() + experts * (block - 1)
        self.tokens = trial.put(torch.full((places,), ids.numel(), dtype=torch.int32))
        self.experts = trial.put(torch.full((-(-places // block),), -1, dtype=torch.int32))
        self.count = trial.empty(1, dtype=torch.int32)
        align = trial.load("sglang.test.kernels.moe_align").moe_align_block_size_triton
        align(trial.put(ids), experts, block, self.tokens, self.experts, self.count)


def _align_reference(
    ids: torch.Tensor, experts: int, block: int
) -> tuple[torch.Tensor, torch.Tensor]:
    tokens: list[int] = []
    blocks: list[int] = []
    for expert in range(experts):
        mine = (ids.flatten() == expert).nonzero().flatten().tolist()
        padding = -len(mine) % block
        tokens += mine + [ids.numel()] * padding
        blocks += [expert] * ((len(mine) + padding) // block)
    return torch.tensor(tokens), torch.tensor(blocks)


@kernel_case(
    "sglang.test.kernels.moe_align:moe_align_block_size_triton",
    library="sglang",
    kernels=tuple(f"moe_align_block_size_stage{stage}" for stage in (1, 2, 3, 4)),
    shapes="29 tokens, 3 of 11 experts, blocks of 16",
    dtypes=(torch.int32,),
    is_fast=True,
)
def moe_align(trial: Trial) -> None:
    _, ids = _route(trial, 29, 3, 11)
    alignment = _Alignment(trial, ids, 11, 16)
    tokens, blocks = _align_reference(ids, 11, 16)
    trial.check("count", alignment.count, torch.tensor([len(tokens)]), EXACT)
    trial.check("tokens", alignment.tokens[: len(tokens)], tokens, EXACT)
    trial.check("experts", alignment.experts[: len(blocks)], blocks, EXACT)


_BLOCKS = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 2}
_PLAIN: Mapping[str, object] = {
    "bias": None,
    "A_scale": None,
    "B_scale": None,
    "B_zp": None,
    "use_fp8_w8a8": False,
    "use_int8_w8a8": False,
    "use_int8_w8a16": False,
    "use_int4_w4a16": False,
    "per_channel_quant": False,
}


def _check_fused_moe(
    trial: Trial, a: torch.Tensor, b: torch.Tensor, expected_b: torch.Tensor, **options: object
) -> None:
    """Each token times the weights of its two experts, scaled by its routing weights."""
    tokens, experts = a.shape[0], b.shape[0]
    weights, ids = _route(trial, tokens, 2, experts)
    alignment = _Alignment(trial, ids, experts, 16)
    out = trial.empty(tokens, 2, b.shape[1])
    types = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
    trial.wrapper(
        A=trial.put(a),
        B=trial.put(b),
        C=out,
        topk_weights=trial.put(weights),
        topk_ids=trial.put(ids),
        sorted_token_ids=alignment.tokens,
        expert_ids=alignment.experts,
        num_tokens_post_padded=alignment.count,
        mul_routed_weight=True,
        top_k=2,
        config=_BLOCKS,
        compute_type=types[trial.dtype],
        **{**_PLAIN, **options},
    )
    chosen = expected_b.double()[ids.long()]
    expected = torch.einsum("tk,tjnk->tjn", a.double(), chosen) * weights.double().unsqueeze(-1)
    trial.check("out", out, expected, rounded(trial.dtype, "f32 sums, rounded", sums=0.1))


_FUSED = f"{_MOE}.fused_moe_triton_kernels"


@kernel_case(
    f"{_FUSED}:invoke_fused_moe_kernel",
    library="sglang",
    kernels="fused_moe_kernel",
    shapes="19 tokens of 100, 2 of 5 experts of 72 x 100",
    dtypes=_HALVES,
)
def fused_moe(trial: Trial) -> None:
    a, b = trial.randn(19, 100), trial.randn(5, 72, 100)
    _check_fused_moe(trial, a, b, b)


@kernel_case(
    f"{_FUSED}:invoke_fused_moe_kernel",
    library="sglang",
    kernels=("fused_moe_kernel", "_per_token_group_quant_int8"),
    shapes="int8 by blocks of 64: 19 tokens of 128, 2 of 5 experts of 72 x 128",
    dtypes=_HALVES,
)
def fused_moe_int8(trial: Trial) -> None:
    # Whole multiples of a power of two, up to 127: quantising the activations changes nothing.
    a = trial.integers(-126, 127, 19, 128).float()
    a[:, 5] = a[:, 70] = 127
    b = trial.integers(-128, 128, 5, 72, 128, dtype=torch.int8)
    scales = trial.rand(5, 2, 2, dtype=torch.float32) / 64
    wide = scales.repeat_interleave(64, 1)[:, :72].repeat_interleave(64, 2)
    _check_fused_moe(
        trial,
        (a / 32).to(trial.dtype),
        b,
        b.double() * wide.double(),
        B_scale=trial.put(scales),
        use_int8_w8a8=True,
        block_shape=[64, 64],
    )


@kernel_case(
    f"{_FUSED}:invoke_fused_moe_kernel",
    library="sglang",
    kernels="fused_moe_kernel_gptq_awq",
    shapes="4-bit weights with zero points: 19 tokens of 128, 2 of 5 experts of 64 x 128",
    dtypes=_HALVES,
)
def fused_moe_int4(trial: Trial) -> None:
    a = trial.randn(19, 128)
    low, high = trial.integers(0, 16, 5, 64, 64), trial.integers(0, 16, 5, 64, 64)
    packed = (low | high << 4).to(torch.uint8)
    nibbles = torch.stack((low, high), dim=-1).flatten(-2)
    zeros = trial.integers(0, 16, 5, 64, 2)
    packed_zeros = (zeros[:, 0::2] | zeros[:, 1::2] << 4).to(torch.uint8)
    scales = trial.rand(5, 64, 2)
    wide_zeros, wide = (t.repeat_interleave(64, 2) for t in (zeros, scales))
    # The kernel rounds a dequantised weight to the activations' type.
    weights = ((nibbles - wide_zeros).float() * wide.float()).to(trial.dtype)
    _check_fused_moe(
        trial,
        a,
        packed,
        weights,
        B_scale=trial.put(scales),
        B_zp=trial.put(packed_zeros),
        use_int4_w4a16=True,
        block_shape=[0, 64],
    )


@kernel_case(
    f"{_FUSED}:act_and_mul_triton",
    library="sglang",
    kernels="act_and_mul_kernel",
    shapes="silu, 10 rows of 2 x 600",
    dtypes=_FLOATS,
)
def act_and_mul(trial: Trial) -> None:
    x = trial.randn(10, 1200, scale=3)
    out = trial.empty(10, 600)
    trial.wrapper(trial.put(x), out, _BLOCKS)
    gate = torch.nn.functional.silu(x[:, :600].double()).to(trial.dtype).double()
    expected = gate * x[:, 600:].double()
    trial.check("out", out, expected, rounded(trial.dtype, "sigmoid in f32", ulps=8))


@kernel_case(
    f"{_FUSED}:moe_sum_reduce_triton",
    library="sglang",
    kernels="_moe_sum_reduce_kernel",
    shapes="7 tokens, 5 experts, 300 wide",
    dtypes=_FLOATS,
)
def moe_sum_reduce(trial: Trial) -> None:
    x, out = trial.randn(7, 5, 300), trial.empty(7, 300)
    trial.wrapper(trial.put(x), out, 2.5)
    expected = x.double().sum(1) * 2.5
    trial.check("out", out, expected, rounded(trial.dtype, "sum of five", sums=1))


@kernel_case(
    f"{_FUSED}:fused_append_shared_experts",
    library="sglang",
    kernels="_fused_append_shared_experts_kernel",
    shapes="9 tokens, 3 routed and 2 shared experts",
)
def fused_append_shared_experts(trial: Trial) -> None:
    weights, ids = _route(trial, 9, 3, 16)
    out_ids, out_weights = trial.wrapper(trial.put(ids), trial.put(weights), 2, 0.5, N=16)
    shared = torch.tensor([16, 17], dtype=torch.int32).expand(9, 2)
    trial.check("ids", out_ids, torch.cat((ids, shared), dim=1), EXACT)
    trial.check("weights", out_weights, torch.cat((weights, torch.full((9, 2), 0.5)), 1), EXACT)


@kernel_case(
    f"{_MOE}.router:fused_moe_router_cudacore",
    library="sglang",
    kernels="fused_moe_router_cudacore_kernel",
    shapes="6 tokens of 200, 3 of 16 experts, capped logits",
    dtypes=_HALVES,
)
def moe_router(trial: Trial) -> None:
    x, w = trial.randn(6, 200), trial.randn(16, 200, scale=0.1)
    weights, ids = trial.wrapper(trial.put(x), trial.put(w), 3, 30.0)
    logits = 30 * torch.tanh(x.double() @ w.double().T / 30)
    expected, expected_ids = torch.softmax(logits, dim=-1).topk(3)
    trial.check("ids", ids, expected_ids, EXACT)
    trial.check("weights", weights, expected, rounded(torch.float32, "f32 sums", ulps=64, sums=8))


@kernel_case(
    f"{_MOE}.router:fused_moe_router_tensorcore",
    library="sglang",
    kernels="fused_moe_router_tensorcore_kernel",
    shapes="37 tokens of 256, 2 of 16 experts, capped logits, matrix instructions",
    dtypes=_HALVES,
)
def moe_router_matrix(trial: Trial) -> None:
    x, w = trial.randn(37, 256), trial.randn(16, 256, scale=0.1)
    weights, ids = trial.wrapper(trial.put(x), trial.put(w), 2, 30.0, 32, 16, 64)
    logits = 30 * torch.tanh(x.double() @ w.double().T / 30)
    expected, expected_ids = torch.softmax(logits, dim=-1).topk(2)
    trial.check("ids", ids, expected_ids, EXACT)
    trial.check("weights", weights, expected, rounded(torch.float32, "f32 sums", ulps=64, sums=8))


@kernel_case(
    f"{_MOE}.gate_topk:gate_topk",
    library="sglang",
    kernels="_streaming_topk_kernel",
    shapes="41 rows, 6 of 75, sorted in registers (tl.topk, tl.sort)",
    dtypes=(torch.float32, torch.bfloat16),
    is_fast=True,
)
def gate_topk(trial: Trial) -> None:
    # Distinct values: bf16 ties are broken by index otherwise.
    columns = torch.stack([trial.permutation(75) for _ in range(41)])
    x = ((columns - 30) * 0.5).to(trial.dtype)
    values, ids = trial.wrapper(trial.put(x), 6)
    expected, expected_ids = x.topk(6, dim=-1)
    trial.check("values", values, expected, EXACT)
    trial.check("ids", ids, expected_ids, EXACT)


_EXPERT_PARALLEL = f"{_MOE}.ep_moe_kernels"


@kernel_case(
    f"{_EXPERT_PARALLEL}:ep_scatter",
    library="sglang",
    kernels=("_fwd_kernel_ep_scatter_1", "_fwd_kernel_ep_scatter_2", "_fwd_kernel_ep_gather"),
    shapes="23 tokens of 256, 2 of 6 experts; scan, integer atomics; gathered back",
    dtypes=(torch.bfloat16,),
)
def ep_scatter_and_gather(trial: Trial) -> None:
    x = trial.randn(23, 256)
    weights, ids = _route(trial, 23, 2, 6)
    counts = ids.flatten().bincount(minlength=6).int()
    padded = (counts + 127) // 128 * 128
    places = int(padded.sum())
    starts, rows = trial.empty(6, dtype=torch.int32), trial.empty(places, 256)
    owners = trial.empty(places, dtype=torch.int32)
    index = trial.empty(23, 2, dtype=torch.int32)
    device_ids = trial.put(ids)
    trial.wrapper(
        trial.put(x),
        None,
        device_ids,
        trial.put(padded),
        trial.put(counts),
        starts,
        rows,
        None,
        owners,
        index,
    )
    begins = padded.cumsum(0) - padded
    # The order within an expert is the atomics' own; which places are taken is not.
    taken = torch.cat([torch.arange(b, b + n) for b, n in zip(begins, counts, strict=True)])
    trial.check("places", index.cpu().flatten().sort().values, taken, EXACT)
    expert_of_place = (index.cpu().long().unsqueeze(-1) >= begins).sum(-1) - 1
    trial.check("experts", expert_of_place, ids, EXACT)
    trial.check("rows", rows.cpu()[index.cpu().long()], x.unsqueeze(1).expand(23, 2, 256), EXACT)
    owned = torch.cat(
        [
            torch.where(torch.arange(int(p)) < n, e, -1)
            for e, (p, n) in enumerate(zip(padded, counts, strict=True))
        ]
    )
    trial.check("owners", owners, owned, EXACT)
    out = trial.empty(23, 256)
    trial.module.ep_gather(rows, device_ids, trial.put(weights), index, out)
    expected = x.double() * weights.double().sum(1, keepdim=True)
    trial.check("gathered", out, expected, rounded(trial.dtype, "weighted sum", sums=1))


@kernel_case(
    f"{_EXPERT_PARALLEL}:deepep_run_moe_deep_preprocess",
    library="sglang",
    kernels="deepep_compute_src2dst_triton_kernel",
    shapes="300 tokens, 2 of 7 experts, some absent",
    dtypes=(torch.int64,),
)
def deepep_preprocess(trial: Trial) -> None:
    ids = trial.integers(-1, 7, 300, 2, dtype=torch.int64)
    sorted_ids, places, starts = trial.wrapper(trial.put(ids), 7)
    flat = ids.flatten()
    order = flat.argsort(stable=True)
    absent = int((flat < 0).sum())
    expected = torch.empty_like(flat)
    expected[order] = torch.arange(600) - absent
    trial.check("sorted", sorted_ids, flat[order][absent:], EXACT)
    present = flat >= 0
    trial.check("places", places.cpu()[present], expected[present], EXACT)
    bounds = torch.tensor([0, *(flat[present].bincount(minlength=7).cumsum(0).tolist())])
    trial.check("starts", starts, bounds, EXACT)


@kernel_case(
    f"{_EXPERT_PARALLEL}:fused_moe_dispatch_index",
    library="sglang",
    kernels="fused_moe_dispatch_index_triton_kernel",
    shapes="50 tokens, 3 of 9 experts, of which 4 are local; atomics after a barrier",
    dtypes=(torch.int32,),
)
def moe_dispatch_index(trial: Trial) -> None:
    _, ids = _route(trial, 50, 3, 9)
    counts, places = trial.wrapper(trial.put(ids), 4, 64, expert_start=3)
    local = ids.flatten() - 3
    is_local = (local >= 0) & (local < 4)
    expected = local[is_local].bincount(minlength=4)
    trial.check("counts", counts, expected, EXACT)
    trial.check("absent", places.cpu()[~is_local], torch.full((int((~is_local).sum()),), -1), EXACT)
    trial.check("experts", places.cpu()[is_local] // 64, local[is_local], EXACT)
    taken = torch.cat([torch.arange(int(n)) + 64 * e for e, n in enumerate(expected)])
    trial.check("places", places.cpu()[is_local].sort().values, taken, EXACT)


@kernel_case(
    f"{_EXPERT_PARALLEL}:silu_and_mul_masked_fwd",
    library="sglang",
    kernels="_silu_and_mul_kernel",
    shapes="3 experts with 5, 0, 9 of 12 rows, 2 x 200 wide",
    dtypes=(torch.bfloat16,),
)
def silu_and_mul_masked(trial: Trial) -> None:
    counts = (5, 0, 9)
    x, out = trial.randn(3, 12, 400), trial.put(torch.zeros(3, 12, 200, dtype=trial.dtype))
    trial.wrapper(trial.put(x), out, trial.put(torch.tensor(counts, dtype=torch.int32)))
    gate = torch.nn.functional.silu(x[..., :200].double()).to(trial.dtype).double()
    expected = gate * x[..., 200:].double()
    for expert, count in enumerate(counts):
        expected[expert, count:] = 0
    trial.check("out", out, expected, rounded(trial.dtype, "gate and product rounded", ulps=2))


@kernel_case(
    f"{_EXPERT_PARALLEL}:zero_experts_compute_triton",
    library="sglang",
    kernels="compute_identity_kernel",
    shapes="7 tokens of 512, 3 choices of 6 experts, of which 2 pass on",
    dtypes=_HALVES,
)
def zero_experts(trial: Trial) -> None:
    x = trial.randn(7, 512)
    weights, ids = _route(trial, 7, 3, 6)
    scales = weights.to(trial.dtype)
    out = trial.wrapper(trial.put(ids), trial.put(scales), 4, "identity", trial.put(x))
    share = torch.where(ids >= 4, scales.double(), 0.0).sum(1, keepdim=True)
    trial.check("out", out, x.double() * share, rounded(trial.dtype, "sum of three", ulps=4))
