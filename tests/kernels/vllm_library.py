"""vLLM's wheel: what its kernels' wrappers ask of the rest of vLLM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from kernel_library import Library, Unavailable

__all__ = ["LIBRARY"]

_VERSION = "0.33.0"
_LDS_BYTES = {"gfx942": 64 << 10, "gfx950": 160 << 10}
_COMPUTE_UNITS = {"gfx942": 304, "gfx950": 256}


class _Capability(NamedTuple):
    major: int
    minor: int

    def to_int(self) -> int:
        return self.major * 10 + self.minor


class _EmulatedRocm:
    """Answers as vLLM's ROCm platform does on an MI300X or MI355X."""

    device_type = "cuda"
    device_name = "rocm"
    dispatch_key = "CUDA"
    simple_compile_backend = "eager"

    def __init__(self, arch: str) -> None:
        self._arch = arch

    def __getattr__(self, name: str) -> Any:
        # is_cuda, is_xpu, is_cpu, …: this is none of them.
        if name.startswith("is_"):
            return lambda *args: False
        raise AttributeError(name)

    def is_rocm(self) -> bool:
        return True

    def is_cuda_alike(self) -> bool:
        return True

    def is_fp8_fnuz(self) -> bool:
        return self._arch == "gfx942"

    def fp8_dtype(self) -> torch.dtype:
        return torch.float8_e4m3fnuz if self._arch == "gfx942" else torch.float8_e4m3fn

    def supports_fp8(self) -> bool:
        return True

    def supports_mx(self) -> bool:
        return self._arch == "gfx950"

    def get_device_capability(self, device_id: int = 0) -> _Capability:
        return _Capability(9, 5 if self._arch == "gfx950" else 4)

    def has_device_capability(self, capability: Any, device_id: int = 0) -> bool:
        asked = capability if isinstance(capability, int) else capability[0] * 10 + capability[1]
        return self.get_device_capability().to_int() >= asked

    def num_compute_units(self, device_id: int = 0) -> int:
        return _COMPUTE_UNITS[self._arch]

    def get_device_name(self, device_id: int = 0) -> str:
        return "AMD_Instinct_MI355X" if self._arch == "gfx950" else "AMD_Instinct_MI300X"

    def is_pin_memory_available(self) -> bool:
        return True


def _platforms(arch: str) -> Mapping[str, Any]:
    return {
        "current_platform": _EmulatedRocm(arch),
        "vllm_version_matches_substr": lambda part: part in _VERSION,
        "Platform": _EmulatedRocm,
        "CpuArchEnum": Unavailable("CpuArchEnum"),
    }


def _rocm_platform(arch: str) -> Mapping[str, Any]:
    is_950 = arch == "gfx950"
    absent = ("gfx1x", "gfx11", "gfx12x", "gfx1100", "gfx1250", "rdna4")
    members: dict[str, Any] = {f"on_{name}": (lambda: False) for name in absent}
    return members | {
        "on_gfx9": lambda: True,
        "on_mi3xx": lambda: True,
        "on_gfx942": lambda: not is_950,
        "on_gfx950": lambda: is_950,
        "_ON_GFX950": is_950,
        # The compiled attention of ROCm builds is not part of this wheel.
        "use_rocm_custom_paged_attention": lambda *args: False,
        "get_cdna_version": lambda: 4 if is_950 else 3,
        "get_rdna_version": lambda: -1,
    }


def _vllm_platform_interface(arch: str) -> Mapping[str, Any]:
    return {"DeviceCapability": _Capability, "Platform": _EmulatedRocm}


LIBRARY = Library(
    name="vllm",
    version=_VERSION,
    packages=("vllm",),
    started_packages=frozenset(
        {
            "vllm.triton_utils",
            "vllm.logging_utils",
            "vllm.utils",
            "vllm.third_party.triton_kernels",
            "vllm.model_executor.layers.quantization.utils",
        }
    ),
    unavailable=(
        "vllm._custom_ops",
        "vllm._aiter_ops",
        "vllm._C",
        "vllm.compilation",
        "vllm.config",
        "vllm.distributed",
        "vllm.engine",
        "vllm.entrypoints",
        "vllm.forward_context",
        "vllm.model_executor.custom_op",
        "vllm.model_executor.models",
        "vllm.model_executor.parameter",
        "vllm.multimodal",
        "vllm.sampling_params",
        "vllm.transformers_utils",
        "vllm.utils.deep_gemm",
        "vllm.utils.flashinfer",
        "vllm.v1.utils",
        "vllm.lora.request",
        "vllm.pooling_params",
        "msgspec",
        "psutil",
        "transformers",
    ),
    stand_ins={
        "regex": lambda arch: vars(re),
        "vllm.platforms": _platforms,
        # The compiled operations are absent; this one is a question to the runtime.
        "vllm._custom_ops": lambda arch: {
            "get_max_shared_memory_per_block_device_attribute": lambda device: _LDS_BYTES[arch]
        },
        # No plugin brings cache types of its own.
        "vllm.config.cache": lambda arch: {"get_kv_cache_dtype_handler": lambda dtype: None},
        # vLLM's logger asks which process may log.
        "vllm.distributed.parallel_state": lambda arch: {
            "is_local_first_rank": lambda: True,
            "is_global_first_rank": lambda: True,
        },
        "vllm.platforms.rocm": _rocm_platform,
        "vllm.triton_utils.importing": lambda arch: {
            "HAS_TRITON": True,
            "TritonPlaceholder": None,
            "TritonLanguagePlaceholder": None,
        },
        "vllm.platforms.interface": _vllm_platform_interface,
    },
    needs=("einops-0.8.2",),
    environment={
        "VLLM_TRITON_FORCE_FIRST_CONFIG": "1",
        "VLLM_CONFIGURE_LOGGING": "0",
        "VLLM_NO_USAGE_STATS": "1",
    },
)
