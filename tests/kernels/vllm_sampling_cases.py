"""vLLM's sampling kernels: logits processing, sampling, log probabilities, speculative decoding."""

from __future__ import annotations

import torch
from kernel_case import EXACT, kernel_case, rounded
from kernel_trial import Trial

_GPU = "vllm.v1.worker.gpu"
_ROWS, _VOCABULARY = 5, 1500
_REQUESTS = torch.tensor([3, 0, 2, 1, 3], dtype=torch.int32)
"""Which request each row belongs to."""


def _logits(trial: Trial) -> torch.Tensor:
    return trial.randn(_ROWS, _VOCABULARY, scale=3)


@kernel_case(
    f"{_GPU}.sample.gumbel:apply_temperature",
    kernels="_temperature_kernel",
    shapes="5 rows of 1500, temperatures 0.7, 1, 0, 2",
    is_fast=True,
)
def temperature(trial: Trial) -> None:
    logits, values = _logits(trial), torch.tensor([0.7, 1.0, 0.0, 2.0])
    out = trial.put(logits)
    trial.wrapper(out, trial.put(_REQUESTS), trial.put(values))
    divisor = torch.where(values == 0, 1.0, values)[_REQUESTS.long()].double()
    tolerance = rounded(torch.float32, "Triton's f32 division is not correctly rounded", ulps=2)
    trial.check("logits", out, logits.double() / divisor[:, None], tolerance)


def _murmur3(seed: int, position: int, offsets: torch.Tensor) -> torch.Tensor:
    """MurmurHash3 of 16 bytes (seed, position's low word, offset), 32 bits, as int64."""
    mask = 0xFFFFFFFF

    def rotate(x: torch.Tensor, shift: int) -> torch.Tensor:
        return ((x << shift) | (x >> (32 - shift))) & mask

    state = torch.zeros_like(offsets)
    for word in (seed & mask, seed >> 32 & mask, position & mask, offsets):
        key = torch.zeros_like(offsets) + word
        key = rotate(_multiply(key, 0xCC9E2D51), 15)
        state = rotate(state ^ _multiply(key, 0x1B873593), 13)
        state = (_multiply(state, 5) + 0xE6546B64) & mask
    state = state ^ 16
    state = _multiply(state ^ (state >> 16), 0x85EBCA6B)
    state = _multiply(state ^ (state >> 13), 0xC2B2AE35)
    return state ^ (state >> 16)


def _multiply(x: torch.Tensor, factor: int) -> torch.Tensor:
    """The low 32 bits of a product, without overflow of int64."""
    low, high = x & 0xFFFF, x >> 16
    return (low * factor + ((high * factor & 0xFFFF) << 16)) & 0xFFFFFFFF


@kernel_case(
    f"{_GPU}.sample.gumbel:gumbel_sample",
    kernels="_gumbel_sample_kernel",
    shapes="5 rows of 1500, temperatures 0.7, 1, 0, 2, seeded",
    is_fast=True,
)
def gumbel_sample(trial: Trial) -> None:
    logits, temperatures = _logits(trial), torch.tensor([0.7, 1.0, 0.0, 2.0])
    seeds = torch.tensor([5, -7, 11, 1 << 40], dtype=torch.int64)
    positions = torch.tensor([9, 100, 3, 12, 10], dtype=torch.int64)
    sampled = trial.wrapper(
        trial.put(logits),
        *(trial.put(tensor) for tensor in (_REQUESTS, temperatures, seeds, positions)),
        apply_temperature=True,
        is_drafting=False,
    )
    expected = []
    for row, request, position in zip(logits, _REQUESTS.tolist(), positions.tolist(), strict=True):
        heat = temperatures[request].double()
        noisy = row.double()
        if heat:
            hashed = _murmur3(int(seeds[request]), position, torch.arange(_VOCABULARY))
            uniform = (hashed.double() + 0.5) / 2**32
            noisy = noisy / heat - torch.log(-torch.log1p(-uniform))
        expected.append(int(noisy.argmax()))
    trial.check("tokens", sampled, torch.tensor(expected), EXACT)


@kernel_case(
    f"{_GPU}.sample.min_p:apply_min_p",
    kernels="_min_p_kernel",
    shapes="5 rows of 1500, min-p 0.1, 0, 0.5, 0.01",
)
def min_p(trial: Trial) -> None:
    logits, values = _logits(trial), torch.tensor([0.1, 0.0, 0.5, 0.01])
    out = trial.put(logits)
    trial.wrapper(out, trial.put(_REQUESTS), trial.put(values))
    shares = torch.softmax(logits.double(), dim=1)
    threshold = values[_REQUESTS.long()].double()[:, None] * shares.amax(dim=1, keepdim=True)
    expected = logits.masked_fill(shares < threshold, -torch.inf)
    trial.check("logits", out, expected, EXACT)


@kernel_case(
    f"{_GPU}.sample.logprob:compute_token_logprobs",
    kernels="_topk_log_softmax_kernel",
    shapes="5 rows of 1500, 7 tokens each",
    dtypes=(torch.float32, torch.bfloat16),
    is_fast=True,
)
def token_logprobs(trial: Trial) -> None:
    logits = _logits(trial)
    tokens = trial.integers(0, _VOCABULARY, _ROWS, 7, dtype=torch.int64)
    out = trial.wrapper(trial.put(logits), trial.put(tokens))
    expected = torch.log_softmax(logits.double(), dim=1).gather(1, tokens)
    tolerance = rounded(torch.float32, "sum of 1500 exponentials in f32", ulps=4, sums=2)
    trial.check("logprobs", out, expected, tolerance)


@kernel_case(
    f"{_GPU}.sample.penalties:apply_penalties",
    kernels="_penalties_kernel",
    shapes="5 rows of 1500, 4 requests, one of them without penalties",
)
def penalties(trial: Trial) -> None:
    logits = _logits(trial)
    repetition = torch.tensor([1.5, 1.0, 1.0, 0.8])
    frequency = torch.tensor([0.25, 0.0, 0.5, 0.0])
    presence = torch.tensor([0.0, 0.0, 0.75, 0.5])
    prompt = trial.integers(0, 2, 4, _VOCABULARY, dtype=torch.int64)
    counts = trial.integers(0, 3, 4, _VOCABULARY)
    words = torch.nn.functional.pad(prompt, (0, -_VOCABULARY % 32)).reshape(4, -1, 32)
    packed = (words << torch.arange(32)).sum(dim=2).to(torch.uint32).view(torch.int32)
    tokens = trial.integers(0, _VOCABULARY, _ROWS)
    local = torch.tensor([0, 0, 0, 0, 1], dtype=torch.int32)
    out = trial.put(logits)
    trial.wrapper(
        out,
        *(
            trial.put(tensor)
            for tensor in (
                _REQUESTS,
                tokens,
                local,
                repetition,
                frequency,
                presence,
                packed,
                counts,
            )
        ),
    )
    own = _REQUESTS.long()
    seen = counts[own].clone()
    seen[4, int(tokens[4])] += 1  # the last row's draft token counts as output
    repeated = (prompt[own] > 0) | (seen > 0)
    scale = torch.where(repeated, repetition[own].double()[:, None], 1.0)
    wide = logits.double()
    expected = torch.where(wide > 0, wide / scale, wide * scale)
    expected -= frequency[own].double()[:, None] * seen
    expected -= presence[own].double()[:, None] * (seen > 0)
    tolerance = rounded(torch.float32, "a reciprocal and three roundings in f32", ulps=3, sums=1)
    trial.check("logits", out, expected, tolerance)


@kernel_case(
    f"{_GPU}.sample.penalties:bincount",
    kernels="_bincount_kernel",
    shapes="3 of 4 requests, prompts of 20, 1100, 7, vocabulary 1500",
)
def bincount(trial: Trial) -> None:
    requests = torch.tensor([2, 0, 3], dtype=torch.int32)
    tokens = trial.integers(0, _VOCABULARY, 4, 1200)
    prompt = torch.tensor([20, 5, 1100, 7], dtype=torch.int32)
    prefill = torch.tensor([50, 5, 1150, 7], dtype=torch.int32)
    bits = trial.put(trial.integers(-5, 5, 4, -(-_VOCABULARY // 32)))
    counts = trial.put(trial.integers(0, 3, 4, _VOCABULARY))
    before = bits.cpu(), counts.cpu()
    trial.wrapper(
        trial.put(requests),
        trial.put(tokens),
        trial.put(prompt),
        trial.put(prefill),
        bits,
        counts,
        1150,
    )
    expected_bits, expected_counts = (tensor.clone() for tensor in before)
    for request in requests.tolist():
        own = tokens[request].long()
        seen = torch.zeros(_VOCABULARY + -_VOCABULARY % 32, dtype=torch.int64)
        seen[own[: prompt[request]]] = 1
        words = (seen.reshape(-1, 32) << torch.arange(32)).sum(dim=1)
        expected_bits[request] = words.to(torch.uint32).view(torch.int32)
        output = own[prompt[request] : prefill[request]]
        expected_counts[request] = torch.bincount(output, minlength=_VOCABULARY)
    trial.check("prompt bits", bits, expected_bits, EXACT)
    trial.check("output counts", counts, expected_counts, EXACT)


@kernel_case(
    f"{_GPU}.metrics.logits:get_num_nans",
    kernels="_num_nans_kernel",
    shapes="5 rows of 9000",
    dtypes=(torch.float32, torch.bfloat16),
)
def count_nans(trial: Trial) -> None:
    logits = trial.randn(_ROWS, 9000)
    logits[trial.rand(_ROWS, 9000, dtype=torch.float32) < 0.01] = torch.nan
    logits[0] = torch.inf
    trial.check("counts", trial.wrapper(trial.put(logits)), logits.isnan().sum(dim=1), EXACT)


@kernel_case(
    f"{_GPU}.sample.logit_bias:apply_logit_bias",
    kernels="_bias_kernel",
    shapes="5 rows of 1500: allowed tokens, biases, stop tokens before the least length",
)
def logit_bias(trial: Trial) -> None:
    logits = _logits(trial)
    lists = [trial.permutation(_VOCABULARY)[:24].reshape(4, 6) for _ in range(3)]
    allowed, biased, stops = lists
    allowed_counts = torch.tensor([0, 4, 0, 0], dtype=torch.int32)
    bias_counts = torch.tensor([3, 0, 0, 6], dtype=torch.int32)
    stop_counts = torch.tensor([0, 0, 2, 1], dtype=torch.int32)
    biases = trial.randn(4, 6)
    positions = torch.tensor([3, 9, 4, 7, 8], dtype=torch.int64)
    least = torch.tensor([0, 0, 6, 6], dtype=torch.int32)
    out = trial.put(logits)
    trial.wrapper(
        out,
        *(
            trial.put(tensor)
            for tensor in (
                _REQUESTS,
                positions,
                allowed_counts,
                allowed,
                bias_counts,
                biased,
                biases,
                least,
                stop_counts,
                torch.zeros(4, dtype=torch.bool),
                stops,
            )
        ),
    )
    expected = logits.clone()
    for row, request, position in zip(
        expected, _REQUESTS.tolist(), positions.tolist(), strict=True
    ):
        if count := int(allowed_counts[request]):
            kept = allowed[request, :count].long()
            values = row[kept].clone()
            row[:] = -torch.inf
            row[kept] = values
        some = biased[request, : bias_counts[request]].long()
        row[some] += biases[request, : bias_counts[request]]
        if position + 1 < least[request]:
            row[stops[request, : stop_counts[request]].long()] = -torch.inf
    trial.check("logits", out, expected, EXACT)


def _top_k_top_p(
    logits: torch.Tensor, k: torch.Tensor | None, p: torch.Tensor | None
) -> torch.Tensor:
    """Logits outside the k largest, then outside the smallest set of probability p, are -inf."""
    out = logits.double()
    for index, row in enumerate(out):
        if k is not None:
            row[row < row.sort(descending=True).values[k[index] - 1]] = -torch.inf
        if p is not None:
            shares, order = torch.softmax(row, dim=0).sort(descending=True, stable=True)
            before = shares.cumsum(0) - shares
            row[order[before >= p[index].double()]] = -torch.inf
    return out


_RACE = (
    "_topk_topp_kernel gathers candidates in global memory and its other waves read them without a "
    "barrier in between. With one wave (num_warps=1) the result is right."
)


@kernel_case(
    "vllm.v1.sample.ops.topk_topp_triton:apply_top_k_top_p_triton",
    kernels="_topk_topp_kernel",
    shapes="5 rows of 1500 uniform values (the search over the whole row), k of 1 to 15",
)
def top_k(trial: Trial) -> None:
    logits = trial.rand(_ROWS, _VOCABULARY)
    k = torch.tensor([1, 2, 5, 10, 15], dtype=torch.int32)
    out = trial.wrapper(trial.put(logits), trial.put(k), None)
    trial.check("logits", out, _top_k_top_p(logits, k, None), EXACT)


@kernel_case(
    "vllm.v1.sample.ops.topk_topp_triton:apply_top_k_top_p_triton",
    kernels="_topk_topp_kernel",
    shapes="5 rows of 1500 normal values (gathered candidates), k of 1, 5, 50, 1000, 1499",
    finding=_RACE,
)
def top_k_gathered(trial: Trial) -> None:
    logits = _logits(trial)
    k = torch.tensor([1, 5, 50, 1000, 1499], dtype=torch.int32)
    out = trial.wrapper(trial.put(logits), trial.put(k), None)
    trial.check("logits", out, _top_k_top_p(logits, k, None), EXACT)


@kernel_case(
    "vllm.v1.sample.ops.topk_topp_triton:apply_top_k_top_p_triton",
    kernels=("_topp_sb_stats_kernel", "_topp_sb_step_kernel", "_topp_sb_mask_kernel"),
    shapes="5 rows of 1500, p of 0.1 to 0.99",
)
def top_p(trial: Trial) -> None:
    logits = _logits(trial)
    p = torch.tensor([0.5, 0.1, 0.9, 0.8, 0.99])
    out = trial.wrapper(trial.put(logits), None, trial.put(p))
    trial.check("logits", out, _top_k_top_p(logits, None, p), EXACT)


_DRAFTS = torch.tensor([3, 0, 2], dtype=torch.int32)
"""Draft tokens of three requests."""


@kernel_case(
    "vllm.v1.sample.rejection_sampler:_rejection_greedy_sample",
    kernels="rejection_greedy_sample_kernel",
    shapes="3 requests with 3, 0, 2 draft tokens",
    dtypes=(torch.int32,),
)
def rejection_greedy(trial: Trial) -> None:
    drafts = torch.tensor([4, 5, 6, 7, 8], dtype=torch.int32)
    targets = torch.tensor([4, 9, 6, 7, 8], dtype=torch.int64)
    bonus = torch.tensor([[20], [21], [22]], dtype=torch.int32)
    out = trial.put(torch.full((3, 4), -1, dtype=torch.int32))
    ends = _DRAFTS.cumsum(0).to(torch.int32)
    trial.wrapper(
        out,
        *(trial.put(tensor) for tensor in (ends, drafts, targets, bonus)),
        None,
        3,
        None,
        None,
    )
    expected = torch.tensor([[4, 9, -1, -1], [21, -1, -1, -1], [7, 8, 22, -1]])
    trial.check("tokens", out, expected, EXACT)


@kernel_case(
    "vllm.v1.sample.rejection_sampler:_rejection_random_sample",
    kernels="rejection_random_sample_kernel",
    shapes="3 requests with 3, 0, 2 draft tokens, vocabulary 50",
)
def rejection_random(trial: Trial) -> None:
    drafts = trial.integers(0, 50, 5)
    draft_shares = torch.softmax(trial.randn(5, 50), dim=1)
    target_shares = torch.softmax(trial.randn(5, 50), dim=1)
    bonus = torch.tensor([[20], [21], [22]], dtype=torch.int32)
    recovered, uniform = trial.integers(0, 50, 5), trial.rand(5, dtype=torch.float64)
    ends = _DRAFTS.cumsum(0).to(torch.int32)
    out = trial.put(torch.full((3, 4), -1, dtype=torch.int32))
    operands = (ends, drafts, draft_shares, target_shares, bonus, recovered, uniform)
    trial.wrapper(
        out,
        *(trial.put(tensor) for tensor in operands),
        trial.put(torch.zeros(3, dtype=torch.bool)),
        3,
        None,
    )
    expected = torch.full((3, 4), -1)
    start = 0
    for request, count in enumerate(_DRAFTS.tolist()):
        accepted = True
        for place in range(start, start + count):
            token = int(drafts[place])
            ratio = target_shares[place, token].double() / draft_shares[place, token].double()
            accepted = bool(ratio >= uniform[place])
            expected[request, place - start] = token if accepted else recovered[place]
            if not accepted:
                break
        if accepted:
            expected[request, count] = bonus[request, 0]
        start += count
    trial.check("tokens", out, expected, EXACT)


@kernel_case(
    "vllm.v1.sample.rejection_sampler:expand_batch_to_tokens",
    kernels="expand_kernel",
    shapes="3 requests with 3, 0, 2 tokens",
    dtypes=(torch.float32, torch.int32),
)
def expand_batch(trial: Trial) -> None:
    x = torch.tensor([7, 8, 0]).to(trial.dtype)
    ends = _DRAFTS.cumsum(0).to(torch.int32)
    out = trial.wrapper(trial.put(x), trial.put(ends), 5, replace_from=0, replace_to=1)
    trial.check("expanded", out, torch.tensor([7, 7, 7, 1, 1]), EXACT)


@kernel_case(
    "vllm.v1.sample.rejection_sampler:_sample_recovered_tokens",
    kernels="sample_recovered_tokens_kernel",
    shapes="3 requests with 3, 0, 2 draft tokens, vocabulary 1500",
)
def recovered_tokens(trial: Trial) -> None:
    drafts = trial.integers(0, _VOCABULARY, 5)
    draft_shares = torch.softmax(trial.randn(5, _VOCABULARY), dim=1)
    target_shares = torch.softmax(trial.randn(5, _VOCABULARY), dim=1)
    inverse = 1 / trial.rand(3, _VOCABULARY)
    ends = _DRAFTS.cumsum(0).to(torch.int32)
    out = trial.empty(5, dtype=torch.int32)
    operands = (ends, drafts, draft_shares, target_shares, inverse)
    trial.wrapper(out, *(trial.put(tensor) for tensor in operands), max_spec_len=3)
    owner = torch.tensor([0, 0, 0, 2, 2])
    excess = (target_shares.double() - draft_shares.double()).clamp(min=0)
    trial.check("tokens", out, (excess * inverse.double()[owner]).argmax(dim=1), EXACT)
