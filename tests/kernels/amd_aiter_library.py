"""AITER's wheel: its Triton operators, without the compiled ones."""

from __future__ import annotations

from kernel_library import Library

__all__ = ["LIBRARY"]

LIBRARY = Library(
    name="amd_aiter",
    version="0.1.7.post2.dev18",
    packages=("aiter",),
    stand_ins={"aiter.jit.utils.chip_info": lambda arch: {"get_gfx": lambda: arch}},
)
