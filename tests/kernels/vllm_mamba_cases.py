"""vLLM's Mamba kernels, against their recurrences, token by token."""

from __future__ import annotations

import torch
from kernel_case import EXACT, kernel_case, multiplied, rounded
from kernel_trial import Trial
from recurrence_reference import recurrence_tolerance, starts
from torch.nn import functional

_MAMBA = "vllm.model_executor.layers.mamba.ops"
_HALVES = (torch.float16, torch.bfloat16)
_FLOATS = (torch.float32, *_HALVES)


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
        trial.put(starts(lengths)),
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
    tolerance = recurrence_tolerance(trial.dtype)
    trial.check("out", out, y, tolerance)
    trial.check("state", device_state, after, recurrence_tolerance(torch.float32))


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
        cu_seqlens=trial.put(starts(lengths)),
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
    tolerance = rounded(
        trial.dtype, "f32 sums, rounded", ulps=4 if trial.dtype == torch.float32 else 0.6, sums=1
    )
    trial.check("out", out, normal.reshape(7, 300) * weight.double(), tolerance)


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
