"""Modules of vLLM, imported out of its unpacked wheel without vLLM's package.

The wheel is not installed: scripts/fetch_inputs.py unpacks the modules to the cache, and small
stand-ins answer for the two packages that they import, `vllm.platforms` and `vllm.triton_utils`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import triton
import triton.language
from server_cache import cache_folder

__all__ = ["VERSION", "import_module"]

VERSION = "0.33.0"


def _stand_in(name: str, **members: Any) -> ModuleType:
    module = ModuleType(name)
    for key, value in members.items():
        setattr(module, key, value)
    sys.modules[name] = module
    return module


def import_module(name: str) -> ModuleType:
    """Import a module of vLLM, such as `vllm.v1.attention.ops.triton_merge_attn_states`."""
    if "vllm" not in sys.modules:
        folder = cache_folder("inputs") / f"vllm-{VERSION}" / "vllm"
        if not folder.is_dir():
            raise FileNotFoundError(f"no {folder}: run scripts/fetch_inputs.py")
        # gfx942 has the fnuz formats only.
        platform = SimpleNamespace(fp8_dtype=lambda: torch.float8_e4m3fnuz)
        _stand_in(
            "vllm",
            __path__=[str(folder)],
            platforms=_stand_in("vllm.platforms", current_platform=platform),
            triton_utils=_stand_in("vllm.triton_utils", triton=triton, tl=triton.language),
        )
    return importlib.import_module(name)
