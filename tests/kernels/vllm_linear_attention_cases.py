"""vLLM's linear-attention kernels, against their recurrences, token by token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from kernel_case import kernel_case, multiplied, rounded
from kernel_trial import Trial
from recurrence_reference import decayed_attention, delta_rule, recurrence_tolerance, starts
from torch.nn import functional

_FLA = "vllm.third_party.flash_linear_attention.ops"
_HALVES = (torch.float16, torch.bfloat16)
_FLOATS = (torch.float32, *_HALVES)


def _delta_inputs(
    trial: Trial, tokens: int, *, heads: tuple[int, int] = (2, 4), sizes: tuple[int, int] = (64, 64)
) -> dict[str, torch.Tensor]:
    """Inputs of the delta rule, [1, tokens, heads, size], keys and queries of length 1."""
    q, k = (trial.randn(1, tokens, heads[0], sizes[0], dtype=torch.float32) for _ in range(2))
    return {
        "q": functional.normalize(q, dim=3).to(trial.dtype),
        "k": functional.normalize(k, dim=3).to(trial.dtype),
        "v": trial.randn(1, tokens, heads[1], sizes[1]),
        "g": -trial.rand(1, tokens, heads[1], dtype=torch.float32),
        "beta": trial.rand(1, tokens, heads[1]),
    }


def _check_delta_rule(
    trial: Trial,
    inputs: dict[str, torch.Tensor],
    lengths: Sequence[int],
    initial: torch.Tensor,
    results: tuple[torch.Tensor, torch.Tensor],
) -> None:
    """Compare output and final states with those of the recurrence."""
    expected, last = [], []
    for index, start in enumerate(starts(lengths)[:-1].tolist()):
        own = {key: tensor[0, start : start + lengths[index]] for key, tensor in inputs.items()}
        y, state = delta_rule(**own, state=initial[index])
        expected.append(y)
        last.append(state)
    tolerance = rounded(trial.dtype, "operands of each product are rounded", ulps=2, sums=3)
    trial.check("out", results[0][0], torch.cat(expected), tolerance)
    trial.check("state", results[1], torch.stack(last), tolerance)


@kernel_case(
    f"{_FLA}.chunk:chunk_gated_delta_rule",
    kernels=(
        "chunk_local_cumsum_scalar_kernel",
        "chunk_scaled_dot_kkt_fwd_kernel",
        "merge_16x16_to_64x64_inverse_kernel",
        "recompute_w_u_fwd_kernel",
        "chunk_gated_delta_rule_fwd_kernel_h_blockdim64",
        "chunk_fwd_kernel_o",
    ),
    shapes="2 sequences of 70, 33 tokens, 2 and 4 heads of 64, chunks of 64",
    dtypes=_HALVES,
)
def chunk_gated_delta_rule(trial: Trial) -> None:
    lengths = (70, 33)
    inputs, initial = _delta_inputs(trial, sum(lengths)), trial.randn(2, 4, 64, 64)
    out, final = trial.wrapper(
        **trial.put_all(inputs),
        initial_state=trial.put(initial),
        output_final_state=True,
        cu_seqlens=trial.put(starts(lengths)),
    )
    _check_delta_rule(trial, inputs, lengths, initial, (out, final))


@kernel_case(
    f"{_FLA}.fused_recurrent:fused_recurrent_gated_delta_rule",
    kernels="fused_recurrent_gated_delta_rule_fwd_kernel",
    shapes="2 sequences of 1, 6 tokens, 2 and 4 heads of 48",
    dtypes=_FLOATS,
)
def fused_recurrent_gated_delta_rule(trial: Trial) -> None:
    lengths = (1, 6)
    inputs = _delta_inputs(trial, 7, sizes=(48, 48))
    initial = trial.randn(2, 4, 48, 48, dtype=torch.float32)
    out, states = trial.wrapper(
        **trial.put_all(inputs),
        initial_state=trial.put(initial),
        inplace_final_state=False,
        cu_seqlens=trial.put(starts(lengths)),
    )
    expected, after = [], []
    for index, start in enumerate((0, 1)):
        state = initial[index].double()
        for t in range(start, start + lengths[index]):
            own = {key: tensor[0, t : t + 1] for key, tensor in inputs.items()}
            y, state = delta_rule(**own, state=state)
            expected.append(y)
            after.append(state)
    tolerance = recurrence_tolerance(trial.dtype)
    trial.check("out", out[0], torch.cat(expected), tolerance)
    trial.check("states", states, torch.stack(after), recurrence_tolerance(states.dtype))


@kernel_case(
    f"{_FLA}.fused_sigmoid_gating:fused_sigmoid_gating_delta_rule_update",
    kernels="fused_sigmoid_gating_delta_rule_update_kernel",
    shapes="3 sequences, one token each, 2 and 4 heads of 48, gates from a, b and dt",
    dtypes=_FLOATS,
)
def fused_sigmoid_gating(trial: Trial) -> None:
    inputs = _delta_inputs(trial, 3, sizes=(48, 48))
    a, b = trial.randn(3, 4), trial.randn(3, 4)
    log_decay, bias = trial.randn(4, dtype=torch.float32), trial.randn(4)
    initial = trial.randn(5, 4, 48, 48, dtype=torch.float32)
    slots = torch.tensor([3, 1, 4], dtype=torch.int32)
    states = trial.put(initial)
    out, _ = trial.wrapper(
        *(trial.put(tensor) for tensor in (log_decay, a, b, bias)),
        *(trial.put(inputs[name]) for name in ("q", "k", "v")),
        initial_state=states,
        cu_seqlens=trial.put(starts((1, 1, 1))),
        ssm_state_indices=trial.put(slots),
    )
    step = functional.softplus(a.double() + bias.double())
    inputs["g"] = (-torch.exp(log_decay.double()) * step)[None]
    inputs["beta"] = torch.sigmoid(b.double())[None]
    expected, after = [], initial.double()
    for t, slot in enumerate(slots.tolist()):
        own = {key: tensor[0, t : t + 1] for key, tensor in inputs.items()}
        y, after[slot] = delta_rule(**own, state=after[slot])
        expected.append(y)
    trial.check("out", out[0], torch.cat(expected), recurrence_tolerance(trial.dtype))
    trial.check("states", states, after, recurrence_tolerance(torch.float32))


@kernel_case(
    f"{_FLA}.kda:chunk_kda",
    kernels=(
        "chunk_local_cumsum_vector_kernel",
        "chunk_kda_scaled_dot_kkt_fwd_kernel_intra_sub_inter",
        "chunk_kda_scaled_dot_kkt_fwd_kernel_intra_sub_intra",
        "recompute_w_u_fwd_kernel",
        "chunk_gla_fwd_kernel_o",
    ),
    shapes="2 sequences of 70, 33 tokens, 2 heads of 64, a gate for each channel, chunks of 64",
    dtypes=(torch.bfloat16,),
)
def chunk_kda(trial: Trial) -> None:
    lengths = (70, 33)
    inputs = _delta_inputs(trial, sum(lengths), heads=(2, 2))
    inputs["g"] = -0.2 * trial.rand(1, 103, 2, 64, dtype=torch.float32)
    initial = trial.randn(2, 2, 64, 64, dtype=torch.float32)
    out, final = trial.wrapper(
        **trial.put_all(inputs),
        initial_state=trial.put(initial),
        output_final_state=True,
        cu_seqlens=trial.put(starts(lengths)),
    )
    _check_delta_rule(trial, inputs, lengths, initial, (out, final))


@kernel_case(
    f"{_FLA}.kda:fused_kda_gate",
    kernels="kda_gate_fwd_kernel",
    shapes="7 tokens, 3 heads of 40, bias",
    dtypes=_FLOATS,
)
def kda_gate(trial: Trial) -> None:
    g, log_decay = trial.randn(7, 120), trial.randn(3, dtype=torch.float32)
    bias = trial.randn(120, dtype=torch.float32)
    out = trial.wrapper(trial.put(g), trial.put(log_decay), 40, g_bias=trial.put(bias))
    step = functional.softplus(g.double() + bias.double()).reshape(7, 3, 40)
    tolerance = rounded(torch.float32, "log(1 + exp(x)) in f32", ulps=4, sums=1)
    trial.check("gate", out, -torch.exp(log_decay.double())[:, None] * step, tolerance)


def _cumsum_reference(g: torch.Tensor, chunk: int) -> torch.Tensor:
    return torch.cat([part.double().cumsum(1) for part in torch.split(g, chunk, dim=1)], dim=1)


@kernel_case(
    f"{_FLA}.cumsum:chunk_local_cumsum",
    kernels="chunk_local_cumsum_scalar_kernel",
    shapes="2 sequences of 150 tokens, 3 heads, chunks of 64",
    dtypes=(torch.float32, torch.bfloat16),
    is_fast=True,
)
def chunk_cumsum(trial: Trial) -> None:
    g = trial.randn(2, 150, 3)
    tolerance = rounded(torch.float32, "sums of 64 in f32", ulps=1, sums=4)
    trial.check("sums", trial.wrapper(trial.put(g), 64), _cumsum_reference(g, 64), tolerance)


@kernel_case(
    f"{_FLA}.cumsum:chunk_local_cumsum",
    kernels="chunk_local_cumsum_vector_kernel",
    shapes="2 sequences of 150 tokens, 3 heads of 40, chunks of 64",
    dtypes=(torch.float32, torch.bfloat16),
)
def chunk_cumsum_vector(trial: Trial) -> None:
    g = trial.randn(2, 150, 3, 40)
    tolerance = rounded(torch.float32, "sums of 64 in f32", ulps=1, sums=4)
    trial.check("sums", trial.wrapper(trial.put(g), 64), _cumsum_reference(g, 64), tolerance)


def _solve_tril(trial: Trial, chunk: int) -> None:
    tokens = 2 * chunk + 5
    a = torch.zeros(1, tokens, 2, chunk)
    expected = torch.zeros(1, tokens, 2, chunk, dtype=torch.float64)
    for start in range(0, tokens, chunk):
        rows = min(chunk, tokens - start)
        for head in range(2):
            lower = trial.randn(rows, rows, scale=0.2).tril(-1)
            a[0, start : start + rows, head, :rows] = lower
            inverse = torch.linalg.inv(torch.eye(rows, dtype=torch.float64) + lower.double())
            expected[0, start : start + rows, head, :rows] = inverse
    tolerance = rounded(torch.float32, "substitution in f32, products by f32 tiles", sums=32)
    trial.check("inverse", trial.wrapper(trial.put(a)), expected, tolerance)


@kernel_case(
    f"{_FLA}.solve_tril:solve_tril",
    kernels="solve_tril_16x16_kernel",
    shapes="37 tokens, 2 heads, triangles of 16",
)
def solve_tril_16(trial: Trial) -> None:
    _solve_tril(trial, 16)


@kernel_case(
    f"{_FLA}.solve_tril:solve_tril",
    kernels="merge_16x16_to_32x32_inverse_kernel",
    shapes="69 tokens, 2 heads, triangles of 32",
)
def solve_tril_32(trial: Trial) -> None:
    _solve_tril(trial, 32)


@kernel_case(
    f"{_FLA}.solve_tril:solve_tril",
    kernels="merge_16x16_to_64x64_inverse_kernel",
    shapes="133 tokens, 2 heads, triangles of 64",
)
def solve_tril_64(trial: Trial) -> None:
    _solve_tril(trial, 64)


@kernel_case(
    f"{_FLA}.l2norm:l2norm_fwd",
    kernels="l2norm_fwd_kernel2",
    shapes="37 rows of 100",
    dtypes=_FLOATS,
)
def l2norm(trial: Trial) -> None:
    x = trial.randn(37, 100)
    wide = x.double()
    expected = wide * torch.rsqrt(wide.square().sum(dim=1, keepdim=True) + 1e-6)
    tolerance = rounded(
        trial.dtype, "f32 sums, rounded", ulps=4 if trial.dtype == torch.float32 else 0.6
    )
    trial.check("out", trial.wrapper(trial.put(x)), expected, tolerance)


@kernel_case(
    f"{_FLA}.layernorm_guard:layernorm_fn",
    kernels="layer_norm_fwd_kernel",
    shapes="7 rows of 200, bias, gate",
    dtypes=_FLOATS,
)
def layer_norm_gated(trial: Trial) -> None:
    x, z, weight, bias = (
        trial.randn(7, 200),
        trial.randn(7, 200),
        trial.randn(200),
        trial.randn(200),
    )
    out = trial.wrapper(*(trial.put(tensor) for tensor in (x, weight, bias)), z=trial.put(z))
    normal = functional.layer_norm(x.double(), (200,), weight.double(), bias.double(), 1e-6)
    tolerance = rounded(
        trial.dtype, "f32 sums, rounded", ulps=4 if trial.dtype == torch.float32 else 0.6, sums=1
    )
    trial.check("out", out, normal * functional.silu(z.double()), tolerance)


@kernel_case(
    f"{_FLA}.kda:rms_norm_gated",
    kernels="layer_norm_gated_fwd_kernel",
    shapes="37 rows of 100, sigmoid gate",
    dtypes=_FLOATS,
)
def kda_rms_norm_gated(trial: Trial) -> None:
    x, gate, weight = trial.randn(37, 100), trial.randn(37, 100), trial.randn(100)
    out = trial.wrapper(
        trial.put(x), trial.put(gate), trial.put(weight), None, activation="sigmoid"
    )
    wide = x.double()
    normal = wide * torch.rsqrt(wide.square().mean(dim=1, keepdim=True) + 1e-6) * weight.double()
    tolerance = rounded(
        trial.dtype, "f32 sums, rounded", ulps=4 if trial.dtype == torch.float32 else 0.6, sums=1
    )
    trial.check("out", out, normal * torch.sigmoid(gate.double()), tolerance)


@kernel_case(
    "vllm.model_executor.layers.lightning_attn:lightning_attention",
    kernels=("_fwd_diag_kernel", "_fwd_kv_parallel", "_fwd_kv_reduce", "_fwd_none_diag_kernel"),
    shapes="1 sequence of 200 tokens, 2 heads of 64",
    dtypes=(torch.float32,),  # as MiniMax calls it
)
def lightning_attention(trial: Trial) -> None:
    q, k, v = (trial.randn(1, 2, 200, 64, scale=0.3) for _ in range(3))
    slopes = torch.tensor([0.05, 0.2])
    # The kernel decays what comes from before a block of 256 tokens by one step less.
    history = torch.zeros(1, 2, 64, 64)
    out, state = trial.wrapper(
        *(trial.put(tensor) for tensor in (q, k, v, slopes)), kv_history=trial.put(history)
    )
    expected, last = decayed_attention(q, k, v, slopes, history)
    tolerance = multiplied(trial.dtype)
    trial.check("out", out, expected, tolerance)
    trial.check("state", state[:, :, -1], last, tolerance)


@kernel_case(
    "vllm.model_executor.layers.lightning_attn:linear_decode_forward_triton",
    kernels="_linear_attn_decode_kernel",
    shapes="3 sequences, one token each, 2 heads of 64",
    dtypes=_FLOATS,
)
def linear_attention_decode(trial: Trial) -> None:
    q, k, v = (trial.randn(3, 2, 1, 64) for _ in range(3))
    slopes, slots = torch.tensor([0.05, 0.2]), torch.tensor([3, 1, 4], dtype=torch.int32)
    states = trial.randn(5, 2, 64, 64, dtype=torch.float32)
    device_states = trial.put(states)
    out = trial.wrapper(
        *(trial.put(tensor) for tensor in (q, k, v)),
        device_states,
        trial.put(slopes),
        trial.put(slots),
    )
    expected, last = decayed_attention(q, k, v, slopes, states[slots.long()])
    after = states.double()
    after[slots.long()] = last
    tolerance = recurrence_tolerance(trial.dtype)
    trial.check("out", out, expected.transpose(1, 2).reshape(3, 128), tolerance)
    trial.check("states", device_states, after, tolerance)
