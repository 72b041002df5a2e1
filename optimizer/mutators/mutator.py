"""What a mutator is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from asmevo.optimizer.kernel_view import KernelView
from asmevo.optimizer.proposal import Proposal

__all__ = ["Mutator"]


class Mutator(Protocol):
    """Proposes edits of one mechanism that the analyses prove legal.

    All proposals of one call may be applied at once, unless `is_combinable` is False.
    """

    id: str
    """Row of the rewrite catalogue: `W1`, `S2`, …"""
    title: str
    is_combinable: bool
    is_monotone: bool
    """Each proposal only takes work away: when all together are not faster, none is alone."""

    def propose(self, view: KernelView) -> Iterator[Proposal]:
        """Proposals for the kernel as it is in the view, the most promising first."""
        ...
