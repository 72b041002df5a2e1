"""vLLM's kernels of the model runner: input batches and speculative decoding. Integers only."""

from __future__ import annotations

import torch
from kernel_case import EXACT, kernel_case
from kernel_trial import Trial

_BATCH = "vllm.v1.worker.gpu.input_batch"
_SPECULATIVE = "vllm.v1.spec_decode.utils"
_INTEGERS = (torch.int32,)
_REQUESTS = torch.tensor([5, 0, 3], dtype=torch.int32)
"""Which of 6 requests are in the batch."""
_COUNTS = (7, 1, 1100)
"""Their tokens in this step."""
_STARTS = torch.tensor([0, 7, 8, 1108], dtype=torch.int32)


@kernel_case(
    f"{_BATCH}:prepare_prefill_inputs",
    kernels="_prepare_prefill_inputs_kernel",
    shapes="3 of 6 requests with 7, 1, 1100 tokens; the second decodes; 2 tokens ahead",
    dtypes=_INTEGERS,
)
def prepare_prefill_inputs(trial: Trial) -> None:
    tokens = trial.integers(0, 1000, 6, 1500)
    prefill = torch.tensor([4, 9, 9, 1103, 9, 30], dtype=torch.int32)
    computed = torch.tensor([4, 0, 0, 2, 0, 10], dtype=torch.int32)
    before = trial.integers(0, 1000, 1108), trial.integers(0, 1000, 2, 6)
    ids, ahead = trial.put(before[0]), trial.put(before[1])
    operands = (_REQUESTS, _STARTS, tokens, prefill, computed)
    trial.wrapper(ids, ahead, *(trial.put(tensor) for tensor in operands))
    expected, expected_ahead = before[0].clone(), before[1].clone()
    for request, count, start in ((5, 7, 0), (3, 1100, 8)):
        first = int(computed[request])
        expected[start : start + count] = tokens[request, first : first + count]
        for step in range(2):
            place = first + count + step
            follows = place < int(prefill[request])
            expected_ahead[step, request] = tokens[request, place] if follows else 0
    trial.check("tokens", ids, expected, EXACT)
    trial.check("tokens ahead", ahead, expected_ahead, EXACT)


@kernel_case(
    f"{_BATCH}:prepare_pos_seq_lens",
    kernels="_prepare_pos_seq_lens_kernel",
    shapes="3 of 6 requests with 7, 1, 1100 tokens",
    dtypes=_INTEGERS,
)
def prepare_positions(trial: Trial) -> None:
    computed = trial.integers(0, 50, 6)
    positions = trial.empty(1108, dtype=torch.int64)
    lengths = trial.empty(6, dtype=torch.int32)
    operands = (_REQUESTS, _STARTS, computed)
    trial.wrapper(*(trial.put(tensor) for tensor in operands), positions, lengths)
    own = computed[_REQUESTS.long()].tolist()
    expected = torch.cat([torch.arange(c) + first for c, first in zip(_COUNTS, own, strict=True)])
    trial.check("positions", positions, expected, EXACT)
    ends = [count + first for count, first in zip(_COUNTS, own, strict=True)]
    trial.check("lengths", lengths, torch.tensor([*ends, 0, 0, 0]), EXACT)


@kernel_case(
    f"{_BATCH}:expand_idx_mapping",
    kernels="_expand_idx_mapping_kernel",
    shapes="3 requests with 4, 1, 3 logits",
    dtypes=_INTEGERS,
)
def expand_requests(trial: Trial) -> None:
    starts = torch.tensor([0, 4, 5, 8], dtype=torch.int32)
    requests, places = trial.wrapper(trial.put(_REQUESTS), 8, trial.put(starts), 4)
    trial.check("requests", requests, torch.tensor([5, 5, 5, 5, 0, 3, 3, 3]), EXACT)
    trial.check("places", places, torch.tensor([0, 1, 2, 3, 0, 0, 1, 2]), EXACT)


@kernel_case(
    f"{_BATCH}:get_num_sampled_and_rejected",
    kernels="_get_num_sampled_and_rejected_kernel",
    shapes="3 requests, one of them in the middle of its prompt",
    dtypes=_INTEGERS,
)
def sampled_and_rejected(trial: Trial) -> None:
    sampled = trial.put(torch.tensor([2, 1, 1], dtype=torch.int32))
    lengths = torch.tensor([20, 9, 1100], dtype=torch.int32)
    starts = torch.tensor([0, 4, 5, 6], dtype=torch.int32)
    prefill = torch.tensor([4, 9, 9, 1103, 9, 12], dtype=torch.int32)
    operands = (lengths, starts, _REQUESTS, prefill)
    kept, rejected = trial.wrapper(sampled, *(trial.put(tensor) for tensor in operands))
    trial.check("sampled", kept, torch.tensor([2, 1, 0]), EXACT)
    trial.check("rejected", rejected, torch.tensor([2, 0, 0]), EXACT)


@kernel_case(
    f"{_BATCH}:post_update",
    kernels="_post_update_kernel",
    shapes="3 of 6 requests with 2, 0, 3 sampled tokens",
    dtypes=_INTEGERS,
)
def post_update(trial: Trial) -> None:
    computed, last = trial.integers(0, 50, 6), trial.integers(0, 90, 6, 1, dtype=torch.int64)
    counts, tokens = trial.integers(0, 3, 6, 90), trial.integers(0, 90, 6, 40)
    sampled = trial.integers(0, 90, 3, 3, dtype=torch.int64)
    numbers = torch.tensor([2, 0, 3], dtype=torch.int32)
    rejected = torch.tensor([1, 0, 0], dtype=torch.int32)
    lengths = torch.tensor([4, 9, 30, 12, 9, 12], dtype=torch.int32)
    state = [trial.put(tensor) for tensor in (computed, last, counts, tokens, lengths)]
    trial.wrapper(
        trial.put(_REQUESTS),
        *state[:3],
        trial.put(sampled),
        trial.put(numbers),
        trial.put(rejected),
        trial.put(_STARTS),
        *state[3:],
    )
    for row, request in enumerate(_REQUESTS.tolist()):
        count = int(numbers[row])
        fresh = sampled[row, :count]
        computed[request] += _COUNTS[row] - int(rejected[row])
        if count:
            last[request, 0] = fresh[-1]
        counts[request] += torch.bincount(fresh, minlength=90).to(torch.int32)
        tokens[request, lengths[request] : lengths[request] + count] = fresh.to(torch.int32)
        lengths[request] += count
    names = ("computed", "last", "counts", "tokens", "lengths")
    for name, result, expected in zip(
        names, state, (computed, last, counts, tokens, lengths), strict=True
    ):
        trial.check(name, result, expected, EXACT)


@kernel_case(
    f"{_SPECULATIVE}:eagle_step_update_slot_mapping_and_metadata",
    kernels="eagle_step_slot_mapping_metadata_kernel",
    shapes="4 requests padded to 6, pages of 16, one at the model's end",
    dtypes=_INTEGERS,
)
def eagle_step(trial: Trial) -> None:
    positions = torch.tensor([5, 15, 63, 30], dtype=torch.int64)
    table, lengths = trial.permutation(16).reshape(4, 4), (positions + 1).to(torch.int32)
    clamped, slots = trial.empty(4, dtype=torch.int64), trial.empty(6, dtype=torch.int64)
    device_lengths = trial.put(lengths)
    trial.wrapper(trial.put(positions), trial.put(table), device_lengths, 16, 64, clamped, slots, 6)
    after = torch.tensor([6, 16, 0, 31])
    trial.check("positions", clamped, after, EXACT)
    trial.check("lengths", device_lengths, torch.tensor([7, 17, 1, 32]), EXACT)
    expected = table[torch.arange(4), after // 16] * 16 + after % 16
    expected[2] = -1
    trial.check("slots", slots, torch.cat((expected, torch.tensor([-1, -1]))), EXACT)


@kernel_case(
    f"{_SPECULATIVE}:_eagle_prepare_inputs_padded",
    kernels="eagle_prepare_inputs_padded_kernel",
    shapes="4 requests with 3, 0, 2, 1 draft tokens",
    dtypes=_INTEGERS,
)
def eagle_prepare_inputs(trial: Trial) -> None:
    ends = torch.tensor([3, 3, 5, 6], dtype=torch.int32)
    valid = torch.tensor([2, 1, 3, 1], dtype=torch.int32)
    starts = torch.tensor([0, 4, 5, 8, 10], dtype=torch.int32)
    places, rejected = trial.empty(4, dtype=torch.int32), trial.empty(4, dtype=torch.int32)
    trial.wrapper(*(trial.put(t) for t in (ends, valid, starts)), places, rejected, 4)
    trial.check("rejected", rejected, torch.tensor([2, 0, 0, 1]), EXACT)
    trial.check("places", places, torch.tensor([1, 4, 7, 8]), EXACT)


@kernel_case(
    f"{_SPECULATIVE}:_eagle_prepare_next_token_padded",
    kernels="eagle_prepare_next_token_padded_kernel",
    shapes="4 requests with up to 3 sampled tokens, vocabulary 100",
    dtypes=_INTEGERS,
)
def eagle_next_token(trial: Trial) -> None:
    sampled = torch.tensor([[7, 8, -1], [-1, -1, -1], [1, 2, 3], [9, 100, -1]], dtype=torch.int32)
    discarded = torch.tensor([False, False, True, False])
    backup = torch.tensor([40, 41, 42, 43], dtype=torch.int32)
    tokens, counts = trial.empty(4, dtype=torch.int32), trial.empty(4, dtype=torch.int32)
    operands = (sampled, discarded, backup)
    trial.wrapper(
        *(trial.put(t) for t in operands), tokens, counts, 100, 3, 4, 3, BLOCK_SIZE_TOKENS=4
    )
    trial.check("tokens", tokens, torch.tensor([8, 41, 42, 9]), EXACT)
    trial.check("counts", counts, torch.tensor([2, 0, 0, 1]), EXACT)
