"""vLLM's Mamba and linear-attention kernels, against their recurrences, token by token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from kernel_case import EXACT, Tolerance, kernel_case, multiplied, rounded
from kernel_trial import Trial
from torch.nn import functional

_MAMBA = "vllm.model_executor.layers.mamba.ops"
_FLA = "vllm.third_party.flash_linear_attention.ops"
_HALVES = (torch.float16, torch.bfloat16)
_FLOATS = (torch.float32, *_HALVES)


def _starts(lengths: Sequence[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


def _recurrence_tolerance(dtype: torch.dtype) -> Tolerance:
    if dtype == torch.float32:
        return rounded(dtype, "exp and sums in f32 over all steps", ulps=8, sums=8)
    return rounded(dtype, "f32 state, rounded operands of the products", ulps=1, sums=2)


@kernel_case(
    f"{_MAMBA}.causal_conv1d:causal_conv1d_fn",
    kernels="_causal_conv1d_fwd_kernel",
    shapes="3 sequences of 1, 7, 21 tokens, 40 channels, width 4, bias, SiLU, initial states",
    dtypes=_FLOATS,
)
def causal_conv1d(trial: Trial) -> None:
    lengths = (1, 7, 21)
    x, weight, bias = trial.randn(29, 40), trial.randn(40, 4), trial.randn(40)
    states = trial.randn(6, 40, 3)
    slots = torch.tensor([4, 2, 1], dtype=torch.int32)
    has_state = torch.tensor([True, False, True])
    device_states = trial.put(states.transpose(1, 2).contiguous()).transpose(1, 2)
    out = trial.wrapper(
        trial.put(x).T,
        trial.put(weight),
        trial.put(bias),
        device_states,
        trial.put(_starts(lengths)),
        cache_indices=trial.put(slots),
        has_initial_state=trial.put(has_state),
        activation="silu",
    )
    expected, after = [], states.clone()
    start = 0
    for length, slot, has in zip(lengths, slots.tolist(), has_state.tolist(), strict=True):
        before = states[slot] if has else torch.zeros_like(states[slot])
        whole = torch.cat((before, x[start : start + length].T), dim=1)
        sums = functional.conv1d(
            whole.double()[None], weight.double()[:, None], bias.double(), groups=40
        )
        expected.append(functional.silu(sums[0]))
        after[slot] = whole[:, -3:]
        start += length
    tolerance = rounded(trial.dtype, "f32 sum of four, SiLU, rounded", ulps=2, sums=1)
    trial.check("out", out, torch.cat(expected, dim=1), tolerance)
    trial.check("states", device_states, after, EXACT)


@kernel_case(
    f"{_MAMBA}.causal_conv1d:causal_conv1d_update",
    kernels="_causal_conv1d_update_kernel",
    shapes="5 sequences, one token each, 300 channels, width 4, bias, SiLU",
    dtypes=_FLOATS,
)
def causal_conv1d_update(trial: Trial) -> None:
    x, weight, bias = trial.randn(5, 300), trial.randn(300, 4), trial.randn(300)
    states, slots = trial.randn(8, 300, 3), torch.tensor([4, 2, 7, 1, 5], dtype=torch.int32)
    device_states = trial.put(states)
    out = trial.wrapper(
        trial.put(x),
        device_states,
        trial.put(weight),
        trial.put(bias),
        activation="silu",
        conv_state_indices=trial.put(slots),
    )
    whole = torch.cat((states[slots.long()], x.unsqueeze(2)), dim=2)
    sums = (whole.double() * weight.double()).sum(dim=2) + bias.double()
    tolerance = rounded(trial.dtype, "f32 sum of four, SiLU, rounded", ulps=2, sums=1)
    trial.check("out", out, functional.silu(sums), tolerance)
    after = states.clone()
    after[slots.long()] = whole[..., 1:]
    trial.check("states", device_states, after, EXACT)


@kernel_case(
    f"{_MAMBA}.mamba_ssm:selective_state_update",
    kernels="_selective_scan_update_kernel",
    shapes="5 sequences, 4 heads of 24, states of 16, 2 groups, gate, softplus",
    dtypes=_FLOATS,
)
def selective_state_update(trial: Trial) -> None:
    heads, size, states = 4, 24, 16
    state = trial.randn(8, heads, size, states, dtype=torch.float32)
    x, dt, gate, d = (trial.randn(*s) for s in ((5, heads, size),) * 3 + ((heads, size),))
    dt_bias = trial.rand(heads, size) - 4
    decay = -trial.rand(heads, size, states, dtype=torch.float32)
    b, c = trial.randn(5, 2, states), trial.randn(5, 2, states)
    slots = torch.tensor([4, 2, 7, 1, 5], dtype=torch.int32)
    device_state, out = trial.put(state), trial.empty(5, heads, size)
    trial.wrapper(
        device_state,
        *(trial.put(tensor) for tensor in (x, dt, decay, b, c, d, dt_bias)),
        z=trial.put(gate),
        dt_softplus=True,
        state_batch_indices=trial.put(slots),
        out=out,
    )
    step = functional.softplus(dt.double() + dt_bias.double()).unsqueeze(3)
    wide_b = b.double().repeat_interleave(2, 1).unsqueeze(2)
    after = state.double()
    own = after[slots.long()] * torch.exp(step * decay.double())
    own += step * wide_b * x.double().unsqueeze(3)
    after[slots.long()] = own
    sums = (own * c.double().repeat_interleave(2, 1).unsqueeze(2)).sum(dim=3)
    y = (sums + x.double() * d.double()) * functional.silu(gate.double())
    tolerance = _recurrence_tolerance(trial.dtype)
    trial.check("out", out, y, tolerance)
    trial.check("state", device_state, after, _recurrence_tolerance(torch.float32))


@kernel_case(
    f"{_MAMBA}.ssd_combined:mamba_chunk_scan_combined_varlen",
    kernels=(
        "_chunk_cumsum_fwd_kernel",
        "_chunk_state_fwd_kernel",
        "_state_passing_fwd_kernel",
        "_bmm_chunk_fwd_kernel",
        "_chunk_scan_fwd_kernel",
    ),
    shapes="2 sequences of 50, 23 tokens, 4 heads of 24, states of 32, 2 groups, chunks of 32",
    dtypes=_FLOATS,
)
def mamba_chunk_scan(trial: Trial) -> None:
    lengths, heads, size, states = (50, 23), 4, 24, 32
    tokens = sum(lengths)
    x, gate = trial.randn(tokens, heads, size), trial.randn(tokens, heads, size)
    dt, dt_bias = trial.randn(tokens, heads), trial.rand(heads, dtype=torch.float32) - 3
    decay = -1 - trial.rand(heads, dtype=torch.float32)
    b, c = trial.randn(tokens, 2, states), trial.randn(tokens, 2, states)
    d = trial.randn(heads, dtype=torch.float32)
    initial = trial.randn(2, heads, size, states)
    out = trial.empty(tokens, heads, size)
    final = trial.wrapper(
        *(trial.put(tensor) for tensor in (x, dt, decay, b, c)),
        32,
        cu_seqlens=trial.put(_starts(lengths)),
        cu_chunk_seqlens=trial.put(torch.tensor([0, 32, 50, 73], dtype=torch.int32)),
        last_chunk_indices=trial.put(torch.tensor([1, 2], dtype=torch.int32)),
        seq_idx=trial.put(torch.tensor([0, 0, 1], dtype=torch.int32)),
        out=out,
        D=trial.put(d),
        z=trial.put(gate),
        dt_bias=trial.put(dt_bias),
        initial_states=trial.put(initial),
        dt_softplus=True,
    )
    step = functional.softplus(dt.double() + dt_bias.double())
    expected, last = torch.empty(tokens, heads, size, dtype=torch.float64), []
    start = 0
    for length, first in zip(lengths, initial.double(), strict=True):
        state = first
        for t in range(start, start + length):
            own_b, own_c = (tensor[t].double().repeat_interleave(2, 0) for tensor in (b, c))
            fresh = (step[t, :, None] * x[t].double())[..., None] * own_b[:, None]
            state = state * torch.exp(step[t] * decay.double())[:, None, None] + fresh
            expected[t] = (state * own_c[:, None]).sum(dim=2) + x[t].double() * d.double()[:, None]
        last.append(state)
        start += length
    tolerance = multiplied(trial.dtype, ulps=2, sums=2)
    trial.check("out", out, expected * functional.silu(gate.double()), tolerance)
    trial.check("states", final, torch.stack(last), tolerance)


@kernel_case(
    f"{_MAMBA}.layernorm_gated:rms_norm_gated",
    kernels="_layer_norm_fwd_1pass_kernel",
    shapes="7 rows of 3 groups of 100, gate",
    dtypes=_FLOATS,
    is_fast=True,
)
def mamba_rms_norm_gated(trial: Trial) -> None:
    x, z, weight = trial.randn(7, 300), trial.randn(7, 300), trial.randn(300)
    out = trial.wrapper(
        trial.put(x),
        trial.put(weight),
        None,
        z=trial.put(z),
        group_size=100,
        norm_before_gate=False,
    )
    gated = (x.double() * functional.silu(z.double())).reshape(7, 3, 100)
    normal = gated * torch.rsqrt(gated.square().mean(dim=2, keepdim=True) + 1e-6)
    tolerance = rounded(trial.dtype, "f32 sums, rounded", ulps=4 if _is_f32(trial) else 0.6, sums=1)
    trial.check("out", out, normal.reshape(7, 300) * weight.double(), tolerance)


def _is_f32(trial: Trial) -> bool:
    return trial.dtype == torch.float32


@kernel_case(
    f"{_MAMBA}.gather_initial_states:gather_initial_states",
    kernels="_gather_initial_states_kernel",
    shapes="5 of 8 states of 3 x 500, some without",
    dtypes=_FLOATS,
)
def gather_states(trial: Trial) -> None:
    states, slots = trial.randn(8, 3, 500), torch.tensor([4, 2, 7, 1, 5])
    has_state = torch.tensor([True, False, True, True, False])
    out = trial.wrapper(trial.put(states), trial.put(slots), trial.put(has_state))
    trial.check("states", out, states[slots] * has_state[:, None, None], EXACT)


@kernel_case(
    f"{_MAMBA}.scatter_states:scatter_states",
    kernels="_scatter_states_kernel",
    shapes="5 of 8 states of 3 x 500",
    dtypes=_FLOATS,
)
def scatter_states(trial: Trial) -> None:
    states, fresh = trial.randn(8, 3, 500), trial.randn(5, 3, 500)
    slots = torch.tensor([4, 2, 7, 1, 5])
    device_states = trial.put(states)
    trial.wrapper(device_states, trial.put(fresh), trial.put(slots))
    expected = states.clone()
    expected[slots] = fresh
    trial.check("states", device_states, expected, EXACT)


def _delta_rule(
    *,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gated delta rule of one sequence: [tokens, heads, size]; the state is [heads, V, K].

    `g` is the logarithm of the decay, one for each head or for each of its K channels.
    """
    q, k, v, g, beta, state = (tensor.double() for tensor in (q, k, v, g, beta, state))
    groups = v.shape[1] // k.shape[1]
    q, k = (tensor.repeat_interleave(groups, 1) for tensor in (q, k))
    out = torch.empty_like(v)
    for t in range(len(q)):
        decay = torch.exp(g[t])
        state = state * (decay[:, None, None] if decay.ndim == 1 else decay[:, None, :])
        fresh = beta[t, :, None] * (v[t] - torch.einsum("hvk,hk->hv", state, k[t]))
        state = state + fresh[..., None] * k[t][:, None]
        out[t] = torch.einsum("hvk,hk->hv", state, q[t]) * q.shape[-1] ** -0.5
    return out, state


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
    for index, start in enumerate(_starts(lengths)[:-1].tolist()):
        own = {key: tensor[0, start : start + lengths[index]] for key, tensor in inputs.items()}
        y, state = _delta_rule(**own, state=initial[index])
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
        cu_seqlens=trial.put(_starts(lengths)),
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
        cu_seqlens=trial.put(_starts(lengths)),
    )
    expected, after = [], []
    for index, start in enumerate((0, 1)):
        state = initial[index].double()
        for t in range(start, start + lengths[index]):
            own = {key: tensor[0, t : t + 1] for key, tensor in inputs.items()}
            y, state = _delta_rule(**own, state=state)
            expected.append(y)
            after.append(state)
    tolerance = _recurrence_tolerance(trial.dtype)
    trial.check("out", out[0], torch.cat(expected), tolerance)
    trial.check("states", states, torch.stack(after), _recurrence_tolerance(states.dtype))


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
        cu_seqlens=trial.put(_starts((1, 1, 1))),
        ssm_state_indices=trial.put(slots),
    )
    step = functional.softplus(a.double() + bias.double())
    inputs["g"] = (-torch.exp(log_decay.double()) * step)[None]
    inputs["beta"] = torch.sigmoid(b.double())[None]
    expected, after = [], initial.double()
    for t, slot in enumerate(slots.tolist()):
        own = {key: tensor[0, t : t + 1] for key, tensor in inputs.items()}
        y, after[slot] = _delta_rule(**own, state=after[slot])
        expected.append(y)
    trial.check("out", out[0], torch.cat(expected), _recurrence_tolerance(trial.dtype))
    trial.check("states", states, after, _recurrence_tolerance(torch.float32))


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
        cu_seqlens=trial.put(_starts(lengths)),
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
    tolerance = rounded(trial.dtype, "f32 sums, rounded", ulps=4 if _is_f32(trial) else 0.6)
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
    tolerance = rounded(trial.dtype, "f32 sums, rounded", ulps=4 if _is_f32(trial) else 0.6, sums=1)
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
    tolerance = rounded(trial.dtype, "f32 sums, rounded", ulps=4 if _is_f32(trial) else 0.6, sums=1)
    trial.check("out", out, normal * torch.sigmoid(gate.double()), tolerance)


def _decayed_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, slopes: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Linear attention, [batch, heads, tokens, size]: the state decays by exp(-slope) a token."""
    state = state.double()
    out = torch.empty_like(v, dtype=torch.float64)
    decay = torch.exp(-slopes.double())[:, None, None]
    for t in range(q.shape[2]):
        fresh = k[:, :, t, :, None].double() * v[:, :, t, None, :].double()
        state = state * decay + fresh
        out[:, :, t] = torch.einsum("bhk,bhkv->bhv", q[:, :, t].double(), state)
    return out, state


@kernel_case(
    "vllm.model_executor.layers.lightning_attn:lightning_attention",
    kernels=("_fwd_diag_kernel", "_fwd_kv_parallel", "_fwd_kv_reduce", "_fwd_none_diag_kernel"),
    shapes="1 sequence of 300 tokens, 2 heads of 64, with history",
    dtypes=_HALVES,
)
def lightning_attention(trial: Trial) -> None:
    q, k, v = (trial.randn(1, 2, 300, 64, scale=0.3) for _ in range(3))
    slopes = torch.tensor([0.05, 0.2])
    history = trial.randn(1, 2, 64, 64, dtype=torch.float32)
    out, state = trial.wrapper(
        *(trial.put(tensor) for tensor in (q, k, v, slopes)), kv_history=trial.put(history)
    )
    expected, last = _decayed_attention(q, k, v, slopes, history)
    tolerance = rounded(trial.dtype, "two rounded parts are added", ulps=1, sums=2)
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
    expected, last = _decayed_attention(q, k, v, slopes, states[slots.long()])
    after = states.double()
    after[slots.long()] = last
    tolerance = _recurrence_tolerance(trial.dtype)
    trial.check("out", out, expected.transpose(1, 2).reshape(3, 128), tolerance)
    trial.check("states", device_states, after, tolerance)
