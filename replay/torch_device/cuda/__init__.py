"""The C bindings of torch.cuda, for a torch that was built without CUDA.

torch's own Python code in `torch.cuda` runs unchanged; what it calls in `torch._C` is provided
here, on top of the process' HIP runtime. `install` is to be called after `torch._C` is loaded and
before `torch.cuda` is imported. What is covered is listed in docs/torch-cuda.md; the rest refuses
by name.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

__all__ = ["bindings", "complete_if_installed", "install"]

# What torch.version.hip says. Libraries look whether it is there, rarely at the number.
HIP_VERSION = "7.2.0"


def bindings() -> dict[str, Any]:
    """Every name that is added to `torch._C`, with what stands behind it."""
    from . import cudart, device, graph, memory, refusal, settings, stream, tracing

    result: dict[str, Any] = {
        name: refusal.refuse(public) for name, public in refusal.REFUSED_FUNCTIONS.items()
    }
    for name, public in refusal.REFUSED_CLASSES.items():
        result[name] = refusal.refused_class(public)
    for module in (device, stream, memory, graph, settings):
        result |= module.BINDINGS
    result |= {"_cudart": cudart.make_module(), "_nvtx": tracing.make_module(), "_has_cuda": True}
    return result


def install(torch_c: ModuleType) -> None:
    """Add the bindings to `torch._C`."""
    import torch.version

    vars(torch_c).update(bindings())
    torch.version.hip = HIP_VERSION


def complete_if_installed(torch_cuda: ModuleType) -> None:
    """Replace what `torch.cuda` has decided by what the build lacks; called once it is loaded."""
    from . import device, inductor, memory, refusal, storage

    if torch_cuda._CudaDeviceProperties is not device.DeviceProperties:
        return
    for name in refusal.REFUSED_PUBLIC:
        setattr(torch_cuda, name, refusal.refuse(f"torch.cuda.{name}"))
    vars(torch_cuda)["device_memory_used"] = memory.used_bytes
    storage.allow_device_storages()
    inductor.allow_generated_code()
