"""What the layer does not cover says so by name.

A name that is missing from `torch._C` would otherwise surface as an AttributeError somewhere inside
torch, or as a feature that is silently absent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["REFUSED_CLASSES", "REFUSED_FUNCTIONS", "NotCoveredError", "refuse", "refused_class"]

# Bindings of torch 2.13's CUDA build (torch/_C/__init__.pyi) that have no counterpart here.
REFUSED_FUNCTIONS = (
    "_cuda_allocationTraceback",
    "_cuda_attach_out_of_memory_observer",
    "_cuda_beginAllocateCurrentStreamToPool",
    "_cuda_changeCurrentAllocator",
    "_cuda_checkPoolLiveAllocations",
    "_cuda_cudaCachingAllocator_set_allocator_settings",
    "_cuda_cudaHostAllocator",
    "_cuda_customAllocator",
    "_cuda_getAllocator",
    "_cuda_getCheckpointState",
    "_cuda_getCurrentBlasHandle",
    "_cuda_getCurrentSolverHandle",
    "_cuda_getHipblasltVersion",
    "_cuda_jiterator_compile_and_launch_kernel",
    "_cuda_memorySnapshot",
    "_cuda_record_memory_history",
    "_cuda_record_memory_history_legacy",
    "_cuda_setCheckpointPoolState",
    "_cuda_setMemoryFraction",
    "_cuda_sleep",
    "_cuda_tunableop_get_filename",
    "_cuda_tunableop_get_results",
    "_cuda_tunableop_get_validators",
    "_cuda_tunableop_read_file",
    "_cuda_tunableop_set_filename",
    "_cuda_tunableop_set_max_tuning_duration",
    "_cuda_tunableop_set_max_tuning_iterations",
    "_cuda_tunableop_set_numerical_check_tolerances",
    "_cuda_tunableop_set_rotating_buffer_size",
    "_cuda_tunableop_get_max_tuning_duration",
    "_cuda_tunableop_get_max_tuning_iterations",
    "_cuda_tunableop_get_rotating_buffer_size",
    "_cuda_tunableop_get_rotation_buffer_size",
    "_construct_CUDA_Tensor_From_Storage_And_Metadata",
    "_nccl_all_gather",
    "_nccl_all_reduce",
    "_nccl_broadcast",
    "_nccl_init_rank",
    "_nccl_reduce",
    "_nccl_reduce_scatter",
    "_nccl_unique_id",
    "_nccl_version",
    "_nccl_version_suffix",
)
REFUSED_CLASSES = ("_CUDAGreenContext", "_cuda_CUDAAllocator")


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

    return type(name, (), {"__new__": refused_new})
