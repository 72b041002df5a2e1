"""Ranking kernels by weight."""

from __future__ import annotations

import fnmatch

import pytest

from asmevo.capture.control_block import Statistics
from asmevo.capture.listing import Usage, exact_glob, heaviest, rank


def counted(launches: int, *, mean_ns: int = 0, graph_launches: int = 0) -> Statistics:
    samples = 2 if mean_ns else 0
    return Statistics(
        name_hash=1,
        launches=launches,
        graph_launches=graph_launches,
        samples=samples,
        sampled_ns=samples * mean_ns,
    )


def usage(**kernels: Statistics) -> Usage:
    return Usage(
        kernels=rank(kernels.items()), seconds=1.0, graph_launches=0, unknown_graph_launches=0
    )


def test_kernels_are_ranked_by_time_not_by_launches() -> None:
    found = usage(often=counted(900, mean_ns=10), long=counted(100, mean_ns=1000)).kernels

    assert [kernel.name for kernel in found] == ["long", "often"]
    assert found[0].share_of_time == pytest.approx(100000 / 109000)
    assert found[0].share_of_launches == pytest.approx(0.1)
    assert found[0].mean_us == 1.0


def test_launches_in_graphs_count_with_the_time_of_single_ones() -> None:
    found = usage(
        alone=counted(10, mean_ns=100), graphed=counted(2, mean_ns=100, graph_launches=98)
    ).kernels

    assert [kernel.name for kernel in found] == ["graphed", "alone"]


def test_kernel_that_was_never_timed_has_no_share_of_time() -> None:
    found = usage(timed=counted(1, mean_ns=5), untimed=counted(50)).kernels

    assert [(kernel.name, kernel.share_of_time) for kernel in found] == [
        ("timed", 1.0),
        ("untimed", None),
    ]


def test_heaviest_are_chosen_among_those_that_match() -> None:
    found = usage(
        **{f"gemm_{i}": counted(10, mean_ns=100 - i) for i in range(4)},
        other=counted(10, mean_ns=1000),
    )

    assert heaviest(found, 2, ("gemm_*",)) == ("gemm_0", "gemm_1")
    assert heaviest(found, 9, ("none",)) == ()


@pytest.mark.parametrize("name", ["plain", "void f<int [4]>(T*, bool?)", "x" * 600])
def test_exact_glob_matches_its_name(name: str) -> None:
    glob = exact_glob(name)

    assert fnmatch.fnmatchcase(name, glob)
    assert not fnmatch.fnmatchcase(f"a{name}", glob)
    assert len(glob.encode()) < 1024
