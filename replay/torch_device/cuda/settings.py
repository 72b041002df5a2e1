"""Settings of GPU libraries that do not exist here: kept and given back, without any effect.

Matrix products of torch run on the CPU, so there is no workspace, no TunableOp and no MIOpen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .refusal import NotCoveredError

__all__ = ["BINDINGS"]

_values: dict[str, int] = {
    "sync_debug_mode": 0,
    "benchmark_limit": 10,
    "benchmark_empty_cache": 0,
    "blas_workspace": 0,
    "blas_lt_workspace": 0,
}


def _getter(name: str, kind: Callable[[int], Any] = int) -> Callable[[], Any]:
    return lambda: kind(_values[name])


def _setter(name: str) -> Callable[[int], None]:
    def set_value(value: int) -> None:
        _values[name] = int(value)

    return set_value


def _resetter(name: str) -> Callable[[], None]:
    return lambda: _setter(name)(0)


def set_sync_debug_mode(mode: int) -> None:
    """Only the default is covered: nothing here tells a synchronizing operation from another."""
    if mode:
        raise NotCoveredError(f"torch.cuda.set_sync_debug_mode({mode})")


def _refuse_enabling(name: str) -> Callable[[bool], None]:
    def enable(value: bool) -> None:
        if value:
            raise NotCoveredError(name)

    return enable


BINDINGS: dict[str, Callable[..., Any]] = {
    "_cuda_clearCublasWorkspaces": lambda: None,
    "_cuda_getCompiledVersion": lambda: 0,
    "_cuda_getCublasLtWorkspaceSize": _getter("blas_lt_workspace"),
    "_cuda_getCublasWorkspaceSize": _getter("blas_workspace"),
    "_cuda_get_conv_benchmark_empty_cache": _getter("benchmark_empty_cache", bool),
    "_cuda_get_cudnn_benchmark_limit": _getter("benchmark_limit"),
    "_cuda_get_sync_debug_mode": _getter("sync_debug_mode"),
    "_cuda_getMemoryMetadata": lambda: "",
    "_cuda_isHistoryEnabled": lambda: False,
    "_cuda_record_untuned_enable": _refuse_enabling("torch.cuda.tunable.record_untuned_enable"),
    "_cuda_record_untuned_is_enabled": lambda: False,
    "_cuda_resetCublasLtWorkspaceSize": _resetter("blas_lt_workspace"),
    "_cuda_resetCublasWorkspaceSize": _resetter("blas_workspace"),
    "_cuda_setCublasLtWorkspaceSize": _setter("blas_lt_workspace"),
    "_cuda_setCublasWorkspaceSize": _setter("blas_workspace"),
    "_cuda_setMemoryMetadata": lambda metadata: None,
    "_cuda_set_cudnn_benchmark_limit": _setter("benchmark_limit"),
    "_cuda_set_sync_debug_mode": set_sync_debug_mode,
    "_cuda_tunableop_enable": _refuse_enabling("torch.cuda.tunable.enable"),
    "_cuda_tunableop_is_enabled": lambda: False,
    "_cuda_tunableop_tuning_enable": _refuse_enabling("torch.cuda.tunable.tuning_enable"),
    "_cuda_tunableop_tuning_is_enabled": lambda: False,
    "_cudnn_set_conv_benchmark_empty_cache": _setter("benchmark_empty_cache"),
}
