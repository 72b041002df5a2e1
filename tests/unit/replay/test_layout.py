from __future__ import annotations

import pytest

from asmevo.capture.manifest import Entry, Region, RegionKind
from asmevo.errors import ReplayError
from asmevo.replay.layout import Memory, plan_hold, plan_mappings

_BASE = 0x7E0000000000


def _region(index: int, offset: int, size: int, *, kind: RegionKind = RegionKind.DEVICE) -> Region:
    entry = Entry(name=f"region-{index}.zst", size_bytes=size, sha256="0" * 64)
    return Region(
        index=index,
        address=_BASE + offset,
        size_bytes=size,
        kind=kind,
        pointers=(),
        before=entry,
        after=None,
    )


def test_plan_of_distant_regions_rounds_each_to_granules() -> None:
    regions = [_region(0, 0x10100, 0x1000), _region(1, 0x0, 1)]

    low, high = plan_mappings(regions, device_granularity=0x1000)

    assert (low.address, low.size_bytes) == (_BASE, 0x1000)
    assert (high.address, high.size_bytes) == (_BASE + 0x10000, 0x2000)
    assert [region.index for region in low.regions + high.regions] == [1, 0]


def test_plan_of_regions_in_one_granule_merges_them() -> None:
    regions = [_region(0, 0x100, 0x200), _region(1, 0x800, 0x1000), _region(2, 0x1C00, 0x10)]

    (mapping,) = plan_mappings(regions, device_granularity=0x1000)

    assert (mapping.address, mapping.size_bytes) == (_BASE, 0x2000)
    assert [region.index for region in mapping.regions] == [0, 1, 2]


def test_plan_of_adjacent_granules_keeps_mappings_apart() -> None:
    regions = [_region(0, 0, 0x1000), _region(1, 0x1000, 0x1000)]

    assert len(plan_mappings(regions, device_granularity=0x1000)) == 2


def test_guards_cover_exactly_what_no_region_does() -> None:
    regions = [_region(0, 0x100, 0x200), _region(1, 0x300, 0x100), _region(2, 0x800, 0x10)]

    (mapping,) = plan_mappings(regions, device_granularity=0x1000)

    spans = [(guard.address - _BASE, guard.size_bytes) for guard in mapping.guards()]
    assert spans == [(0, 0x100), (0x400, 0x400), (0x810, 0x7F0)]
    assert [(guard.region, guard.edge - _BASE) for guard in mapping.guards()] == [
        (0, 0x100),
        (1, 0x400),
        (2, 0x810),
    ]


def test_guards_of_full_mapping_are_none() -> None:
    (mapping,) = plan_mappings([_region(0, 0, 0x1000)], device_granularity=0x1000)

    assert mapping.guards() == ()


def test_plan_of_pinned_memory_uses_pages_whatever_the_device_uses() -> None:
    region = _region(0, 0x1000, 0x10, kind=RegionKind.PINNED_HOST)

    (mapping,) = plan_mappings([region], device_granularity=0x200000)

    assert (mapping.address, mapping.size_bytes) == (_BASE + 0x1000, 0x1000)
    assert mapping.memory is Memory.PINNED


def test_plan_of_two_kinds_in_one_granule_is_refused() -> None:
    regions = [_region(0, 0, 8), _region(1, 0x1000, 8, kind=RegionKind.PINNED_HOST)]

    with pytest.raises(ReplayError, match=r"regions 0 .* and 1 .* share a granule"):
        plan_mappings(regions, device_granularity=0x200000)


def test_plan_leaves_module_globals_to_the_loader() -> None:
    regions = [_region(0, 0, 8, kind=RegionKind.MODULE_GLOBAL), _region(1, 0x1000, 8)]

    (mapping,) = plan_mappings(regions, device_granularity=4096)

    assert mapping.regions == (regions[1],)


def test_hold_covers_large_granules_where_one_kind_of_memory_is_in_them() -> None:
    alone = [_region(0, 0x1000, 8)]
    mixed = [*alone, _region(1, 0x3000, 8, kind=RegionKind.PINNED_HOST)]

    assert [one.size_bytes for one in plan_hold(alone)] == [2 << 20]
    assert [one.size_bytes for one in plan_hold(mixed)] == [0x1000, 0x1000]


def test_plan_beyond_the_address_space_is_refused() -> None:
    region = _region(0, (1 << 64) - 1 - _BASE - 8, 8)

    with pytest.raises(ReplayError, match="beyond the address space"):
        plan_mappings([region], device_granularity=3 << 20)
