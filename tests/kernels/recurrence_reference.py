"""The recurrences of state-space models and linear attention, token by token in float64."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from kernel_case import Tolerance, rounded

__all__ = ["decayed_attention", "delta_rule", "recurrence_tolerance", "starts"]


def starts(lengths: Sequence[int]) -> torch.Tensor:
    """Where each sequence starts, and the end."""
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


def recurrence_tolerance(dtype: torch.dtype) -> Tolerance:
    """Tolerance of what a state in f32 gives after some steps."""
    if dtype == torch.float32:
        return rounded(dtype, "exp and sums in f32 over all steps", ulps=8, sums=8)
    return rounded(dtype, "f32 state, rounded operands of the products", ulps=1, sums=2)


def delta_rule(
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


def decayed_attention(
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
