"""The libraries that are loaded into targets need an old glibc and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from asmevo.native import capture_library, capture_preload_library

# Of RHEL 7 and manylinux2014.
NEWEST = (2, 17)


@pytest.mark.parametrize("library", [capture_library, capture_preload_library])
def test_library_needs_an_old_glibc_only(library: Callable[[], Path]) -> None:
    with library().open("rb") as file:
        elf: Any = ELFFile(file)
        needed = [tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
        versions = [
            auxiliary.name
            for _, auxiliaries in elf.get_section_by_name(".gnu.version_r").iter_versions()
            for auxiliary in auxiliaries
        ]

    assert set(needed) <= {"libc.so.6", "ld-linux-x86-64.so.2"}
    for version in versions:
        name, _, number = version.partition("_")
        assert name == "GLIBC"
        assert tuple(map(int, number.split("."))) <= NEWEST, version
