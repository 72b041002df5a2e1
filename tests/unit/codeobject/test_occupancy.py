"""How many waves a compute unit holds; the device's own count is compared in tests/unit/replay."""

from __future__ import annotations

import pytest

from asmevo.codeobject.occupancy import Occupancy, compute_occupancy
from asmevo.codeobject.resource_records import Resources
from asmevo.errors import UsageError


def occupancy(
    *,
    vgprs: int = 8,
    sgprs: int = 16,
    lds: int = 0,
    size: int = 64,
    dynamic: int = 0,
    target: str = "gfx942",
) -> Occupancy:
    resources = Resources(
        accum_offset=4,
        allocated_vgprs=vgprs,
        allocated_sgprs=sgprs,
        group_segment_size=lds,
        private_segment_size=0,
    )
    return compute_occupancy(resources, target, workgroup_size=size, dynamic_lds=dynamic)


@pytest.mark.parametrize(
    ("vgprs", "waves"),
    [
        *((8, 8), (64, 8), (72, 7), (80, 6), (96, 5), (128, 4), (136, 3), (168, 3), (176, 2)),
        *((256, 2), (264, 1), (512, 1)),
    ],
)
def test_waves_fall_in_the_known_steps_of_vgprs(vgprs: int, waves: int) -> None:
    found = occupancy(vgprs=vgprs)

    assert found.waves_per_simd == waves
    assert found.workgroups == 4 * waves
    assert found.limit == ("waves" if waves == 8 else "vgprs")


def test_waves_of_a_workgroup_are_rounded_up() -> None:
    assert occupancy(vgprs=128, size=65).workgroups == 8
    assert occupancy(vgprs=128, size=1024) == Occupancy(
        workgroups=1, waves_per_simd=4, limit="vgprs"
    )
    assert occupancy(vgprs=264, size=1024).workgroups == 0


def test_sgprs_limit_above_96() -> None:
    assert occupancy(sgprs=96).waves_per_simd == 8
    assert occupancy(sgprs=112) == Occupancy(workgroups=28, waves_per_simd=7, limit="sgprs")


def test_lds_counts_in_granules_with_what_a_launch_adds() -> None:
    assert occupancy(lds=8192).workgroups == 8
    assert occupancy(lds=8192, dynamic=1).workgroups == 7
    assert occupancy(lds=65536).limit == "lds"
    assert occupancy(lds=32768, dynamic=32769).workgroups == 0
    assert occupancy(lds=65536, target="gfx950").workgroups == 2
    assert occupancy(lds=1281, target="gfx950").workgroups == 32


def test_barriers_limit_small_workgroups_of_several_waves() -> None:
    assert occupancy(size=128).workgroups == 16
    assert occupancy(size=64).workgroups == 32


def test_what_no_launch_has_is_refused() -> None:
    for size, dynamic, target in ((0, 0, "gfx942"), (1025, 0, "gfx942"), (64, -1, "gfx942")):
        with pytest.raises(UsageError):
            occupancy(size=size, dynamic=dynamic, target=target)
    with pytest.raises(UsageError, match="gfx908"):
        occupancy(target="gfx908")
