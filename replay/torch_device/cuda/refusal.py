"""What the layer does not cover says so by name.

A name that is missing from `torch._C` would otherwise surface as an AttributeError somewhere inside
torch, or as a feature that is silently absent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__ = [
    "REFUSED_CLASSES",
    "REFUSED_FUNCTIONS",
    "REFUSED_PUBLIC",
    "NotCoveredError",
    "refuse",
    "refused_class",
]

# Bindings of torch 2.13's CUDA build (torch/_C/__init__.pyi) that have no counterpart here, with
# what their callers are called.
REFUSED_FUNCTIONS = {
    "_cuda_allocationTraceback": "torch.cuda.memory._allocation_traceback",
    "_cuda_attach_out_of_memory_observer": "torch._C._cuda_attach_out_of_memory_observer",
    "_cuda_beginAllocateCurrentStreamToPool": "torch._C._cuda_beginAllocateCurrentStreamToPool",
    "_cuda_changeCurrentAllocator": "torch.cuda.change_current_allocator",
    "_cuda_checkPoolLiveAllocations": "torch._C._cuda_checkPoolLiveAllocations",
    "_cuda_cudaHostAllocator": "torch.cuda.memory._host_allocator",
    "_cuda_customAllocator": "torch.cuda.CUDAPluggableAllocator",
    "_cuda_getAllocator": "torch.cuda.memory._get_current_allocator",
    "_cuda_getCheckpointState": "torch._C._cuda_getCheckpointState",
    "_cuda_getCurrentBlasHandle": "torch.cuda.current_blas_handle",
    "_cuda_getCurrentSolverHandle": "torch.cuda.current_solver_handle",
    "_cuda_getHipblasltVersion": "torch._C._cuda_getHipblasltVersion",
    "_cuda_hostMemoryStats": "torch.cuda.host_memory_stats",
    "_cuda_jiterator_compile_and_launch_kernel": "torch.cuda.jiterator",
    "_cuda_memorySnapshot": "torch.cuda.memory_snapshot",
    "_cuda_record_memory_history": "torch.cuda.memory._record_memory_history",
    "_cuda_record_memory_history_legacy": "torch.cuda.memory._record_memory_history",
    "_cuda_resetAccumulatedHostMemoryStats": "torch.cuda.reset_accumulated_host_memory_stats",
    "_cuda_resetPeakHostMemoryStats": "torch.cuda.reset_peak_host_memory_stats",
    "_cuda_setCheckpointPoolState": "torch._C._cuda_setCheckpointPoolState",
    "_cuda_setMemoryFraction": "torch.cuda.set_per_process_memory_fraction",
    "_cuda_sleep": "torch.cuda._sleep",
    "_cuda_tunableop_get_filename": "torch.cuda.tunable.get_filename",
    "_cuda_tunableop_get_results": "torch.cuda.tunable.get_results",
    "_cuda_tunableop_get_validators": "torch.cuda.tunable.get_validators",
    "_cuda_tunableop_read_file": "torch.cuda.tunable.read_file",
    "_cuda_tunableop_set_filename": "torch.cuda.tunable.set_filename",
    "_cuda_tunableop_set_max_tuning_duration": "torch.cuda.tunable.set_max_tuning_duration",
    "_cuda_tunableop_set_max_tuning_iterations": "torch.cuda.tunable.set_max_tuning_iterations",
    "_cuda_tunableop_set_numerical_check_tolerances": (
        "torch.cuda.tunable.set_numerical_check_tolerances"
    ),
    "_cuda_tunableop_set_rotating_buffer_size": "torch.cuda.tunable.set_rotating_buffer_size",
    "_cuda_tunableop_get_max_tuning_duration": "torch.cuda.tunable.get_max_tuning_duration",
    "_cuda_tunableop_get_max_tuning_iterations": "torch.cuda.tunable.get_max_tuning_iterations",
    "_cuda_tunableop_get_rotating_buffer_size": "torch.cuda.tunable.get_rotating_buffer_size",
    "_cuda_tunableop_get_rotation_buffer_size": "torch.cuda.tunable.get_rotating_buffer_size",
    "_nccl_all_gather": "torch.cuda.nccl.all_gather",
    "_nccl_all_reduce": "torch.cuda.nccl.all_reduce",
    "_nccl_broadcast": "torch.cuda.nccl.broadcast",
    "_nccl_init_rank": "torch.cuda.nccl.init_rank",
    "_nccl_reduce": "torch.cuda.nccl.reduce",
    "_nccl_reduce_scatter": "torch.cuda.nccl.reduce_scatter",
    "_nccl_unique_id": "torch.cuda.nccl.unique_id",
    "_nccl_version": "torch.cuda.nccl.version",
    "_nccl_version_suffix": "torch.cuda.nccl.version_suffix",
}
REFUSED_CLASSES = {
    "_CUDAGreenContext": "torch.cuda.GreenContext",
    "_cuda_CUDAAllocator": "torch._C._cuda_CUDAAllocator",
}
# Functions of torch.cuda that ask libraries of a real GPU's driver, or that assume CUDA's names.
REFUSED_PUBLIC = (
    "clock_rate",
    "get_gencode_flags",
    "list_gpu_processes",
    "memory_usage",
    "power_draw",
    "temperature",
    "utilization",
)


class NotCoveredError(NotImplementedError):
    """A function of torch.cuda that the emulated device does not offer.

    NotImplementedError is a RuntimeError, as torch raises it for what a build lacks.
    """

    def __init__(self, name: str) -> None:
        """Name the function that was called."""
        super().__init__(
            f"{name} is not covered by torch on asmevo's emulated device "
            "(docs/torch-cuda.md lists what is)"
        )


def refuse(name: str) -> Callable[..., NoReturn]:
    """A function of that name that refuses every call."""

    def refused(*arguments: Any, **options: Any) -> NoReturn:
        raise NotCoveredError(name)

    refused.__name__ = refused.__qualname__ = name
    return refused


def refused_class(name: str) -> type:
    """A class of that name that cannot be instantiated."""

    def refused_new(cls: type, *arguments: Any, **options: Any) -> NoReturn:
        raise NotCoveredError(name)

    members = {"__new__": refused_new, "create": staticmethod(refuse(name))}
    return type(name, (), members)
