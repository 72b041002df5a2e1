"""SGLang's wheel: what its kernels' wrappers ask of the rest of SGLang and of other packages."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping
from types import SimpleNamespace
from typing import Any, dataclass_transform

import torch
from kernel_library import Library

__all__ = ["LIBRARY"]


class _AllBut(Container[str]):
    """All packages but one, whose start-up would import the whole serving engine."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __contains__(self, name: object) -> bool:
        return name != self._name


@dataclass_transform()
class _Struct:
    """As msgspec.Struct for what the wrappers do with it: a record with fields and defaults."""

    def __init_subclass__(
        cls, *, frozen: bool = False, kw_only: bool = False, **encoding: object
    ) -> None:
        dataclasses.dataclass(frozen=frozen, kw_only=kw_only)(cls)


def _msgspec(arch: str) -> Mapping[str, Any]:
    return {"Struct": _Struct, "field": dataclasses.field}


def _runtime_context(arch: str) -> Mapping[str, Any]:
    """A server of one device: no NVIDIA architecture, no data-parallel attention."""
    platform = SimpleNamespace(is_sm90=False, is_blackwell=False)
    flags = SimpleNamespace(dp=SimpleNamespace(enabled=False))
    return {
        "get_platform": lambda: platform,
        "get_flags": lambda: flags,
    }


def _prepare(arch: str) -> None:
    """SGLang takes its ROCm paths where torch says that it was built for HIP."""
    if torch.version.hip is None:
        torch.version.hip = "7.2.0"


LIBRARY = Library(
    name="sglang",
    version="0.5.23",
    packages=("sglang",),
    started_packages=_AllBut("sglang"),
    unavailable=(
        "IPython",
        "PIL",
        "aiohttp",
        "aiter",
        "compressed_tensors",
        "huggingface_hub",
        "openai",
        "orjson",
        "psutil",
        "pybase64",
        "regex",
        "requests",
        "sgl_kernel",
        "sglang.kernels.jit.utils.compile",
        "sglang.srt.arg_groups",
        "sglang.srt.configs",
        "sglang.srt.entrypoints",
        "sglang.srt.utils.hf_transformers_utils",
        "sglang.srt.utils.msgspec_utils",
        "sglang.srt.runtime_context",
        "sglang.srt.server_args",
        "starlette",
        "transformers",
        "torchvision",
        "tqdm",
        "tvm_ffi",
        "zmq",
    ),
    stand_ins={"msgspec": _msgspec, "sglang.srt.runtime_context": _runtime_context},
    needs=("einops-0.8.2",),
    prepare=_prepare,
)
