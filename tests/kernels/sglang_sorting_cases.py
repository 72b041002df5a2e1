"""SGLang's kernels that sort, scan, count and hash."""

from __future__ import annotations

import torch
from kernel_case import EXACT, kernel_case, rounded
from kernel_trial import Trial

_MOE = "sglang.kernels.ops.moe"
_F32 = rounded(torch.float32, "exp and sums in f32", ulps=32, sums=8)


@kernel_case(
    f"{_MOE}.inkling_moe:fused_moe_preprocess",
    library="sglang",
    kernels="_fused_moe_preprocess_kernel",
    shapes="300 routes to 256 experts; sort, scan and binary searches behind barriers",
    dtypes=(torch.int32,),
)
def moe_preprocess(trial: Trial) -> None:
    ids = trial.integers(0, 256, 300)
    places, counts, starts, block_starts, schedule, ordered = trial.wrapper(trial.put(ids), 256)
    order = ids.argsort(stable=True)
    expected = torch.empty_like(order)
    expected[order] = torch.arange(300)
    trial.check("sorted", ordered, ids[order], EXACT)
    trial.check("places", places, expected, EXACT)
    numbers = ids.bincount(minlength=256)
    trial.check("counts", counts, numbers, EXACT)
    zero = torch.zeros(1, dtype=torch.int64)
    trial.check("starts", starts, torch.cat((zero, numbers.cumsum(0))), EXACT)
    blocks = -(-numbers // trial.module.SMALL_M_BLOCK_SIZE_M)
    trial.check("block starts", block_starts, torch.cat((zero, blocks.cumsum(0))), EXACT)
    plan = [(i << 16) + e for e, n in enumerate(blocks.tolist()) for i in range(n)]
    plan += [-1] * (len(schedule) - len(plan))
    trial.check("schedule", schedule, torch.tensor(plan), EXACT)


@kernel_case(
    f"{_MOE}.gemma4_routing:gemma4_fused_routing",
    library="sglang",
    kernels="_gemma4_routing_kernel",
    shapes="7 tokens, 6 of 100 experts; sort of 64-bit keys in one wave",
    dtypes=(torch.float32, torch.bfloat16),
)
def gemma_routing(trial: Trial) -> None:
    logits = torch.stack([trial.permutation(100) for _ in range(7)])
    logits = ((logits - 60) / 8).to(trial.dtype)
    scales = trial.rand(100, dtype=torch.float32)
    weights, ids = trial.wrapper(trial.put(logits), trial.put(scales), 6)
    values, expected_ids = logits.double().topk(6)
    expected = torch.softmax(values, dim=-1) * scales.double()[expected_ids]
    trial.check("ids", ids, expected_ids, EXACT)
    trial.check("weights", weights, expected, _F32)


@kernel_case(
    f"{_MOE}.moe_fused_gate:moe_fused_gate",
    library="sglang",
    kernels="_router_triton_kernel",
    shapes="9 tokens, 6 of 96 experts in 4 of 8 groups, one shared; sigmoid and bias",
    dtypes=(torch.float32, torch.bfloat16),
)
def moe_fused_gate(trial: Trial) -> None:
    scores, bias = trial.randn(9, 96), trial.randn(96, dtype=torch.float32)
    weights, ids = trial.wrapper(
        trial.put(scores),
        trial.put(bias),
        7,
        num_fused_shared_experts=1,
        routed_scaling_factor=2.5,
        num_expert_group=8,
        topk_group=4,
    )
    sigmoid = torch.sigmoid(scores.double())
    ranked = (sigmoid + bias.double()).reshape(9, 8, 12)
    groups = ranked.topk(2, dim=-1).values.sum(-1).topk(4).indices
    kept = torch.zeros(9, 8, dtype=torch.bool).scatter(1, groups, True)
    ranked = ranked.masked_fill(~kept.unsqueeze(-1), -torch.inf).reshape(9, 96)
    expected_ids = ranked.topk(6).indices
    chosen = sigmoid.gather(1, expected_ids)
    expected = chosen / chosen.sum(-1, keepdim=True)
    shared = torch.full((9, 1), 1 / 2.5, dtype=torch.float64)
    trial.check("ids", ids, torch.cat((expected_ids, torch.full((9, 1), 96)), 1), EXACT)
    trial.check("weights", weights, torch.cat((expected, shared), 1), _F32)


@kernel_case(
    "sglang.srt.layers.logsumexp:row_logsumexp_topk",
    library="sglang",
    kernels="_row_logsumexp_topk_kernel",
    shapes="5 rows of 3000; log-sum-exp and 7 largest by sorting packed keys",
    dtypes=(torch.float32, torch.bfloat16),
)
def logsumexp_topk(trial: Trial) -> None:
    x = torch.stack([trial.permutation(3000) for _ in range(5)])
    x = (x.clamp(min=2840) - 2900).to(trial.dtype) / 4
    largest, log_sums, values, places = trial.wrapper(trial.put(x), 7)
    expected, expected_places = x.topk(7)
    trial.check("largest", largest, x.amax(1), EXACT)
    trial.check("values", values, expected, EXACT)
    trial.check("places", places, expected_places, EXACT)
    sums = torch.logsumexp(x.double(), dim=1) - x.double().amax(1)
    trial.check("logarithms", log_sums, sums, _F32)


@kernel_case(
    "sglang.srt.layers.logsumexp:row_logsumexp",
    library="sglang",
    kernels="_row_logsumexp_kernel",
    shapes="5 rows of 20000, in blocks of 16384",
    dtypes=(torch.float32, torch.float16),
)
def row_logsumexp(trial: Trial) -> None:
    x = trial.randn(5, 20000, scale=3)
    largest, log_sums = trial.wrapper(trial.put(x))
    trial.check("largest", largest, x.amax(1), EXACT)
    sums = torch.logsumexp(x.double(), dim=1) - x.double().amax(1)
    trial.check("logarithms", log_sums, sums, _F32)


@kernel_case(
    "sglang.srt.eplb.eplb_map_record_fused:eplb_map_and_record_fused",
    library="sglang",
    kernels="_eplb_map_record_hist_kernel",
    shapes="200 tokens, 3 of 48 experts; histograms added by atomics",
    dtypes=(torch.int32,),
)
def eplb_histogram(trial: Trial) -> None:
    ids = trial.integers(0, 48, 200, 3)
    loads = trial.integers(0, 50, 48)
    counted = trial.put(loads)
    out = trial.wrapper(trial.put(ids), None, counted, None)
    trial.check("ids", out, ids, EXACT)
    trial.check("loads", counted, loads + ids.flatten().bincount(minlength=48), EXACT)


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF


def _murmur3(words: tuple[int, ...]) -> int:
    """MurmurHash3 (32 bits) of little-endian words, seed 0."""
    state = 0
    for word in words:
        mixed = _rotate(word * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
        state = (_rotate(state ^ mixed, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    state ^= 4 * len(words)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ state >> shift) * factor & 0xFFFFFFFF
    return state ^ state >> 16


@kernel_case(
    "sglang.kernels.ops.sampling.murmur_hash:murmur_hash32",
    library="sglang",
    kernels="murmur_hash32_kernel",
    shapes="4 seeds and positions, 70 columns; 64-bit integer arithmetic",
    dtypes=(torch.int64,),
    is_fast=True,
)
def murmur_hash(trial: Trial) -> None:
    seeds = torch.tensor([0, 1, 0x0123456789ABCDEF, 2**62 + 12345])
    positions, columns = torch.tensor([0, 7, 1 << 20, 65535]), torch.arange(70)
    hashes = trial.wrapper(trial.put(seeds), trial.put(positions), trial.put(columns))
    expected = [
        [_murmur3((seed & 0xFFFFFFFF, seed >> 32, position, column)) for column in range(70)]
        for seed, position in zip(seeds.tolist(), positions.tolist(), strict=True)
    ]
    trial.check("hashes", hashes.cpu().to(torch.int64), torch.tensor(expected), EXACT)


@kernel_case(
    "sglang.kernels.ops.speculative.row_argmax:row_argmax",
    library="sglang",
    kernels=("_argmax_partial_kernel", "_argmax_final_kernel"),
    shapes="5 rows of 7001, with ties",
)
def row_argmax(trial: Trial) -> None:
    x = trial.integers(0, 900, 5, 7001).float()
    out = trial.wrapper(trial.put(x))
    first = (x == x.amax(1, keepdim=True)).int().argmax(1)
    trial.check("places", out, first, EXACT)


@kernel_case(
    "sglang.kernels.ops.speculative.topk1:draft_topk1_postprocess",
    library="sglang",
    kernels=("_draft_topk1_partial_argmax_kernel", "_draft_topk1_finalize_kernel"),
    shapes="5 rows of 9001 logits, with ties; positions advanced",
)
def draft_topk1(trial: Trial) -> None:
    x = trial.integers(0, 3000, 5, 9001).float()
    positions = trial.integers(0, 99, 5, dtype=torch.int64)
    advanced, drafts = trial.put(positions), trial.put(torch.zeros(5, 3, dtype=torch.int64))
    _, places = trial.wrapper(trial.put(x), advanced, drafts, 1)
    first = (x == x.amax(1, keepdim=True)).int().argmax(1)
    trial.check("places", places.flatten(), first, EXACT)
    trial.check("positions", advanced, positions + 1, EXACT)
    expected = torch.zeros(5, 3, dtype=torch.int64)
    expected[:, 1] = first
    trial.check("drafts", drafts, expected, EXACT)


_LORA = "sglang.kernels.ops.lora"
_SPLIT = {
    "BLOCK_SIZE_N": 16,
    "BLOCK_SIZE_K": 64,
    "GROUP_SIZE_M": 1,
    "SPLIT_K": 4,
    "num_warps": 4,
    "num_stages": 2,
}


@kernel_case(
    f"{_LORA}.common.lora_a:grouped_lora_a",
    library="sglang",
    kernels=("_build_small_route_kernel", "_grouped_lora_a_kernel"),
    shapes="45 tokens of 512 with 3 adapters of rank 24; the last of 4 workgroups adds the parts",
    dtypes=(torch.bfloat16,),
)
def lora_last_workgroup_sums(trial: Trial) -> None:
    slots = trial.integers(0, 3, 45)
    x, weights = trial.randn(45, 512), trial.randn(3, 24, 512, scale=0.1)
    routing = trial.load(f"{_LORA}.common.routing").build_route(
        trial.put(slots), max_loras=3, block_size=16
    )
    out, counters = trial.empty(45, 24), trial.put(torch.zeros(64, dtype=torch.int32))
    trial.wrapper(
        trial.put(x),
        trial.put(weights),
        out,
        routing,
        config=_SPLIT,
        partial=trial.empty(4, 45, 24, dtype=torch.float32),
        counters=counters,
    )
    expected = torch.einsum("tk,tnk->tn", x.double(), weights.double()[slots.long()])
    trial.check("out", out, expected, rounded(trial.dtype, "f32 sums, rounded", sums=0.1))
    trial.check("counters", counters, torch.zeros(64), EXACT)


@kernel_case(
    f"{_LORA}.common.routing:build_route",
    library="sglang",
    kernels=("_route_histogram_kernel", "_route_scan_kernel", "_route_place_kernel"),
    shapes="5000 tokens with 5 adapters or none, blocks of 32; histogram, scan, places by atomics",
    dtypes=(torch.int32,),
)
def lora_large_route(trial: Trial) -> None:
    slots = trial.integers(-1, 5, 5000)
    route = trial.wrapper(trial.put(slots), max_loras=5, block_size=32, capacity=5200)
    count = int(route.num_pairs_post_padded.cpu())
    blocks = route.block_bucket_ids.cpu()[: count // 32]
    tokens = route.sorted_pair_ids.cpu()[:count].reshape(-1, 32)
    # Tokens without an adapter fill blocks of their own.
    padded = sum(-(-int((slots == adapter).sum()) // 32) * 32 for adapter in range(-1, 5))
    trial.check("count", torch.tensor(count), torch.tensor(padded), EXACT)
    for adapter in range(5):
        mine = tokens[blocks == adapter].flatten()
        mine = mine[(mine >= 0) & (mine < 5000)].sort().values
        wanted = (slots == adapter).nonzero().flatten()
        trial.check(f"adapter {adapter}", mine, wanted, EXACT)
