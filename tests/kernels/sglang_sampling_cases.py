"""SGLang's kernels on logits and on the token pools."""

from __future__ import annotations

import torch
from kernel_case import EXACT, Tolerance, kernel_case, rounded
from kernel_trial import Trial

_SAMPLING = "sglang.kernels.ops.sampling"
_MEMORY = "sglang.kernels.ops.memory"
_INDICES = "sglang.kernels.ops.attention.kv_indices"
_F32 = rounded(torch.float32, "exp and sums in f32", ulps=32, sums=4)


@kernel_case(
    "sglang.kernels.ops.grammar.bitmask_ops:apply_token_bitmask_inplace_triton",
    library="sglang",
    kernels="apply_token_bitmask_inplace_kernel",
    shapes="4 rows of 5000 tokens, rows 3 and 1 masked",
    # With float32 it asks for 32 waves, 2048 lanes, which no CDNA chip has.
    dtypes=(torch.bfloat16, torch.float16),
    is_fast=True,
)
def token_bitmask(trial: Trial) -> None:
    logits = trial.randn(4, 5000)
    mask = trial.integers(-(2**31), 2**31 - 1, 4, 157)
    masked = trial.put(logits)
    trial.wrapper(masked, trial.put(mask), indices=[3, 1])
    allowed = ((mask.unsqueeze(-1) >> torch.arange(32)) & 1).flatten(1)[:, :5000].bool()
    allowed[0] = allowed[2] = True
    trial.check("logits", masked, logits.masked_fill(~allowed, -torch.inf), EXACT)


@kernel_case(
    f"{_SAMPLING}.temperature_softmax:temperature_softmax",
    library="sglang",
    kernels=("_partial_max_sumexp_kernel", "_combine_kernel", "_normalize_kernel"),
    shapes="3 rows of 9000, each with a temperature",
)
def temperature_softmax(trial: Trial) -> None:
    logits, heat = trial.randn(3, 9000, scale=4), trial.rand(3, 1) + 0.5
    out = trial.wrapper(trial.put(logits), trial.put(heat))
    expected = torch.softmax(logits.double() / heat.double(), dim=1)
    trial.check("shares", out, expected, rounded(torch.float32, "exp of f32", ulps=64, sums=1))


def _distinct_shares(trial: Trial, rows: int, columns: int) -> torch.Tensor:
    """Probabilities that are all different, so that a threshold is met by one only."""
    values = torch.stack([trial.permutation(columns).double() + 1 for _ in range(rows)])
    return (values / values.sum(1, keepdim=True)).float()


@kernel_case(
    f"{_SAMPLING}.renorm_triton:top_k_renorm_probs_triton",
    library="sglang",
    kernels=("_mask_and_partial_sum_kernel", "_normalize_kernel"),
    shapes="3 rows of 3000, the 1, 40, 2999 most likely kept",
)
def top_k_renorm(trial: Trial) -> None:
    shares, limits = _distinct_shares(trial, 3, 3000), torch.tensor([1, 40, 2999])
    out = trial.wrapper(trial.put(shares), trial.put(limits))
    rank = shares.argsort(dim=1, descending=True).argsort(dim=1)
    kept = shares.double().masked_fill(rank >= limits[:, None], 0)
    trial.check("shares", out, kept / kept.sum(1, keepdim=True), _F32)


@kernel_case(
    f"{_SAMPLING}.renorm_triton:top_p_renorm_probs_triton",
    library="sglang",
    kernels=("_mask_and_partial_sum_kernel", "_normalize_kernel"),
    shapes="3 rows of 3000, shares of 0.1, 0.5, 0.9 kept",
)
def top_p_renorm(trial: Trial) -> None:
    shares, limits = _distinct_shares(trial, 3, 3000), torch.tensor([0.1, 0.5, 0.9])
    out = trial.wrapper(trial.put(shares), trial.put(limits))
    # The cut itself is torch's, in f32; what is kept must be the most likely ones, rescaled.
    is_kept = out.cpu() > 0
    lowest = torch.where(is_kept, shares, torch.inf).amin(1, keepdim=True)
    trial.check("kept", is_kept, shares >= lowest, EXACT)
    kept = shares.double() * is_kept
    cut = Tolerance(absolute=1e-3, reason="one token more or less at the cut")
    trial.check("share", kept.sum(1), limits, cut)
    trial.check("shares", out, kept / kept.sum(1, keepdim=True), _F32)


@kernel_case(
    f"{_SAMPLING}.softcap_row_argmax:softcap_row_argmax",
    library="sglang",
    kernels="_softcap_row_argmax_kernel",
    shapes="4 rows of 5000, of which 4900 count; capped by tanh",
)
def softcap_argmax(trial: Trial) -> None:
    logits = trial.randn(4, 5000, scale=10)
    out = trial.wrapper(trial.put(logits), 30.0, 4900, 100)
    values, places = logits[:, :4900].double().max(1)
    trial.check("values", out[:, 0], 30 * torch.tanh(values / 30), _F32)
    trial.check("places", out[:, 1], places + 100, EXACT)


@kernel_case(
    "sglang.kernels.ops.activation.softcap:softcap_inplace_logits",
    library="sglang",
    kernels="softcap_inplace_logits_kernel",
    shapes="3 rows of 1500",
    dtypes=(torch.float32, torch.bfloat16),
)
def softcap_logits(trial: Trial) -> None:
    logits = trial.randn(3, 1500, scale=20)
    capped = trial.put(logits)
    trial.wrapper(capped, 30.0)
    expected = 30 * torch.tanh(logits.double() / 30)
    trial.check("logits", capped, expected, rounded(trial.dtype, "tanh in f32", ulps=16, sums=1))


class _Pool:
    """Four requests of a token pool of 6 rows of 700."""

    lengths = torch.tensor([600, 1, 257, 64], dtype=torch.int32)

    def __init__(self, trial: Trial) -> None:
        self.table = trial.integers(0, 90000, 6, 700)
        self.rows = torch.tensor([4, 0, 5, 2], dtype=torch.int32)
        self.starts = torch.tensor([0, *self.lengths.tolist()]).cumsum(0).to(torch.int32)

    def slots(self, lengths: torch.Tensor) -> list[torch.Tensor]:
        return [
            self.table[row, :count]
            for row, count in zip(self.rows.tolist(), lengths.tolist(), strict=True)
        ]


@kernel_case(
    f"{_MEMORY}.common:get_last_loc_triton_safe",
    library="sglang",
    kernels="_get_last_loc_safe_kernel",
    shapes="4 requests of a pool, one without prefix",
    dtypes=(torch.int32, torch.int64),
)
def last_location(trial: Trial) -> None:
    pool = _Pool(trial)
    prefixes = torch.tensor([600, 0, 257, 64], dtype=trial.dtype)
    out = trial.wrapper(
        trial.put(pool.table), trial.put(pool.rows.to(trial.dtype)), trial.put(prefixes)
    )
    expected = [
        int(pool.table[row, count - 1]) if count else -1
        for row, count in zip(pool.rows.tolist(), prefixes.tolist(), strict=True)
    ]
    trial.check("slots", out, torch.tensor(expected), EXACT)


@kernel_case(
    f"{_MEMORY}.common:write_req_to_token_pool_triton",
    library="sglang",
    kernels="write_req_to_token_pool_triton",
    shapes="4 requests; prefixes by pointers in a tensor, 600, 1, 257, 64 tokens",
    dtypes=(torch.int32,),
)
def write_token_pool(trial: Trial) -> None:
    pool = _Pool(trial)
    prefixes = torch.tensor([520, 0, 257, 3], dtype=torch.int64)
    lengths = pool.lengths.long()
    parts = [trial.integers(0, 9999, max(int(n), 1), dtype=torch.int64) for n in prefixes]
    on_device = [trial.put(part) for part in parts]
    pointers = torch.tensor([part.data_ptr() for part in on_device], dtype=torch.uint64)
    new = trial.integers(0, 9999, int((lengths - prefixes).sum()), dtype=torch.int64)
    table = trial.put(pool.table)
    trial.module.write_req_to_token_pool_triton[(4,)](
        table,
        trial.put(pool.rows),
        trial.put(pointers),
        trial.put(prefixes),
        trial.put(lengths),
        trial.put(lengths - prefixes),
        trial.put(new),
        700,
    )
    expected, taken = pool.table.clone(), 0
    for row, part, prefix, length in zip(
        pool.rows.tolist(), parts, prefixes.tolist(), lengths.tolist(), strict=True
    ):
        expected[row, :prefix] = part[:prefix]
        expected[row, prefix:length] = new[taken : taken + length - prefix]
        taken += length - prefix
    trial.check("table", table, expected, EXACT)


@kernel_case(
    f"{_INDICES}:create_flashinfer_kv_indices_triton",
    library="sglang",
    kernels="create_flashinfer_kv_indices_triton",
    shapes="4 requests of 600, 1, 257, 64 tokens",
    dtypes=(torch.int32,),
)
def flashinfer_indices(trial: Trial) -> None:
    pool = _Pool(trial)
    out = trial.empty(int(pool.starts[-1]), dtype=torch.int32)
    trial.module.create_flashinfer_kv_indices_triton[(4,)](
        trial.put(pool.table),
        trial.put(pool.rows),
        trial.put(pool.lengths),
        trial.put(pool.starts),
        None,
        out,
        700,
    )
    trial.check("slots", out, torch.cat(pool.slots(pool.lengths)), EXACT)


@kernel_case(
    f"{_INDICES}:create_flashmla_kv_indices_triton",
    library="sglang",
    kernels="create_flashmla_kv_indices_triton",
    shapes="4 requests of 600, 1, 257, 64 tokens in pages of 64",
    dtypes=(torch.int32,),
)
def flashmla_indices(trial: Trial) -> None:
    pool = _Pool(trial)
    out = trial.put(torch.full((4, 11), -1, dtype=torch.int32))
    blocks = trial.module.get_num_kv_index_blocks_flashmla(11, 64)
    trial.module.create_flashmla_kv_indices_triton[(4, blocks)](
        trial.put(pool.table), trial.put(pool.rows), trial.put(pool.lengths), None, out, 700, 11
    )
    expected = torch.full((4, 11), -1, dtype=torch.int32)
    for i, slots in enumerate(pool.slots(pool.lengths)):
        pages = slots[::64] // 64
        expected[i, : len(pages)] = pages
    trial.check("pages", out, expected, EXACT)


@kernel_case(
    "sglang.kernels.ops.attention.position:compute_position_triton",
    library="sglang",
    kernels="compute_position_kernel",
    shapes="600, 1, 257 new tokens after 5, 0, 90",
    dtypes=(torch.int32,),
)
def token_positions(trial: Trial) -> None:
    prefixes = torch.tensor([5, 0, 90], dtype=torch.int32)
    lengths = torch.tensor([600, 1, 257], dtype=torch.int32)
    positions, starts = trial.wrapper(trial.put(prefixes), trial.put(lengths), 858)
    expected = [torch.arange(p, p + n) for p, n in zip(prefixes, lengths, strict=True)]
    trial.check("positions", positions, torch.cat(expected), EXACT)
    trial.check("starts", starts, torch.tensor([0, 600, 601]), EXACT)


@kernel_case(
    f"{_MEMORY}.allocator:alloc_extend_kernel",
    library="sglang",
    kernels="alloc_extend_kernel",
    shapes="3 requests grow from 5, 32, 0 to 70, 33, 40 tokens in pages of 16",
    dtypes=(torch.int64,),
)
def allocate_pages(trial: Trial) -> None:
    before, after = torch.tensor([5, 32, 0]), torch.tensor([70, 33, 40])
    last, free = torch.tensor([3 * 16 + 4, 7 * 16 + 15, -1]), trial.permutation(40, torch.int64)
    out = trial.empty(int((after - before).sum()), dtype=torch.int64)
    trial.module.alloc_extend_kernel[(3,)](
        trial.put(before), trial.put(after), trial.put(last), trial.put(free), out, 4, 16
    )
    expected, pages = [], iter(free.tolist())
    for start, end, place in zip(before.tolist(), after.tolist(), last.tolist(), strict=True):
        slot = place
        for token in range(start, end):
            slot = slot + 1 if token % 16 else next(pages) * 16
            expected.append(slot)
    trial.check("slots", out, torch.tensor(expected), EXACT)


@kernel_case(
    "sglang.kernels.ops.kvcache.cache_ops:launch_reshape_and_cache_flash",
    library="sglang",
    kernels="reshape_and_cache_flash",
    shapes="5 tokens, 3 heads of 80, into pages of 4, one token skipped",
    dtypes=(torch.bfloat16, torch.float32),
)
def store_in_cache(trial: Trial) -> None:
    key, value = trial.randn(5, 3, 80), trial.randn(5, 3, 80)
    slots = torch.tensor([13, 2, -1, 7, 0])
    caches = [torch.zeros(4, 4, 3, 80, dtype=trial.dtype) for _ in range(2)]
    stored = [trial.put(cache) for cache in caches]
    trial.wrapper(trial.put(key), trial.put(value), *stored, trial.put(slots))
    for name, source, cache, got in zip("kv", (key, value), caches, stored, strict=True):
        cache.view(16, 3, 80)[slots[slots >= 0]] = source[slots >= 0]
        trial.check(name, got, cache, EXACT)
