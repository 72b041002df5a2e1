"""What every mutator proposes for random kernels does the same on the emulated device."""

from __future__ import annotations

import numpy as np
import pytest
from test_analyses_on_device import build_random, outputs

from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover
from asmevo.optimizer.kernel_view import KernelView, view_kernel
from asmevo.optimizer.mutators import MUTATORS, Mutator
from asmevo.optimizer.proposal import apply_edits


def view_without_hazards(seed: int) -> KernelView:
    """A random kernel with the nops that its hazards need."""
    listing = recover(build_random(seed))
    view = view_kernel(listing, "kernel")
    while view.hazards:
        missing = {one.consumer: one.required - one.actual for one in view.hazards}
        for consumer, states in missing.items():
            text = listing.instruction(consumer).text
            listing = listing.replace(consumer, [f"s_nop {min(states, 16) - 1}", text])
        view = view_kernel(listing, "kernel")
    return view_kernel(recover(rebuild_listing(listing)), "kernel")


@pytest.mark.parametrize("mutator", MUTATORS, ids=lambda one: one.id)
def test_proposals_for_random_kernels_change_no_output(mutator: Mutator) -> None:
    proposed = 0
    for seed in range(3):
        view = view_without_hazards(seed)
        proposals = list(mutator.propose(view))[:30]
        groups = [proposals] if mutator.is_combinable else [[one] for one in proposals[:4]]
        for group in filter(None, groups):
            edits = [edit for proposal in group for edit in proposal.edits]
            listing = apply_edits(view.listing, edits)
            assert np.array_equal(outputs(listing), outputs(view.listing)), (seed, edits)
            proposed += 1
    assert proposed or mutator.id in ("W5", "W6")
